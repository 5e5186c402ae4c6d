"""A worker with all its layers: made, opened, started and closed in one order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from mainspring.breakers.layer import BreakerLayer
from mainspring.db.database import Database
from mainspring.db.reconnecting import until_reachable
from mainspring.entities.layer import EntityLayer
from mainspring.jobs.layer import JobLayer
from mainspring.kernel import Layer, QueueSettings, WorkerPort, WorkerSettings
from mainspring.kernel.layer import declared_by, queues_of
from mainspring.kernel.worker import Worker
from mainspring.processes.layer import ProcessLayer
from mainspring.reactive.runtime import ReactiveLayer
from mainspring.stage_client import stage_calls
from mainspring.tasks.layer import TaskLayer

if TYPE_CHECKING:
    from mainspring.app import Mainspring


def layers_of(
    app: Mainspring, database: Database, worker: WorkerPort, settings: WorkerSettings
) -> list[Layer]:
    """The layers of one worker; those that the user added come after ours."""
    tasks = TaskLayer(database, worker, app.tasks, app.hooks, app.batches, settings=settings)
    processes = ProcessLayer(database, worker, app.registry, tasks)
    entities = EntityLayer(database, worker, app.kinds, settings, stage_calls)
    reactive = ReactiveLayer(database, worker, app, tasks.executor.call, pool=settings.pool)
    added = [make(database, worker, settings) for make in app.layers]
    layers: list[Layer] = [BreakerLayer(worker), tasks, processes, entities, reactive, *added]
    return [*layers, JobLayer(database, worker, layers, settings, app.schedules.declared)]


def declared(app: Mainspring, database: Database) -> tuple[list[QueueSettings], set[str]]:
    """All queues of an application as the database should know them, and the pools with work."""
    return declared_by(layers_of(app, database, WorkerPort.to(database), WorkerSettings()))


@asynccontextmanager
async def assemble(
    app: Mainspring, database: Database, settings: WorkerSettings
) -> AsyncIterator[Worker]:
    """A worker of a pool inside this event loop, for as long as the block lasts."""
    layers = layers_of(app, database, port := WorkerPort.to(database, settings), settings)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(port.close)
        for layer in layers:
            closing.push_async_callback(layer.close)
            await until_reachable(layer.open)
        worker = Worker(database, queues_of(layers, settings.pool), settings, layers, port=port)
        await worker.start()
        closing.push_async_callback(worker.stop)
        for layer in layers:
            await until_reachable(layer.start)
        yield worker
