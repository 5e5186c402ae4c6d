"""Cancelling many processes at once: the children of a tree, or the items of a mass order.

Alone each cancel is a transaction of some fifteen statements. Those that wait while one is under way are
done together, the same statements for all of them. It is for the plain ones only: a process that has
something to undo, that somebody has locked or that is asked for twice is done alone (cancel.py), and so
are all of a batch that fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import msgspec

from mainspring import clock
from mainspring.db.database import Database
from mainspring.db.sql import Steps, rows, run
from mainspring.errors import Fenced
from mainspring.ids import new_id
from mainspring.kernel import (
    KERNEL_SQL,
    Done,
    Run,
    SettleAnswer,
    WorkerPort,
    in_order,
    settle_values,
)
from mainspring.processes.commit.close import LockPlace, TaskEnd, end_steps, told_parent
from mainspring.processes.commit.visits import (
    QUEUE,
    NewVisit,
    delete_steps,
    drop_steps,
    engine_visit,
    offer_steps,
    queue_of,
)
from mainspring.processes.connections import Lines
from mainspring.processes.statements import SQL
from mainspring.processes.structural.cancel import CANCELLED
from mainspring.processes.structural.change import Answer, Locked, call_off, forget_steps
from mainspring.processes.structural.request import ProcessEngine, cancels_of
from mainspring.tasks.declare.promise import Failure

log = logging.getLogger("mainspring")
MOST = 100  # processes in one transaction


class LiveTask(msgspec.Struct, frozen=True):
    """A row of read_live_tasks.sql."""

    process_id: str
    id: str
    promise: str
    actor: str
    is_live: bool
    can_be_undone: bool


class CancelAsked(msgspec.Struct):
    """A cancel that waits for its turn. `done`: whether it was settled with others."""

    process_id: str
    run: Run
    compensate: bool
    done: asyncio.Future[bool]


class Cancels:
    """The cancels of one worker."""

    def __init__(self, database: Database, lines: Lines, worker: WorkerPort) -> None:
        self._database = database
        self._lines = lines
        self._worker = worker
        self._waiting: list[CancelAsked] = []
        self._work: asyncio.Task[None] | None = None
        self._alone = 0  # cancels that are done each by itself, just now

    async def together(self, process_id: str, run: Run, *, compensate: bool) -> bool:
        """Cancel a process with others that wait. False: nothing was done, it must be alone."""
        if self._work is None and not self._alone:
            return False  # nobody to wait for
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(CancelAsked(process_id, run, compensate, done))
        if self._work is None:
            self._work = asyncio.create_task(self._do())
        return await done

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While one is done by itself, others that come wait for each other."""
        self._alone += 1
        try:
            yield
        finally:
            self._alone -= 1

    async def close(self) -> None:
        """When the worker has stopped."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _do(self) -> None:
        batch: list[CancelAsked] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                settled: set[int] = set()
                try:
                    settled = await self._cancel(batch)
                except Exception as error:  # each is tried alone
                    log.info("process.cancels_parted", extra={"error": str(error)})
                for n, asked in enumerate(batch):
                    if not asked.done.done():
                        asked.done.set_result(n in settled)
        finally:
            self._work = None
            for asked in (*batch, *self._waiting):
                asked.done.cancel()  # the worker stops; one that is done stays so

    async def _cancel(self, batch: Sequence[CancelAsked]) -> set[int]:
        mine: dict[str, int] = {}
        for n, asked in enumerate(batch):
            if not asked.done.done():
                mine.setdefault(asked.process_id, n)
        steps = CancelBatch(batch, mine, self._database.shard_count, self._worker.worker_id)
        async with self._lines.connection() as connection:
            await connection.run(SQL["mark_closing_many"], ids=sorted(mine))
            async with connection.atomic():
                return await connection.follow(steps.steps())


class CancelBatch:
    """One transaction of cancels. A generator of statements without I/O."""

    def __init__(
        self,
        batch: Sequence[CancelAsked],
        places: dict[str, int],
        shard_count: int,
        worker_id: UUID | None,
    ) -> None:
        self._batch = batch
        self._places = places  # by process
        self._shard_count = shard_count
        self._worker_id = worker_id

    def steps(self) -> Steps[set[int]]:
        processes = yield from rows(SQL["lock_many_alone"], Locked, ids=sorted(self._places))
        locked = {one.id: one for one in processes}
        found: dict[str, list[LiveTask]] = defaultdict(list)
        for task in (yield from rows(SQL["read_live_tasks"], LiveTask, ids=sorted(locked))):
            found[task.process_id].append(task)
        plain = [one for one in locked.values() if self._is_plain(one, found[one.id])]
        if not plain:
            return set()
        live = [task for one in plain for task in found[one.id] if task.is_live]
        stopped = yield from self._drop(live, locked)
        yield from self._end(live)
        yield from self._go_on(plain)
        return (yield from self._settle(plain, found, stopped))

    def _is_plain(self, locked: Locked, tasks: list[LiveTask]) -> bool:
        asked = self._batch[self._places[locked.id]]
        if locked.state != "open" or (locked.cancelling and asked.compensate):
            return False
        return not asked.compensate or not any(task.can_be_undone for task in tasks)

    def _drop(self, live: list[LiveTask], locked: dict[str, Locked]) -> Steps[dict[str, int]]:
        """Visits, counts and waits; returns how many runs of each process were told to stop."""
        stopped: dict[str, int] = defaultdict(int)
        if not live:
            return stopped
        kinds = ("timer", "await", "deadline", "child")
        visits = []
        for task in live:
            engine = locked[task.process_id].engine
            visits.append((queue_of(task.actor, engine), task.id))
            if task.actor.startswith("@"):
                visits += [(engine, f"{kind}/{task.id}") for kind in kinds]
            else:
                visits.append((engine, f"deadline/{task.id}"))
        process_of = {task.id: task.process_id for task in live}
        dropped = [v for v in (yield from drop_steps(visits)) if v.key in process_of]
        yield from call_off([visit for visit in dropped if not visit.queue.startswith(QUEUE)])
        yield from forget_steps([task.id for task in live])
        for visit in dropped:
            stopped[process_of[visit.key]] += visit.was_held
        return stopped

    def _end(self, live: list[LiveTask]) -> Steps[None]:
        error = Failure(CANCELLED, "cancelled")
        tasks = {task.id: task.process_id for task in live}
        promises = {task.promise: task.process_id for task in live}
        yield from end_steps(
            TaskEnd(
                process_id,
                id,
                "cancelled" if id in tasks else None,
                "err" if id in promises else None,
                error=error if id in promises else None,
            )
            for id, process_id in (tasks | promises).items()
        )

    def _go_on(self, plain: list[Locked]) -> Steps[None]:
        """They have ended: their children are cancelled next, and parents that wait are told."""
        hows = {one.id: self._batch[self._places[one.id]].compensate for one in plain}
        offers: list[NewVisit] = []
        for compensate in set(hows.values()):
            parents = sorted(id for id, how in hows.items() if how is compensate)
            children = yield from rows(SQL["find_children_of"], ProcessEngine, ids=parents)
            offers += cancels_of(children, compensate=compensate)
        for one in plain:
            told = told_parent(one.parent_process, one.parent_task, one.parent_engine)
            if told is not None:
                offers.append(told)
        engines = {one.id: one.engine for one in plain}
        found = yield from rows(SQL["locks_of"], LockPlace, processes=sorted(engines), scopes=[])
        for lock in found:
            id, engine = lock.process_id, engines[lock.process_id]
            offers.append(engine_visit("lock", id, lock.task, id=new_id(), engine=engine))
        yield from run(SQL["cancel_processes"], ids=[one.id for one in plain])
        yield from offer_steps(offers, self._shard_count)
        looks = [(one.id, one.engine, f"look/{one.id}") for one in plain]
        yield from delete_steps(looks, self._shard_count)

    def _settle(
        self, plain: list[Locked], found: dict[str, list[LiveTask]], stopped: dict[str, int]
    ) -> Steps[set[int]]:
        """The visits of these cancels, in the order in which visits are locked."""
        ended = {}
        for one in plain:
            n = self._places[one.id]
            live = sum(task.is_live for task in found[one.id])
            answer = Answer(True, live, stopped[one.id])
            asked = self._batch[n].run
            ended[n] = msgspec.structs.replace(
                asked,
                outcome=Done(result=msgspec.json.encode(answer).decode()),
                seconds=max(0.0, clock.local() - asked.began),
            )
        listed = sorted(
            ended.values(), key=lambda run: (run.visit.shard, run.visit.key, run.visit.queue)
        )
        values = settle_values(listed, self._worker_id)
        answers = yield from rows(KERNEL_SQL["settle"], SettleAnswer, **values)
        if any(
            answer not in ("settled", "superseded") for answer in in_order(answers, len(listed))
        ):
            raise Fenced("a cancel was settled or deleted meanwhile")
        return set(ended)
