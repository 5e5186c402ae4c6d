"""Event loops: running coroutines from plain code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
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
