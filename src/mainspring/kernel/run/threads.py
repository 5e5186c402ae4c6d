"""Waiting for a thread: a run that was cancelled goes on for as long as its thread does.

Its slot is the thread's: the runner counts both as one, and lets them hang together if it takes too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(future: asyncio.Future[T], stop: Callable[[], object] = lambda: None) -> T:
    """What a thread brings. Cancelled, it `stop`s the thread and waits for its end; a second time, it does
    not wait any longer."""
    future.add_done_callback(_retrieve)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop()
        while not future.done():
            await asyncio.wait({future})
        raise


def _retrieve(future: asyncio.Future[T]) -> None:
    """asyncio complains of an exception that nobody asked for; a stopped run's is not wanted."""
    if not future.cancelled():
        future.exception()
