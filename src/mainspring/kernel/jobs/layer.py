"""The engine's own work as a layer: every worker of a pool serves it."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.db.database import Database
from mainspring.kernel.jobs.bulk import OPERATIONS
from mainspring.kernel.jobs.operation import adopt, operation_queue
from mainspring.kernel.jobs.recurring import recurring_queue
from mainspring.kernel.layer import Layer
from mainspring.kernel.settings import QueueSettings


class JobLayer(Layer):
    """Bulk operations, those of other layers too, and the ticks of recurring visits."""

    def __init__(self, database: Database, layers: Sequence[Layer], *, pool: str) -> None:
        self._database = database
        self._pool = pool
        kinds = [OPERATIONS, *(layer.operations for layer in layers)]
        self._kinds = {name: kind for some in kinds for name, kind in some.items()}

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [
            operation_queue(self._database, self._kinds, pool),
            recurring_queue(self._database, pool),
        ]

    async def start(self) -> None:
        """Take on operations that were left alone."""
        connection = await self._database.connect("operation")
        try:
            async with self._database.transaction(connection):
                await adopt(self._database, connection, self._pool)
        finally:
            await connection.close(timeout=5)
