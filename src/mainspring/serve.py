"""A process that is a worker's own: signals stop it, and Python's collector is kept calm."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from mainspring.kernel.worker import Worker

log = logging.getLogger("mainspring")

# A signal that comes again within this is the same one (a process group and a wrapper both send it).
ECHO_SECONDS = 0.1
# Python looks for cycles after so many new objects here, not every few hundred.
COLLECT_AFTER = 20_000


class WornOut(Exception):
    """So many runs hang in this process that another should take its place. It has left in order."""


async def serve(working: AbstractAsyncContextManager[Worker], *, drain: bool) -> None:
    """Run a worker until a signal stops it, or (`drain`) until nothing is due.

    The first SIGTERM or SIGINT stops it in order; a second one ends the process at once.
    """
    loop = asyncio.get_running_loop()
    stop, begun = asyncio.Event(), False
    first_at = 0.0

    async def work() -> None:
        nonlocal begun
        async with working as worker:
            begun = True
            ends: list[Coroutine[Any, Any, object]] = [stop.wait(), worker.rejected()]
            if drain:
                ends.append(worker.drained())
            if worker.settings.fence == "exit":  # the process is the worker's own
                ends.append(worn_out(worker))
            waits = [loop.create_task(end) for end in ends]
            done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in pending:
                wait.cancel()
            for wait in done:
                wait.result()  # a worker that may not work, or no longer can, says why

    async def worn_out(worker: Worker) -> None:
        await worker.worn_out()
        raise WornOut("too many runs hang: another process should take this one's place")

    def signalled() -> None:
        nonlocal first_at
        if not stop.is_set():
            first_at = loop.time()
            stop.set()
            if not begun:
                work_task.cancel()  # it may wait for a database that is away
        elif loop.time() - first_at > ECHO_SECONDS:
            log.warning("worker.ended_at_once")
            os._exit(130)

    work_task = loop.create_task(work())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        with _calm_collector():
            await work_task
    except asyncio.CancelledError:
        if begun or not stop.is_set():
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextmanager
def _calm_collector() -> Iterator[None]:
    """Thousands of runs in hand are no garbage, nor is what was imported: look through it rarely."""
    thresholds = gc.get_threshold()
    gc.freeze()
    if thresholds[0]:  # 0: the application wants none
        gc.set_threshold(max(COLLECT_AFTER, thresholds[0]), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
