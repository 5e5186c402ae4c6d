"""Plain tasks as a layer: their queues, the threads, helpers and connections that they use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mainspring.db.database import Connection, Database
from mainspring.hooks.layer import HookLayer
from mainspring.hooks.registry import Hooks
from mainspring.kernel import QueueSettings, Run, WorkerPort, WorkerSettings
from mainspring.tasks.batches.collector import Collector
from mainspring.tasks.declare.batch import BatchFunction
from mainspring.tasks.declare.task import Task
from mainspring.tasks.enqueue.keys import tell_keys
from mainspring.tasks.helpers.helpers import Helpers
from mainspring.tasks.keep.retention import drop_old, keep_retention
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.execute import Executor
from mainspring.tasks.run.progress import drop_progress
from mainspring.tasks.run.queue import never_run, queue_settings


class TaskLayer(HookLayer):
    """The tasks of an application in one worker. Other layers run users' functions by its executor."""

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        tasks: Mapping[str, Task[..., object]],
        hooks: Hooks,
        batches: Mapping[str, BatchFunction],
        *,
        settings: WorkerSettings,
    ) -> None:
        needs = {each for task in tasks.values() for each in task.signature.needs.values()}
        super().__init__(hooks, needs)
        if hooks.counters is not None:
            worker.tell_ends(hooks.counters.count)
        self._database = database
        self._worker = worker
        self._tasks = tasks
        self._batches = batches
        self._collectors: dict[str, Collector] = {}
        self._pool = settings.pool
        self.chores = (drop_progress, drop_old, self._tell_keys)
        self.connections = Connections(database, worker)
        self.executor = Executor(self.connections, threads=settings.concurrency, around=self.around)
        self.helpers = Helpers(self.connections, settings.helpers, runs_each=settings.helper_runs)

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        return [self.queue(task) for task in self._tasks.values()]

    def queue(self, task: Task[..., object]) -> QueueSettings:
        """The queue of one task."""
        if task.settings.executor == "process":
            return _sealed(task, self.around_all(self.helpers.queue(task)))
        if (batch := self._batches.get(task.name)) is not None:
            collector = self._collectors.setdefault(
                task.name, Collector(batch, task, self.connections)
            )
            return _sealed(task, self.around_all(collector.queue()))
        handler = never_run if task.settings.remote else self.executor.handler(task)
        return queue_settings(task, handler)

    def pools(self) -> Collection[str]:
        return {task.settings.pool for task in self._tasks.values()}

    async def open(self) -> None:
        """Upkeep of any worker drops what these tasks keep for less long than others."""
        await super().open()
        settings = [task.settings for task in self._tasks.values()]
        async with self._worker.line().use() as connection:
            await keep_retention(connection, settings)

    async def start(self) -> None:
        self.helpers.start(self._pool)

    async def _tell_keys(self, database: Database, connection: Connection, *, days: int) -> None:
        """For the doctor: which keys this worker can open. They may change at any time."""
        sealings = (task.signature.sealing for task in self._tasks.values())
        found = {key for s in sealings if s is not None for key in s.cipher.key_ids}
        if found and (worker_id := self._worker.worker_id) is not None:
            await tell_keys(connection, worker_id, sorted(found))

    def interrupt(self, runs: Sequence[Run]) -> None:
        self.executor.interrupt(runs)
        self.helpers.interrupt(runs)
        for collector in self._collectors.values():
            collector.interrupt(runs)

    def cut(self, *, threads_only: bool) -> None:
        self.connections.in_use.cut(threads_only=threads_only)

    async def close(self) -> None:
        for collector in self._collectors.values():
            await collector.close()
        await self.helpers.close()
        await self.connections.progress.close()
        self.executor.close()
        await self.connections.close()
        await super().close()


def _sealed(task: Task[..., object], queue: QueueSettings) -> QueueSettings:
    """The queue; where payloads are encrypted, so are the texts of failures."""
    sealing = task.signature.sealing
    return queue if sealing is None else replace(queue, handler=sealing.sealed(queue.handler))
