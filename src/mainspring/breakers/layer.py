"""Breakers as a layer: a worker has its judge of them, and old ones are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mainspring.breakers.breaking import Breaking
from mainspring.breakers.statements import SQL
from mainspring.db.database import Connection, Database
from mainspring.kernel import Layer, QueueSettings, QueueState, WorkerPort


async def forget_breakers(database: Database, connection: Connection, *, days: int) -> None:
    """Of those of which nobody has heard for a day."""
    await connection.run(SQL["forget_breakers"])


class BreakerLayer(Layer):
    """Breakers in one worker."""

    chores = (forget_breakers,)

    def __init__(self, worker: WorkerPort) -> None:
        self._worker = worker
        self.breaking: Breaking | None = None

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        """It has none."""
        return ()

    def judge(self, queues: Mapping[str, QueueState], look: Callable[[], None]) -> Breaking:
        """Who is told what the runs of these queues come to."""
        self.breaking = Breaking(self._worker.line(), queues, look=look)
        return self.breaking

    async def close(self) -> None:
        """Tell nothing more."""
        if self.breaking is not None:
            await self.breaking.close()
