"""What a layer may ask of its worker and tell it, in the worker's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from mainspring import clock
from mainspring.db.database import Database
from mainspring.db.shared import PLAIN, SIDE, Haste, SharedConnections, SharedLine
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.visit import Run, Visit

if TYPE_CHECKING:
    from mainspring.kernel.worker import Worker


class WorkerPort:
    """A worker's port. It exists before the worker does: layers are made first, for their queues. Until
    then nothing is served, and what it is told concerns nobody."""

    def __init__(self, connections: SharedConnections | None = None) -> None:
        self._connections = connections
        self._worker: Worker | None = None
        self.news = asyncio.Event()  # set when an operator may have set something
        self.told_of_ends: Callable[[Sequence[Run]], None] | None = None

    def tell_ends(self, told: Callable[[Sequence[Run]], None]) -> None:
        """Have this called for runs that have ended, many at once; before the worker is made."""
        self.told_of_ends = told

    @classmethod
    def to(cls, database: Database, settings: WorkerSettings | None = None) -> WorkerPort:
        """One with connections: the worker's, but the heart's and the one that listens, if any. None is
        opened before it is needed."""
        most = (settings or WorkerSettings()).connections
        return cls(SharedConnections(database, most - (1 if database.pooled else 2)))

    def attach(self, worker: Worker) -> None:
        """From now on this worker is meant."""
        self._worker = worker

    async def close(self) -> None:
        """Close the connections, when nobody uses them any more."""
        if self._connections is not None:
            await self._connections.close()

    def line(
        self, role: str = SIDE, haste: Haste = Haste.SHORT, settings: Mapping[str, str] = PLAIN
    ) -> SharedLine:
        """A line to the database: it shares the worker's connections. Lines of one role have the same
        settings; those of the role `side` have none of their own."""
        assert self._connections is not None, "this port leads to no database"
        return self._connections.line(role, haste, settings)

    @property
    def worker_id(self) -> UUID | None:
        """Under which the worker has joined its pool; None while it has not."""
        return None if self._worker is None else self._worker.owned.worker_id

    def offered(self, queue: str, due_at: datetime) -> None:
        """This process has offered visits to a queue: the reader looks for them at that time."""
        if self._worker is not None:
            self._worker.reader.hint(queue, due_at)

    def take_in(self, visits: Sequence[Visit]) -> None:
        """Visits that this process has committed: those of the worker's shards start without a read."""
        if (worker := self._worker) is None:
            return
        buffer, owned = worker.buffer, worker.owned
        room = buffer.tuning.taken_in - buffer.size - worker.settler.unsettled
        known = [v for v in visits[: max(0, room)] if v.queue in buffer.queues]
        if fresh := buffer.new_of(owned.own_of(known), owned.shards):
            buffer.add(fresh)
            buffer.met(fresh, clock.local())
            worker.filled()

    def serves(self, queue: str, shard: int) -> bool:
        """Whether a visit of this queue and shard is the worker's to start."""
        if (worker := self._worker) is None:
            return False
        return queue in worker.buffer.queues and shard in worker.owned.shards_of(queue)

    def call_soon(self, action: Callable[..., None], *values: object) -> None:
        """Call something in the worker's event loop. From any thread, as the only method here."""
        if self._worker is not None:
            self._worker.loop_port.tell(action, *values)

    def overtaken(self, visits: Sequence[Visit], *, void: bool) -> None:
        """A layer has freed visits whose runs lasted too long. If one of them is the worker's, it goes on
        without its slot, or (`void`: its result does not count any more) is stopped. The visit may be run
        again, here too."""
        if (worker := self._worker) is None:
            return
        versions = {visit.version for visit in visits}
        mine = [run for run in worker.owned.active() if run.visit.version in versions]
        worker.loop_port.overtaken(mine, void)
        for visit in visits:
            if visit.queue in worker.buffer.queues:
                worker.buffer.forget(visit)
                worker.reader.left(visit)
