"""Structural changes: what a restart, a cancel, the end of a scope and a repair have in common.

One process a transaction. Its row is locked for this change alone, which waits for the decisions in
flight; what is read after that is all there is. Generators of statements without I/O, as in commit.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from mainspring.db.database import Connection
from mainspring.db.sql import Steps, first, rows, run, words
from mainspring.db.tx import Tx
from mainspring.errors import NotFound, Refused
from mainspring.ids import new_id
from mainspring.kernel import KERNEL_SQL
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.close import LockPlace, TaskEnd, end_steps
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.task_input import deadline_of, decode_options
from mainspring.processes.commit.visits import (
    QUEUE,
    DroppedVisit,
    NewVisit,
    drop_steps,
    engine_visit,
    offer_steps,
    queue_of,
    task_visit,
)
from mainspring.processes.statements import SQL
from mainspring.processes.structural.compensation import StoredScope
from mainspring.processes.structural.cone import TaskEdge, TaskGraph, TaskNode
from mainspring.processes.structural.request import ProcessEngine, cancels_of
from mainspring.tasks.declare.promise import Failure

T = TypeVar("T")
# Runs that are told to stop by a notification; there may be many visits, but only so many slots.
CALLED_OFF = 3000


class Locked(msgspec.Struct):
    """A process that is locked for a structural change."""

    id: str
    type: str
    state: str
    root: str
    root_closed: bool
    generation: int
    horizon: int
    now: datetime
    parent_process: str | None
    parent_task: str | None
    engine: str
    parent_engine: str | None  # None: no parent that is open
    cancelling: bool  # its compensations run


class Answer(msgspec.Struct, frozen=True):
    """What a structural change did."""

    done: bool
    tasks: int = 0
    stopped: int = 0  # runs that no longer count
    why: str = ""
    missing: bool = False  # the task that was named is not there
    compensations: int = 0  # tasks that undo what was done, and run from here on
    scopes: int = 0  # that end as failed
    parked: Failure | None = None  # it waits for an operator, and so does its visit


class Structural:
    """One change of one process, from the lock on."""

    def __init__(self, process_id: str, shard_count: int) -> None:
        self.process_id = process_id
        self._shard_count = shard_count
        self.engine = QUEUE  # the process's own, from the lock on

    def lock(self) -> Steps[Locked]:
        """For this change alone. `mark_closing` was committed before."""
        locked = yield from first(SQL["lock_alone"], Locked, id=self.process_id)
        if locked is None:
            raise NotFound(f"there is no process {self.process_id}")
        self.engine = locked.engine
        return locked

    def read(self) -> Steps[TaskGraph]:
        """All of its graph, in two range reads."""
        tasks = yield from self.read_tasks()
        edges = yield from rows(SQL["read_graph_edges"], TaskEdge, id=self.process_id)
        return TaskGraph(tasks, edges)

    def read_tasks(self) -> Steps[list[TaskNode]]:
        """Its tasks alone."""
        return (yield from rows(SQL["read_graph_tasks"], TaskNode, id=self.process_id))

    def read_scopes(self) -> Steps[dict[str, StoredScope]]:
        """Its scopes by id."""
        found = yield from rows(SQL["read_scopes"], StoredScope, id=self.process_id)
        return {scope.id: scope for scope in found}

    def unlock(
        self,
        state: str | None = None,
        *,
        root_closed: bool | None = None,
        generations: int = 0,
        cancelling: bool = False,
    ) -> Steps[None]:
        """Decisions may come again."""
        yield from run(
            SQL["open_again"],
            id=self.process_id,
            state=state,
            root_closed=root_closed,
            generations=generations,
            cancelling=cancelling,
        )

    # -- what is called off

    def _write_ends(
        self, nodes: Sequence[TaskNode], promises: set[str], error: Failure
    ) -> Steps[None]:
        cancelled = {node.id for node in nodes}
        yield from end_steps(
            TaskEnd(
                self.process_id,
                id,
                "cancelled" if id in cancelled else None,
                "err" if id in promises else None,
                error=error if id in promises else None,
            )
            for id in cancelled | promises
        )

    def _drop(self, tasks: Sequence[str], graph: TaskGraph) -> Steps[int]:
        """Visits, counts and waits of tasks that go on no longer as they were."""
        if not tasks:
            return 0
        visits = [(queue_of(graph.nodes[t].actor, self.engine), t) for t in tasks]
        kinds = ("timer", "await", "deadline", "child")
        visits += [(self.engine, f"{kind}/{t}") for t in tasks for kind in kinds]
        dropped = yield from drop_steps(visits)
        yield from self._stop_runs(dropped)
        yield from forget_steps(tasks)
        return sum(visit.was_held for visit in dropped)

    def _stop_runs(self, dropped: Sequence[DroppedVisit]) -> Steps[None]:
        """Tell the workers which runs count no longer."""
        yield from call_off([visit for visit in dropped if visit.queue != self.engine])

    def _cancel_children(self, tasks: Sequence[str], *, compensate: bool = True) -> Steps[None]:
        if not tasks:
            return
        children = yield from rows(
            SQL["find_children"], ProcessEngine, process_id=self.process_id, tasks=list(tasks)
        )
        yield from self._offer(cancels_of(children, compensate=compensate))

    def _engine_visit(self, kind: str, subject: str, due_at: datetime | None = None) -> NewVisit:
        return engine_visit(
            kind, self.process_id, subject, id=new_id(), engine=self.engine, due_at=due_at
        )

    def _offer(self, visits: Sequence[NewVisit]) -> Steps[None]:
        yield from offer_steps(visits, self._shard_count)

    def _tell_locks(self, *, scopes: Sequence[str] = ()) -> Steps[None]:
        """Locks of these scopes, or of the process, may be free now: each is looked at."""
        of = [] if scopes else [self.process_id]
        found = yield from rows(SQL["locks_of"], LockPlace, processes=of, scopes=list(scopes))
        yield from self._offer([self._engine_visit("lock", lock.task) for lock in found])

    # -- parts of a process, ended while the rest goes on

    def end_tasks(self, locked: Locked, changes: Iterable[TaskChange]) -> Steps[None]:
        """Write ends like decisions do: promises closed, who waits released, the process finished."""
        listed = list(changes)
        if listed:
            commit = Commit(listed, self._shard_count)
            yield from commit.structural_steps(locked.root, locked.type, locked.now, locked.engine)


def visit_of(
    process_id: str, node: TaskNode, ahead: int = 0, *, engine: str, now: datetime | None = None
) -> NewVisit:
    """The visit by which a task is run, now or in a generation to come."""
    options = decode_options(node.options)
    return task_visit(
        process_id,
        node.id,
        node.actor,
        engine=engine,
        generation=node.generation + ahead,
        priority=options.priority,
        group=options.group,
        deadline_at=None if now is None else deadline_of(options, now),
    )


def forget_steps(tasks: Sequence[str]) -> Steps[None]:
    """What tasks waited for, and that they were parked: they go on no longer as they were."""
    yield from run(SQL["drop_waits"], tasks=list(tasks))
    yield from run(SQL["drop_externals"], tasks=list(tasks))
    yield from run(SQL["unpark_tasks"], tasks=words(tasks))


def call_off(dropped: Sequence[DroppedVisit]) -> Steps[None]:
    """Tell the workers that runs of these visits count no longer, those held first: what runs is held, or
    began a moment ago."""
    listed = sorted(dropped, key=lambda visit: not visit.was_held)
    yield from call_off_versions([visit.version for visit in listed])


def call_off_versions(versions: Sequence[int]) -> Steps[None]:
    """The same by their versions. At most so many are told at once, others find out by their hold."""
    if told := list(map(str, versions[:CALLED_OFF])):
        texts = [" ".join(told[n : n + 300]) for n in range(0, len(told), 300)]
        yield from run(KERNEL_SQL["call_off"], versions=texts)


async def run_alone(connection: Connection, process_id: str, steps: Steps[T]) -> T:
    """A structural change at once, on a connection of the engine's."""
    async with closing(lambda: nullcontext(connection), process_id), connection.atomic():
        return await connection.follow(steps)


class ClosingMark(NamedTuple):
    """A row of mark_closing.sql."""

    closing_at: datetime


@asynccontextmanager
async def closing(
    outside: Callable[[], AbstractAsyncContextManager[Tx]], process_id: str
) -> AsyncIterator[None]:
    """Decisions leave the process alone meanwhile. The mark is committed at once (`outside` of the
    change's transaction), so a change that raises takes it back: else nothing of the process would go on
    until the mark is old."""
    async with outside() as tx:
        mark = await tx.first(SQL["mark_closing"], ClosingMark, id=process_id)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # it is no worse than before: the mark grows old
            if mark is not None:
                async with outside() as tx:
                    await tx.run(SQL["unmark_closing"], id=process_id, closing_at=mark.closing_at)
        raise


def refuse(answer: Answer) -> Answer:
    """Raise what was refused."""
    if not answer.done:
        raise (NotFound if answer.missing else Refused)(answer.why)
    return answer
