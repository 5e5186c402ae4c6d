"""Entities as a layer: the stages of an application's kinds in one worker, and their crawls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mainspring.db.database import Database
from mainspring.entities import crawl, replay, resend
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.remote.peers import MakeCalls
from mainspring.entities.runtime import Runtime, kind_queues, start
from mainspring.kernel import Layer, QueueSettings, WorkerPort, WorkerSettings


class EntityLayer(Layer):
    """All kinds of an application; those of the worker's pool are run."""

    chores = (replay.keep_days,)

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        kinds: Mapping[str, DeclaredKind],
        settings: WorkerSettings,
        calls: MakeCalls | None = None,
    ) -> None:
        self._database = database
        self._worker = worker
        self._kinds = kinds
        self._slots = settings.concurrency
        self._calls = calls  # who calls stages elsewhere
        self._mine = [kind for kind in kinds.values() if kind.settings.pool == settings.pool]
        self._runtime: Runtime | None = None
        self.operations = {
            crawl.OPERATION: crawl.crawling(kinds),
            resend.OPERATION: resend.RESENDING,
            replay.OPERATION: replay.REPLAYING,
        }

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        line = self._worker.line()
        own = [
            crawl.crawl_queue(self._database, line, self._kinds, pool),
            resend.snapshot_queue(self._database, line, pool),
        ]
        if self._runtime is not None:
            return [*self._runtime.queues(), *own]
        declared = [queue for kind in self._kinds.values() for queue in kind_queues(kind)]
        return [*declared, *own]

    def pools(self) -> Collection[str]:
        return {kind.settings.pool for kind in self._kinds.values()}

    async def open(self) -> None:
        """Register kinds and stages, and look at their tables."""
        self._runtime = await start(
            self._database, self._worker, self._mine, threads=self._slots, calls=self._calls
        )

    async def close(self) -> None:
        if self._runtime is not None:
            await self._runtime.close()
