"""The reactive layer of one worker: its queues, its connections, its registration.

Spreading, checking and starting each have a line of their own, and serve what comes in batches. When
nothing changes no statement is sent for any task, but for one look a minute at what other releases declare.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar
from uuid import uuid4

from mainspring.db.batcher import AfterFailure, Batcher
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.tx import Tx
from mainspring.kernel import (
    DEFAULT_POOL,
    Handler,
    Layer,
    Offer,
    Outcome,
    QueueSettings,
    Run,
    WorkerPort,
    offer_new_visits,
)
from mainspring.reactive.declare.register import LIVING_SECONDS, PoolSettings, apply_again, register
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.values import AnyParam
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
from mainspring.reactive.schedule.expect import expect
from mainspring.reactive.statements import SQL
from mainspring.retry_policy import RetryPolicy

log = logging.getLogger("mainspring")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
# The scheduler's own visits are never given up.
FOREVER = RetryPolicy(attempts=1_000_000, first=0.05, most=10)
# So many deaths before a visit is parked: a death is counted in the task's own state.
CRASHES = 1000
# Params whose consumers are judged together; each has four on average before they are too many.
CHANGES = 250


class Declarations(Protocol):
    """What an application has declared for this layer."""

    reactive_tasks: dict[str, ReactiveTask]
    params: dict[str, AnyParam]
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
        spreading, checking, running = (worker.line() for _ in range(3))
        self._side = spreading
        definitions = Definitions()
        check = Check(definitions, offered=worker.offered)
        self._start = Start()
        self._starting = _served(running, self._start)
        self._batches: dict[str, Batcher[str, Outcome]] = {
            CHANGE: _served(
                spreading, Spread(database, check, offered=worker.offered), most=CHANGES
            ),
            CHECK: _served(checking, check),
            ADMIT: _served(running, Admit(definitions, offered=worker.offered)),
            EXPECT: _served(spreading, expect),
            AUDIT: _served(spreading, Audit(database)),
        }
        finish = FinishRuns(database, offered=worker.offered)
        self._runs = Runs(tasks, self._starting, finish, execute)
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
        async with self._side.use() as connection:
            await self._register(connection)
        if self._tasks:
            self._living = asyncio.get_running_loop().create_task(self._live())

    async def _register(self, connection: Connection) -> None:
        release, self.refused = await register(
            self._database, connection, self._tasks.values(), self._params, self._pools
        )
        self._start.serve(release)
        if release:
            await self._say_alive(connection)
            await offer_new_visits(self._database, connection, [Offer(AUDIT, KEY)])

    async def _say_alive(self, tx: Tx) -> None:
        await tx.run(SQL["live"], id=self._id, release=self._start.release, pool=self._pool)

    async def _live(self) -> None:
        """A few times in the span in which a process counts as living: say so."""
        while True:
            await asyncio.sleep(LIVING_SECONDS / 3 * random.uniform(0.8, 1.0))
            try:
                async with self._side.use() as connection:
                    await self.look_after(connection)
            except Exception as error:
                log.warning("reactive.waiting", extra={"error": str(error)})

    async def look_after(self, connection: Connection) -> None:
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
        for batch in self._batches.values():
            await batch.close()
        await self._starting.close()

    async def _leave(self) -> None:
        try:
            async with self._side.use() as connection:
                await connection.run(SQL["leave"], id=self._id)
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


def _keyed(batch: Batcher[str, Outcome]) -> Handler:
    async def handle(run: Run) -> Outcome:
        return await batch(run.visit.key)

    return handle


def _served(
    line: SharedLine,
    serve: Callable[[Connection, Sequence[Item]], Awaitable[Sequence[Answer]]],
    *,
    most: int = 500,
) -> Batcher[Item, Answer]:
    """Items of one moment are served together, on one connection: a statement for each would cost a round
    trip and a commit each."""

    async def serve_on_line(items: Sequence[Item]) -> Sequence[Answer]:
        async with line.use() as connection:
            return await serve(connection, items)

    return Batcher(serve_on_line, most=most, failed=_after)


async def _after(error: Exception) -> AfterFailure:
    """A bad item fails alone; what is the server's failure is everybody's."""
    return AfterFailure.TELL if is_transient(error) else AfterFailure.HALVE
