"""The engine's own work as a layer: every worker of a pool serves it."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.db.database import Database
from mainspring.db.shared import Haste
from mainspring.jobs.bulk import OPERATIONS
from mainspring.jobs.flood import mark
from mainspring.jobs.operation import adopt, operation_queue
from mainspring.jobs.recurring import recurring_queue
from mainspring.jobs.upkeep import keep_up
from mainspring.kernel import Layer, QueueSettings, WorkerPort, WorkerSettings


class JobLayer(Layer):
    """Bulk operations, those of other layers too, the ticks of recurring visits, and upkeep."""

    chores = (keep_up,)
    glances = (mark,)

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        layers: Sequence[Layer],
        settings: WorkerSettings,
    ) -> None:
        self._database = database
        self._worker = worker
        self._pool = settings.pool
        self._days = settings.history_days
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
        """Take on operations that were left alone."""
        line = self._worker.line()
        async with line.use() as connection, self._database.transaction(connection):
            await adopt(self._database, connection, self._pool)
