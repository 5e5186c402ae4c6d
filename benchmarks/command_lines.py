"""What a user would hand to the command lines: for `mainspring worker` an application, for `pgq run` a
factory. Run in each system's own environment; the other one's is not imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

Settings = dict[str, Any]


def command(name: str, url: str, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """The worker of a system as its manual starts it, and its environment. Of PgQueuer one flag more, by
    which it is several times as fast."""
    if name == "mainspring":
        place = "benchmarks.command_lines:mainspring_app"
        return [sys.executable, "-m", "mainspring", "worker", place], {"MAINSPRING_URL": url}
    batch = ["--batch-size", str(settings["batch"])]
    place = "benchmarks.command_lines:pgqueuer"
    return [sys.executable, "-m", "pgqueuer", "run", *batch, place], {"BENCH_URL": url}


def __getattr__(name: str) -> Any:
    if name == "mainspring_app":
        from benchmarks.systems.mainspring import System

        return System(os.environ["MAINSPRING_URL"], {}).app
    raise AttributeError(name)


@asynccontextmanager
async def pgqueuer() -> AsyncIterator[Any]:
    """A factory of PgQueuer's, over one connection."""
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    from benchmarks.probe import PROBE

    connection = await asyncpg.connect(os.environ["BENCH_URL"])
    manager = PgQueuer(AsyncpgDriver(connection))

    @manager.entrypoint("noop")
    async def noop(job: Any) -> None:
        json.loads(job.payload)
        PROBE.hit()

    try:
        yield manager
    finally:
        await connection.close()
