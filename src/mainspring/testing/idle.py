"""Running until nothing is due, and waiting for a condition: tests do both instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Unpack

from mainspring.app import Mainspring
from mainspring.loops import run_apart
from mainspring.testing.placed import only_present
from mainspring.testing.skipping import Skipping
from mainspring.worker_options import WorkerOptions

# A worker of a test has little to do and dies often: it beats and looks often too.
FAST_SETTINGS: WorkerOptions = {"lease": 1.0, "poll": 0.05, "grace": 5.0}
# The one that runs until idle does not die: its lease is long enough for a machine that is starved.
IDLE_SETTINGS: WorkerOptions = {**FAST_SETTINGS, "lease": 5.0}


async def run_until_idle(
    app: Mainspring,
    *,
    skip_time: bool = False,
    most_moves: int = 200,
    timeout: float = 30.0,
    **settings: Unpack[WorkerOptions],
) -> None:
    """Run a worker in this event loop until nothing is due, then stop it.

    What is scheduled for later does not count; move the clock and run again. With `skip_time` that is
    done for retries, delays and timers, until nothing waits for one (after `most_moves` of the clock
    TimeoutError says what goes on for ever); schedules and reactive triggers go
    on for ever and are left alone. Kinds whose tables are not there are left out. `settings` are those
    of `app.worker(...)`; where it shall take over from a worker that was killed before, a shorter
    `lease` waits less for that. Raises TimeoutError if work is left after `timeout` seconds.
    """
    chosen: WorkerOptions = {**IDLE_SETTINGS, **settings}
    await app.database()
    with only_present(app):
        async with app.worker(**chosen) as worker:
            skipping = Skipping(app, worker, most_moves)
            try:
                async with asyncio.timeout(timeout) as limit:
                    await (skipping.run() if skip_time else worker.drained())
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimeoutError(
                    f"something is still due or running after {timeout:g} s{skipping.told}"
                ) from None


def run_until_idle_sync(
    app: Mainspring,
    *,
    skip_time: bool = False,
    most_moves: int = 200,
    timeout: float = 30.0,
    **settings: Unpack[WorkerOptions],
) -> None:
    """The same for code that is not async."""
    run_apart(
        run_until_idle(app, skip_time=skip_time, most_moves=most_moves, timeout=timeout, **settings)
    )


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]],
    timeout: float = 5.0,
    *,
    every: float = 0.005,
) -> None:
    """Wait until a condition (a function, plain or async) holds; TimeoutError after `timeout`."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{_described(condition)} did not hold within {timeout:g} s")
        await asyncio.sleep(every)


def _described(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
