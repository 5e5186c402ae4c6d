"""Event loops and threads: coroutines that plain code runs, and threads that a coroutine waits for.

A run that was cancelled goes on for as long as its thread does. Its slot is the thread's: the runner counts
both as one, and lets them hang together if it takes too long.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from plain code, whether or not this thread has an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def run_here(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run on uvloop where it installs."""
    if sys.platform == "win32":
        asyncio.run(coroutine)
        return
    import uvloop

    uvloop.run(coroutine)


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
