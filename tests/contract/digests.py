"""A fifth layer, as a user would write one: what happens to a topic within a while is told of once.

It imports nothing but `mainspring` and the kernel's door.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel import (
    Done,
    Layer,
    Offer,
    Outcome,
    QueueSettings,
    Run,
    WorkerPort,
    WorkerSettings,
    offer_visits,
)

QUEUE = "digests"


async def happened(database: Database, connection: Any, topic: str, after: timedelta) -> None:
    """Note that something happened to a topic, in the caller's transaction."""
    now = await connection.fetchval("select mainspring.now()")
    await offer_visits(database, connection, [Offer(QUEUE, topic, now + after)])


class Digests(Layer):
    """Tells of each topic once for all that happened to it."""

    def __init__(self, database: Database, worker: WorkerPort, settings: WorkerSettings) -> None:
        self.worker = worker
        self.told: Counter[str] = Counter()
        self.life: list[str] = []
        self.tidied = 0
        self.chores = (self._tidy,)

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [QueueSettings(name=QUEUE, handler=self._tell, kind="digest")]

    def pools(self) -> Collection[str]:
        return {"default"}

    async def _tell(self, run: Run) -> Outcome:
        self.told[run.visit.key] += 1
        return Done()

    async def _tidy(self, database: Database, connection: Any, *, days: int) -> None:
        self.tidied = days

    async def open(self) -> None:
        self.life.append("open")
        assert self.worker.worker_id is None, "the worker has not joined its pool yet"

    async def start(self) -> None:
        self.life.append("start")

    async def close(self) -> None:
        self.life.append("close")
