"""Chores and glances of all layers, taken while a worker works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mainspring.db.database import Connection, Database
from mainspring.jobs.layer import JobLayer
from mainspring.kernel.layer import Chore, Layer
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settings import QueueSettings, WorkerSettings
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from visits import Visits, queue
from workers import Gauge


class Tidy(Layer):
    def __init__(self, chores: Sequence[Chore] = (), glances: Sequence[Chore] = ()) -> None:
        self.chores, self.glances = chores, glances

    def queues(self, pool: str) -> list[QueueSettings]:
        return []


@asynccontextmanager
async def looked_after(url: str, layer: Layer, *served: QueueSettings) -> AsyncIterator[JobLayer]:
    """A worker with the layer's chores, as assembly.py makes it."""
    database, settings = Database(url), WorkerSettings(**FAST_SETTINGS)
    port = WorkerPort.to(database, settings)
    jobs = JobLayer(database, port, [layer], settings)
    worker = Worker(database, served, settings, [layer, jobs], port=port)
    await worker.start()
    await jobs.start()
    try:
        yield jobs
    finally:
        await worker.stop()
        await jobs.close()
        await port.close()


async def test_what_is_held_first_does_not_wait_for_the_upkeep(
    visits: Visits, database_url: str
) -> None:
    """T5: old rows may take minutes to drop; what is marked before it starts, starts meanwhile."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def chore(database: Database, connection: Connection, *, days: int) -> None:
        begun.set()
        await over.wait()

    gauge = Gauge()
    async with looked_after(database_url, Tidy([chore]), queue(handler=gauge, hold_after=0)):
        try:
            await asyncio.wait_for(begun.wait(), 10)
            visits.offer("a")
            await wait_until(lambda: gauge.started == ["a"], 5)
        finally:
            over.set()


async def test_what_an_operator_sets_is_glanced_at_at_once(
    visits: Visits, database_url: str
) -> None:
    """T5: where there is nothing to look after a glance comes twice a minute, unless there is news."""
    taken: list[int] = []

    async def glance(database: Database, connection: Connection, *, days: int) -> bool:
        taken.append(days)
        return False

    async with looked_after(database_url, Tidy(glances=[glance])):
        await wait_until(lambda: len(taken) >= 1, 10)
        seen = len(taken)

        def is_told() -> bool:  # again: its listener may not listen yet
            visits.connection.execute("notify mainspring, 'settings'")
            return len(taken) > seen

        await wait_until(is_told, 10, every=0.1)


async def test_chores_begin_once_however_often_a_layer_is_started(
    visits: Visits, database_url: str
) -> None:
    """T11: a start is tried again while the database is away; nothing is done twice for it."""
    begun: list[int] = []

    async def chore(database: Database, connection: Connection, *, days: int) -> None:
        begun.append(days)

    async with looked_after(database_url, Tidy([chore])) as jobs:
        await jobs.start()
        await wait_until(lambda: bool(begun), 10)
    assert len(begun) == 1
