"""Processes as a layer: process types, the engine's own visits, and tasks where they are steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from mainspring.db.database import Database
from mainspring.db.sql import Steps
from mainspring.kernel import REMOTE, HeldVisit, Layer, NewlyParked, QueueSettings, WorkerPort
from mainspring.processes.declare.process import AnyProcess
from mainspring.processes.operate.bulk import KINDS
from mainspring.processes.operate.retention import thin
from mainspring.processes.registry import Registry
from mainspring.processes.run.actor import FunctionActor
from mainspring.processes.runtime import Processes
from mainspring.processes.scheduled import start_queue
from mainspring.processes.structural.sweep import sweep
from mainspring.tasks.declare.task import Task
from mainspring.tasks.layer import TaskLayer
from mainspring.tasks.run.queue import never_run


class ProcessLayer(Layer):
    """The processes of an application in one worker."""

    chores = (thin, sweep)
    operations = KINDS

    def __init__(
        self, database: Database, worker: WorkerPort, registry: Registry, tasks: TaskLayer
    ) -> None:
        self._database = database
        self._worker = worker
        self._registry = registry
        self._tasks = tasks
        self._shard_count = database.shard_count
        self.runtime = Processes(database, worker, registry.sealing)

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        types = self._registry.types
        queues = [process.settings.queue(never_run) for process in types.values()]
        for former, name in self._registry.former.items():
            if name in types:
                known = types[name].settings.queue(never_run)
            else:
                known = self._tasks.queue(self._registry.tasks[name])
            queues.append(replace(known, name=former))
        starts = [start_queue(self._database, pool)] if types else []
        return [self.runtime.engine_queue(pool), *starts, *queues]

    def pools(self) -> Collection[str]:
        return {process.settings.pool for process in self._registry.types.values()}

    def wrap(self, queue: QueueSettings) -> QueueSettings:
        """A task may be a step: its visits that belong to a process are run by what recorded them."""
        name = self._registry.former.get(queue.name, queue.name)
        if queue.kind == REMOTE:
            return self.runtime.remote_queue(queue)
        if (process := self._registry.types.get(name)) is not None:
            return self.runtime.actor_queue(self._actor(process), queue)
        if (task := self._registry.tasks.get(name)) is not None:
            return self.runtime.actor_queue(self._actor(task), queue, plain=queue.handler)
        return queue

    def _actor(self, callee: Task[..., Any] | AnyProcess) -> FunctionActor:
        helpers = None
        if isinstance(callee, Task) and callee.settings.executor == "process":
            helpers = self._tasks.helpers
        return FunctionActor(
            callee,
            self._tasks.executor,
            self._tasks.connections,
            self._registry.versions,
            shard_count=self._shard_count,
            seams=self.runtime,
            helpers=helpers,
        )

    async def open(self) -> None:
        """A child process starts in its type's pool: the types must be known before anything runs."""
        await self._registry.sync(self._database, self._worker.line())

    def take_overdue(self, held: Sequence[HeldVisit]) -> set[int]:
        return self.runtime.recovery.take_overdue(held)

    def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
        return self.runtime.recovery.parked(visits)

    def forget(self, versions: frozenset[int] | None) -> None:
        self.runtime.forget(versions)

    async def close(self) -> None:
        await self.runtime.close()
