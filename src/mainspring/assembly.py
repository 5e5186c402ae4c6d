"""A worker with all its layers: the queues that each brings, and what begins and ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool
from mainspring.db.until_reachable import insist
from mainspring.entities.crawl import OPERATION, crawl_queue, crawling
from mainspring.entities.kind import Kind
from mainspring.entities.runtime import kind_queues
from mainspring.entities.runtime import start as start_stages
from mainspring.kernel.jobs.bulk import KINDS
from mainspring.kernel.jobs.operation import adopt, operation_queue
from mainspring.kernel.jobs.recurring import recurring_queue, sync_recurring
from mainspring.kernel.settings import DEFAULT_POOL, QueueSettings, WorkerSettings
from mainspring.kernel.worker import Worker
from mainspring.processes.operate.retention import thin
from mainspring.processes.registry import Hub
from mainspring.processes.structural.sweep import sweep
from mainspring.reactive.declare.register import PoolSettings
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.values import Param
from mainspring.reactive.runtime import Runtime as Reactive
from mainspring.reactive.runtime import declared_queues
from mainspring.tasks.declare.task import Task
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.execute import Executor
from mainspring.tasks.run.queue import never_run, queue_settings, schedule


class Declared(Protocol):
    """What an application has declared."""

    tasks: dict[str, Task[Any, Any]]
    kinds: dict[str, Kind]
    reactive_tasks: dict[str, ReactiveTask]
    params: dict[str, Param]
    reactive_pools: dict[str, PoolSettings]
    hub: Hub  # the process types


def idle_queues(app: Declared, database: Database) -> list[QueueSettings]:
    """All queues of an application as the database should know them; none of them can run."""
    queues = [queue_settings(task, never_run) for task in app.tasks.values()]
    queues += app.hub.declared_queues()
    for kind in app.kinds.values():
        queues += kind_queues(kind)
    for pool in {DEFAULT_POOL, *(queue.pool for queue in queues)}:
        queues += _own_queues(database, app.kinds, pool)
    return queues + declared_queues(app.reactive_tasks.values(), never_run)


def pools_of(app: Declared) -> set[str]:
    """The pools in which an application has something to run."""
    declared = (app.tasks, app.kinds, app.reactive_tasks, app.hub.types)
    return {one.settings.pool for some in declared for one in some.values()}


@asynccontextmanager
async def crew(
    app: Declared, database: Database, pool: AsyncPool, settings: WorkerSettings
) -> AsyncIterator[Worker]:
    """A worker of a pool inside this event loop, for as long as the block lasts."""
    kinds = [kind for kind in app.kinds.values() if kind.settings.pool == settings.pool]
    stages = await insist(lambda: start_stages(database, kinds, threads=settings.concurrency))
    holder: list[Worker] = []
    connections = Connections(database, lambda: holder[0].hand.worker_id)
    executor = Executor(connections, threads=settings.concurrency)
    reactive = Reactive(
        database,
        app.reactive_tasks,
        app.params.values(),
        app.reactive_pools.values(),
        executor.call,
        pool=settings.pool,
    )
    processes, queues = app.hub.layer(database, executor, connections, pool=settings.pool)
    queues += stages.queues()
    queues += reactive.queues()
    queues += _own_queues(database, app.kinds, settings.pool)
    worker = Worker(database, queues, settings)
    worker.mind.interrupt = executor.interrupt
    worker.mind.cut_off = lambda threads: connections.in_use.cut(threads_only=threads)
    reactive.offered = worker.reader.hint
    processes.take_in, processes.serves = worker.take_in, worker.serves
    worker.forget = processes.forget
    worker.mind.take_overdue = processes.recovery.take_overdue
    processes.recovery.overtaken = worker.overtaken
    worker.chores += [thin, sweep]
    holder.append(worker)
    try:
        # Before anything runs: a child process starts in its type's pool.
        await insist(app.hub.sync)
        await worker.start()
        try:
            await insist(lambda: _sync(app, database, pool, settings.pool))
            await insist(reactive.start)
            yield worker
        finally:
            await worker.stop()
    finally:
        await reactive.close()
        executor.close()
        await processes.close()
        await connections.close()
        await stages.close()


def _own_queues(database: Database, kinds: Mapping[str, Kind], pool: str) -> list[QueueSettings]:
    """The engine's own queues, which every worker of a pool serves."""
    return [
        operation_queue(database, {**KINDS, OPERATION: crawling(kinds)}, pool),
        recurring_queue(database, pool),
        crawl_queue(database, kinds, pool),
    ]


async def _sync(app: Declared, database: Database, pool: AsyncPool, pool_name: str) -> None:
    """Make the cron lines of the tasks known, and take on operations that were left alone."""
    schedules = [s for task in app.tasks.values() if (s := schedule(task)) is not None]
    async with pool.connection(transaction=True) as connection:
        await sync_recurring(database, connection, schedules, queues=app.tasks)
        await adopt(database, connection, pool_name)
