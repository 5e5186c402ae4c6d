"""The application of the crash tests of reactive tasks: a loader, a mart and a report in a row."""

from __future__ import annotations

import asyncio
import os

from mainspring import Mainspring, RetryPolicy
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta

SOON = RetryPolicy(first=0.02, most=0.05)


def make(url: str | None = None) -> Mainspring:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    raw = app.data("raw.orders").param("n", kind="integer")
    mart = app.data("mart.orders").param("n", kind="integer")
    app.reactive_pool(cap=2)

    @app.task(when=Delta(raw), produces=[mart], retry=SOON)
    async def build(run: ReactiveRun) -> None:
        await asyncio.sleep(float(os.environ.get("CRASH_NAP", "0")))
        run.advance(mart, run.current[raw], if_greater=True)

    @app.task(when=Delta(mart), priority=8, retry=SOON)
    async def report(run: ReactiveRun) -> None:
        await asyncio.sleep(0)

    return app


app = make()
