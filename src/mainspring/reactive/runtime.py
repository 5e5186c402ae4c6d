"""The reactive layer of one worker: its queues, its connections, its registration.

Spreading, checking and starting each have a connection, opened when first needed, and serve what
comes in batches. When nothing changes no statement is sent for any task, but for one look a minute at
what other releases declare.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol
from uuid import uuid4

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.kernel import (
    DEFAULT_POOL,
    Handler,
    Layer,
    Offer,
    Outcome,
    QueueSettings,
    RetryPolicy,
    Run,
    WorkerPort,
    offer_new_visits,
)
from mainspring.reactive.batch import ServedBatch
from mainspring.reactive.declare.register import LIVING_SECONDS, PoolSettings, apply_again, register
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.values import Param
from mainspring.reactive.queues import (
    ADMIT,
    AUDIT,
    CHANGE,
    CHECK,
    EXPECT,
    RUN,
    run_queue,
)
from mainspring.reactive.run.finish import FinishRuns
from mainspring.reactive.run.run import Execute, Runs, Start
from mainspring.reactive.schedule.admit import Admit
from mainspring.reactive.schedule.audit import KEY, Audit, retire
from mainspring.reactive.schedule.change import Spread
from mainspring.reactive.schedule.check import Check, Definitions
from mainspring.reactive.schedule.expect import Expect
from mainspring.reactive.statements import ask

log = logging.getLogger("mainspring")
# The scheduler's own visits are never given up.
FOREVER = RetryPolicy(attempts=1_000_000, first=0.05, most=10)
# So many deaths before a visit is parked: a death is counted in the task's own state.
CRASHES = 1000
# Params whose consumers are judged together; each has four on average before they are too many.
CHANGES = 250


class Declarations(Protocol):
    """What an application has declared for this layer."""

    reactive_tasks: dict[str, ReactiveTask]
    params: dict[str, Param]
    reactive_pools: dict[str, PoolSettings]


class ReactiveLayer(Layer):
    """What a worker needs to run reactive tasks."""

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        declared: Declarations,
        execute: Execute,
        *,
        pool: str,
    ) -> None:
        self._database = database
        tasks = self._tasks = declared.reactive_tasks
        self._params = list(declared.params.values())
        self._pools = list(declared.reactive_pools.values())
        self._pool = pool
        self._id = uuid4()
        self._lines = [Line(database, f"reactive-{role}") for role in ("spread", "check", "run")]
        spreading, checking, running = self._lines
        definitions = Definitions(database)
        check = Check(database, definitions, offered=worker.offered)
        self._start = Start(database)
        start = ServedBatch(running, self._start)
        self._batches: dict[str, ServedBatch[str, Outcome]] = {
            CHANGE: ServedBatch(
                spreading, Spread(database, check, offered=worker.offered), most=CHANGES
            ),
            CHECK: ServedBatch(checking, check),
            ADMIT: ServedBatch(running, Admit(database, definitions, offered=worker.offered)),
            EXPECT: ServedBatch(spreading, Expect(database)),
            AUDIT: ServedBatch(spreading, Audit(database)),
        }
        self._all: list[ServedBatch[Any, Any]] = [*self._batches.values(), start]
        self._runs = Runs(tasks, start, FinishRuns(database, offered=worker.offered), execute)
        self._living: asyncio.Task[None] | None = None
        self.refused: Sequence[str] = ()  # tasks that a newer release holds

    def queues(self, pool: str) -> Sequence[QueueSettings]:
        scheduler = scheduler_pool(self._tasks.values())
        queues = [
            _queue(name, _keyed(batch), pool=scheduler) for name, batch in self._batches.items()
        ]
        # Not where no task is: who has none would leave firings of another service for ever.
        pools = sorted(self.pools())
        return queues + [_queue(run_queue(one), self._runs, pool=one) for one in pools]

    def pools(self) -> Collection[str]:
        return {task.settings.pool for task in self._tasks.values()}

    async def start(self) -> None:
        """Register what the code declares, and go on saying that this process lives."""
        line = self._lines[0]
        async with line.lock:
            await self._register(await line.get())
        if self._tasks:
            self._living = asyncio.get_running_loop().create_task(self._live())

    async def _register(self, connection: Any) -> None:
        release, self.refused = await register(
            self._database, connection, self._tasks.values(), self._params, self._pools
        )
        self._start.release = release
        if release:
            await self._say_alive(connection)
            await offer_new_visits(self._database, connection, [Offer(AUDIT, KEY)])

    async def _say_alive(self, connection: Any) -> None:
        await ask(
            self._database,
            connection,
            "live",
            id=self._id,
            release=self._start.release,
            pool=self._pool,
        )

    async def _live(self) -> None:
        """A few times in the span in which a process counts as living: say so."""
        line = self._lines[0]
        while True:
            await asyncio.sleep(LIVING_SECONDS / 3 * random.uniform(0.8, 1.0))
            try:
                async with line.lock:
                    await self.look_after(await line.get())
            except Exception as error:
                log.warning("reactive.waiting", extra={"error": str(error)})
                await line.lost()

    async def look_after(self, connection: Any) -> None:
        """Say that this process lives; declare again what a release says that is older, or gone."""
        await self._say_alive(connection)
        self.refused = await apply_again(
            self._database, connection, self._tasks, self.refused, self._start.release
        )
        await retire(self._database, connection, living=LIVING_SECONDS)

    async def close(self) -> None:
        """Let go of everything; what was under way stays as visits."""
        if self._living is not None:
            self._living.cancel()
            await asyncio.gather(self._living, return_exceptions=True)
            await self._leave()
        for batch in self._all:
            await batch.close()
        for line in self._lines:
            await line.close()

    async def _leave(self) -> None:
        line = self._lines[0]
        try:
            async with line.lock:
                await ask(self._database, await line.get(), "leave", id=self._id)
        except Exception as error:  # it is forgotten by its silence, some minutes later
            log.warning("reactive.left_in_haste", extra={"error": str(error)})


def scheduler_pool(tasks: Iterable[ReactiveTask]) -> str:
    """The pool whose workers spread, check and admit: the default one, unless no task is there.

    Scheduling needs no user code, so one pool does it for all; but its workers must be running.
    """
    pools = {task.settings.pool for task in tasks}
    return DEFAULT_POOL if not pools or DEFAULT_POOL in pools else min(pools)


def _queue(name: str, handler: Handler, *, pool: str) -> QueueSettings:
    return QueueSettings(
        name=name,
        handler=handler,
        pool=pool,
        kind="reactive",
        retry=FOREVER,
        crash_limit=CRASHES,
        quiet=not name.startswith(RUN),
        beside=not name.startswith(RUN),
    )


def _keyed(batch: Callable[[str], Any]) -> Handler:
    async def handle(run: Run) -> Outcome:
        outcome: Outcome = await batch(run.visit.key)
        return outcome

    return handle
