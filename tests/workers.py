"""Workers of the kernel inside a test's event loop, and gauges of what they run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel.layer import Layer
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settings import QueueSettings, WorkerSettings
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run
from mainspring.kernel.worker import Worker
from mainspring.testing.idle import FAST_SETTINGS


@asynccontextmanager
async def working(
    url: str,
    *queues: QueueSettings,
    pooled: bool = False,
    wait: bool = True,
    layers: Sequence[Layer] = (),
    port: WorkerPort | None = None,
    tuning: Tuning = DEFAULT,
    **settings: Any,
) -> AsyncIterator[Worker]:
    """A worker that has its shards and reads."""
    chosen = WorkerSettings(**FAST_SETTINGS | {"grace": 2.0} | settings)
    worker = Worker(Database(url, pooled=pooled), queues, chosen, layers, tuning, port)
    await worker.start()
    try:
        if wait:
            async with asyncio.timeout(10):
                await worker.ready()
        yield worker
    finally:
        await worker.stop()


class Gauge:
    """A handler that counts what runs at once, by whatever `by` answers for a run."""

    def __init__(self, by: Any = lambda run: run.visit.queue, seconds: float = 0.01) -> None:
        self._by = by
        self._seconds = seconds
        self.running: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()
        self.started: list[str] = []
        self.started_at: list[float] = []

    async def __call__(self, run: Run) -> Outcome:
        what = self._by(run)
        self.started.append(run.visit.key)
        self.started_at.append(asyncio.get_running_loop().time())
        self.running[what] += 1
        self.most[what] = max(self.most[what], self.running[what])
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.running[what] -= 1
        return Done()


class Gate:
    """A handler whose runs wait until the test opens it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.runs: list[Run] = []
        self.ended: list[str] = []

    @property
    def keys(self) -> set[str]:
        return {run.visit.key for run in self.runs}

    async def __call__(self, run: Run) -> Outcome:
        self.runs.append(run)
        await self.open.wait()
        self.ended.append(run.visit.key)
        return Done()
