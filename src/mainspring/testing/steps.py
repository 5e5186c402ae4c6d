"""Named steps of a worker: watched, waited for, died at.

The engine names the places where a crash would tell whether its promises hold (`STEPS`). A test
waits for one instead of sleeping, or kills a worker process at one:

    async with watch() as seen:
        await seen.wait("page.read")

    with WorkerProcess("shop.tasks:app", url, die_at="settle.sending") as worker:
        worker.wait_dead()
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mainspring import crash_points
from mainspring.crash_points import STEPS, die_at

__all__ = ["STEPS", "SeenSteps", "die_at", "watch"]


class SeenSteps:
    """The steps that workers of this process have reached since the watch began."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()  # steps are reached in several threads
        self._reactions: dict[str, list[Callable[[], None]]] = {}
        self._news = asyncio.Event()
        self.all: list[str] = []

    def count(self, step: str) -> int:
        """How often a step was reached."""
        with self._lock:
            return Counter(self.all)[_known(step)]

    def at(self, step: str, reaction: Callable[[], None]) -> None:
        """Call a function whenever a step is reached, in the thread that reaches it.

        What it raises is raised there: the way to make a step fail.
        """
        self._reactions.setdefault(_known(step), []).append(reaction)

    async def wait(self, step: str, times: int = 1, *, timeout: float = 5.0) -> None:
        """Wait until a step was reached so many times since the watch began."""
        try:
            async with asyncio.timeout(timeout):
                while self.count(step) < times:
                    self._news.clear()
                    if self.count(step) < times:
                        await self._news.wait()
        except TimeoutError:
            raise TimeoutError(
                f"step {step!r} was reached {self.count(step)} times in {timeout:g} s, not {times}"
            ) from None

    def _reached(self, step: str) -> None:
        with self._lock:
            self.all.append(step)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)
        for reaction in self._reactions.get(step, ()):
            reaction()


def _known(step: str) -> str:
    if step not in STEPS:
        raise ValueError(f"no step is named {step!r}; there are {', '.join(STEPS)}")
    return step


@asynccontextmanager
async def watch() -> AsyncIterator[SeenSteps]:
    """Watch the steps of all workers in this process, for as long as the block lasts."""
    seen, before = SeenSteps(asyncio.get_running_loop()), crash_points.listener
    crash_points.listener = seen._reached
    try:
        yield seen
    finally:
        crash_points.listener = before
