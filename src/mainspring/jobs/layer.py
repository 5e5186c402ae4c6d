"""The engine's own work as a layer: every worker of a pool serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mainspring.db.database import Database
from mainspring.db.shared import Haste
from mainspring.jobs.bulk import OPERATIONS
from mainspring.jobs.chores import run_chores, run_glances
from mainspring.jobs.flood import mark
from mainspring.jobs.operation import adopt, operation_queue
from mainspring.jobs.recurring import sync_recurring
from mainspring.jobs.schedule import Schedule
from mainspring.jobs.ticking import recurring_queue
from mainspring.jobs.upkeep import keep_up
from mainspring.kernel import Layer, QueueSettings, WorkerPort, WorkerSettings


class DeclaredSchedules(NamedTuple):
    """What the code declares, the names of its tasks and process types, and those that they had before."""

    schedules: Sequence[Schedule] = ()
    targets: Collection[str] = ()
    former: Mapping[str, str] = MappingProxyType({})


class JobLayer(Layer):
    """Bulk operations and chores, those of other layers too, and the ticks of recurring visits."""

    chores = (keep_up,)
    glances = (mark,)

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        layers: Sequence[Layer],
        settings: WorkerSettings,
        declared: Callable[[], DeclaredSchedules] = DeclaredSchedules,
    ) -> None:
        """`declared`: the schedules of the code, and all that they could start."""
        self._database = database
        self._worker = worker
        self._pool = settings.pool
        self._declared = declared
        self._days = settings.history_days
        self._layers: list[Layer] = [*layers, self]
        self._chores: list[asyncio.Task[None]] = []
        kinds = [OPERATIONS, *(layer.operations for layer in layers)]
        self._kinds = {name: kind for some in kinds for name, kind in some.items()}

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [
            operation_queue(self._database, self._worker.line(haste=Haste.LONG), self._kinds, pool),
            recurring_queue(self._database, self._worker.line(), pool),
        ]

    async def open(self) -> None:
        """Make the days of history that the first runs will need."""
        async with self._worker.line().use() as connection:
            await keep_up(self._database, connection, days=self._days)

    async def start(self) -> None:
        """Take on operations that were left alone, and make the schedules of the code known."""
        line = self._worker.line()
        async with line.use() as connection, self._database.transaction(connection):
            await adopt(self._database, connection, self._pool)
        declared = self._declared()
        async with line.use() as connection, self._database.transaction(connection):
            await sync_recurring(
                self._database,
                connection,
                declared.schedules,
                targets=declared.targets,
                former=declared.former,
            )
        if not self._chores:
            loop = asyncio.get_running_loop()
            self._chores = [loop.create_task(chores) for chores in self._loops()]

    def _loops(self) -> Iterator[Coroutine[None, None, None]]:
        database, line, days = self._database, self._worker.line, self._days
        chores = [chore for layer in self._layers for chore in layer.chores]
        yield run_chores(database, line(haste=Haste.LONG), chores, days=days)
        glances = [glance for layer in self._layers for glance in layer.glances]
        yield run_glances(database, line(), glances, self._worker.news, days=days)

    async def close(self) -> None:
        for chores in self._chores:
            chores.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
