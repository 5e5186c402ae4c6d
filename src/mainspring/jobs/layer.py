"""The engine's own work as a layer: every worker of a pool serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence

from mainspring.db.database import Connection, Database
from mainspring.db.shared import Haste
from mainspring.jobs.bulk import OPERATIONS
from mainspring.jobs.chores import run_chores, run_glances
from mainspring.jobs.flood import mark
from mainspring.jobs.operation import adopt, operation_queue
from mainspring.jobs.recurring import sync_recurring, take_along
from mainspring.jobs.schedule import DeclaredSchedules
from mainspring.jobs.ticking import recurring_queue
from mainspring.jobs.upkeep import keep_up
from mainspring.kernel import Layer, QueueSettings, WorkerPort, WorkerSettings


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
        self._known = DeclaredSchedules()  # what was declared at the start
        self._days = settings.history_days
        self._layers: list[Layer] = [*layers, self]
        self._chores: list[asyncio.Task[None]] = []
        kinds = [OPERATIONS, *(layer.operations for layer in layers)]
        self._kinds = {name: kind for some in kinds for name, kind in some.items()}

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [
            operation_queue(self._database, self._worker.line(haste=Haste.LONG), self._kinds, pool),
            recurring_queue(self._database, self._worker.line(), pool, known=lambda: self._known),
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
        self._known = declared = self._declared()
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
        if self._known.former:
            glances.append(self._take_along)
        yield run_glances(database, line(), glances, self._worker.news, days=days)

    async def _take_along(self, database: Database, connection: Connection, *, days: int) -> bool:
        """Ticks of a schedule that the release before declares again may be made by its own workers."""
        known = self._known
        async with database.transaction(connection):
            await take_along(database, connection, known.schedules, known.former)
        return True

    async def close(self) -> None:
        for chores in self._chores:
            chores.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
