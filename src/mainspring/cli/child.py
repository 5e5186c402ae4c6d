"""One worker process: what the supervisor starts, as `python -m mainspring.cli.child`."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from mainspring.app import Mainspring
from mainspring.cli import codes, log, show
from mainspring.cli.target import load_app
from mainspring.db.reconnecting import until_let_in
from mainspring.hooks.counters import RunCounters, read_counts
from mainspring.kernel.worker import Worker
from mainspring.loops import run_here
from mainspring.serve import WornOut, serve
from mainspring.server.settings import ServeSettings

_PR_SET_PDEATHSIG = 1
_COUNTS_SECONDS = 1.0
_ATEXIT_SECONDS = 5.0  # for what is flushed at the end of a process


class Orders(msgspec.Struct, frozen=True):
    """What a worker process is told by its supervisor."""

    place: str
    settings: dict[str, Any]
    parent: int
    drain: bool = False
    redirected: bool = (
        False  # to the database of MAINSPRING_URL: arguments are seen by all, it is not
    )
    log_level: str = "info"
    log_json: bool = False
    worker_id: UUID | None = None
    serve: ServeSettings | None = None  # beside its work
    counts: str | None = None  # a file for what it counts
    exit_mark: int | None = None  # a file that the supervisor reads when this process has ended


def main(orders: Orders) -> None:
    """Run the worker and leave: threads that hang must not keep the process."""
    die_with(orders.parent)
    log.configure(orders.log_level, json=orders.log_json)
    code = codes.PROBLEM
    try:
        app = load_app(orders.place)
        if orders.redirected:
            app.redirect(os.environ["MAINSPRING_URL"])
        run_here(_work(app, orders))
        code = codes.OK
    except Exception as error:
        code = codes.code_of(error) or codes.PROBLEM
        if codes.code_of(error) is None:
            logging.getLogger("mainspring").exception("worker.failed")
        else:
            show.complain(str(error))
    finally:
        _leave(code)


async def _work(app: Mainspring, orders: Orders) -> None:
    await until_let_in(app.database)
    code = codes.OK
    async with app:
        try:
            await serve(_working(app, orders), drain=orders.drain)
        except WornOut:
            code = codes.WORN_OUT
    _leave(code)  # from within: the loop's own end would wait for what hangs


@asynccontextmanager
async def _working(app: Mainspring, orders: Orders) -> AsyncIterator[Worker]:
    """The worker, and the server beside it: open when its queues are known, closed before it stops."""
    working = app.worker(
        fence="exit",
        worker_id=orders.worker_id,
        exit_mark=orders.exit_mark,
        **orders.settings,
    )
    counting = nullcontext() if orders.counts is None else _counting(app, Path(orders.counts))
    async with counting, working as worker, _door(app, orders.serve):
        yield worker


@asynccontextmanager
async def _counting(app: Mainspring, file: Path) -> AsyncIterator[None]:
    """Count runs, and write it for those who ask: each second, and at the end."""
    counters = app.hooks.count_runs(RunCounters(read_counts(file)))

    async def write() -> None:
        while True:
            await asyncio.sleep(_COUNTS_SECONDS)
            counters.write(file)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        counters.write(file)


def _door(app: Mainspring, settings: ServeSettings | None) -> AbstractAsyncContextManager[object]:
    """The server beside the worker, or nothing."""
    if settings is None:
        return nullcontext()
    from mainspring.server.door import Door

    return Door(app, settings)


def _leave(code: int) -> None:
    """End, whatever hangs: not before what users registered with `atexit` has run, but for so long only."""
    last = threading.Thread(target=atexit._run_exitfuncs, name="mainspring.atexit", daemon=True)
    last.start()
    last.join(_ATEXIT_SECONDS)
    log.flush()
    os._exit(code)


def die_with(parent: int) -> None:
    """Be told to stop when the supervisor dies, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        _leave(codes.PROBLEM)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Orders))
