"""Reactive tasks that wait until the test opens them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tables import FAST_SETTINGS, Worker

from mainspring import Mainspring
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.values import Param


class Gate:
    """A task that waits until the test opens it, and notes what it saw."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.started = asyncio.Event()
        self.runs: list[dict[Param, Any]] = []
        self.fail = 0  # so many runs fail

    async def __call__(self, run: ReactiveRun) -> None:
        self.runs.append(dict(run.current))
        self.started.set()
        await self.open.wait()
        if self.fail:
            self.fail -= 1
            raise RuntimeError("the warehouse is closed")


@asynccontextmanager
async def working_until_started(app: Mainspring, gate: Gate) -> AsyncIterator[Worker]:
    """A worker, from the moment at which the gated task runs."""
    async with app.worker(**FAST_SETTINGS | {"lease": 5.0}) as kernel:
        async with asyncio.timeout(10):
            await gate.started.wait()
        try:
            yield Worker(kernel)
        finally:
            gate.open.set()


def declare(app: Mainspring, gate: Gate, *, name: str = "daily", **settings: Any) -> None:
    """A reactive task that goes through a gate."""

    async def gated(run: ReactiveRun) -> None:
        await gate(run)

    app.task(name=name, **settings)(gated)
