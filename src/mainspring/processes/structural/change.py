"""Structural changes: restart, and what a cancel, the end of a scope and a repair share with it.

One process a transaction.
The process's row is locked for this change alone, which waits for the decisions in flight; what is
read after that is all there is. Every change is a visit, run by the engine; in a user's transaction
a cancel or a restart only offers it. Generators of statements without I/O, as in commit.py.
Past 400 lines: each change is short, and they share how a process is locked, read and ended.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.literals import words
from mainspring.db.sql import Statement
from mainspring.errors import NotFound, Refused
from mainspring.kernel import DEFAULT_PRIORITY, KERNEL_SQL, new_id
from mainspring.processes.commit.change import FIRST_OF, TaskChange
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.end_rows import TaskEnd, end_values
from mainspring.processes.commit.task_input import DEADLINE_AFTER, deadline_of, decode_options
from mainspring.processes.commit.visits import (
    QUEUE,
    NewVisit,
    engine_visit,
    find_places,
    insert_values,
    offer_values,
    queue_of,
    task_visit,
)
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step, Steps, run_steps
from mainspring.processes.structural.compensation import around
from mainspring.processes.structural.cone import TaskGraph, TaskNode
from mainspring.tasks.declare.promise import Failure

T = TypeVar("T")
ENDED = ("done", "parked")  # from which a restart may begin
FROM_SCRATCH = "the process was cancelled: restart it from scratch"
NOT_WHILE_CANCELLING = (
    "the process is being cancelled and its compensations run: restart it when they have ended"
)
NOT_WHILE_UNDOING = (
    "compensations of what would be redone have not ended: restart when they have; one that is parked "
    "is tried again (restart-tasks) or gone on without (resolve)"
)
UNDONE = ("failed", "undoing")  # scopes whose end has undone what was done in them, or will
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
    now: Any
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


class RestartOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a process is to be restarted: from a task, from those of an actor, or from scratch."""

    task: str | None = None
    actor: str | None = None
    fresh_signals: bool = False
    force: bool = False
    priority: int | None = None  # of what is queued at once; None: each task's own

    @classmethod
    def starting(cls, task: str | None, **how: Any) -> RestartOrder:
        """From a task by its id, or from those of an actor: whichever the text is."""
        try:
            return cls(task=None if task is None else str(UUID(task)), **how)
        except ValueError:
            return cls(actor=task, **how)


class Structural:
    """One change of one process, from the lock on."""

    def __init__(self, process_id: str, shard_count: int) -> None:
        self.process_id = process_id
        self._shard_count = shard_count
        self.engine = QUEUE  # the process's own, from the lock on

    def lock(self) -> Generator[Step, list[Any], Locked]:
        """For this change alone. `mark_closing` was committed before."""
        rows = yield SQL["lock_alone"], {"id": self.process_id}
        if not rows:
            raise NotFound(f"there is no process {self.process_id}")
        locked = Locked(*rows[0])
        self.engine = locked.engine
        return locked

    def read(self) -> Generator[Step, list[Any], TaskGraph]:
        """All of its graph, in two range reads."""
        tasks = yield SQL["read_graph_tasks"], {"id": self.process_id}
        edges = yield SQL["read_graph_edges"], {"id": self.process_id}
        return TaskGraph(tasks, edges)

    def unlock(
        self,
        state: str | None = None,
        *,
        root_closed: bool | None = None,
        generations: int = 0,
        cancelling: bool = False,
    ) -> Steps[Any]:
        """Decisions may come again."""
        yield (
            SQL["open_again"],
            {
                "id": self.process_id,
                "state": state,
                "root_closed": root_closed,
                "generations": generations,
                "cancelling": cancelling,
            },
        )

    # -- what is called off

    def _write_ends(
        self, nodes: Sequence[TaskNode], promises: set[str], error: Failure
    ) -> Steps[Any]:
        ends = {node.id: TaskEnd(self.process_id, node.id, "cancelled") for node in nodes}
        for promise in promises:
            end = ends.setdefault(promise, TaskEnd(self.process_id, promise))
            end.outcome, end.error = "err", error
        if ends:
            yield SQL["end_tasks"], end_values(ends.values())

    def _drop(self, tasks: Sequence[str], graph: TaskGraph) -> Generator[Step, list[Any], int]:
        """Visits, counts and waits of tasks that go on no longer as they were."""
        if not tasks:
            return 0
        visits = [(queue_of(graph.nodes[t].actor, self.engine), t) for t in tasks]
        kinds = ("timer", "await", "deadline", "child")
        visits += [(self.engine, f"{kind}/{t}") for t in tasks for kind in kinds]
        rows = yield KERNEL_SQL["drop_visits"], (yield from find_places(visits))
        yield from self._stop_runs(rows)
        yield SQL["drop_waits"], {"tasks": list(tasks)}
        yield SQL["drop_externals"], {"tasks": list(tasks)}
        yield SQL["unpark_tasks"], {"tasks": words(tasks)}
        return sum(1 for row in rows if row[2])

    def _stop_runs(self, rows: Sequence[Any]) -> Steps[Any]:
        """Tell the workers which runs count no longer (rows of drop_visits.sql), those held first:
        what runs is held, or began a moment ago."""
        listed = sorted(rows, key=lambda row: not row[2])
        versions = [row[3] for row in listed if row[0] != self.engine]
        if versions:
            yield KERNEL_SQL["call_off"], call_off_values(versions)

    def _cancel_children(self, tasks: Sequence[str], *, compensate: bool = True) -> Steps[Any]:
        if not tasks:
            return
        rows = yield SQL["find_children"], {"process_id": self.process_id, "tasks": list(tasks)}
        visits = [request_cancel(id, compensate=compensate) for id, _ in rows]
        yield from self._offer(
            [
                msgspec.structs.replace(visit, queue=engine)
                for visit, (_, engine) in zip(visits, rows, strict=True)
            ]
        )

    def _engine_visit(self, kind: str, subject: str, due_at: datetime | None = None) -> NewVisit:
        return engine_visit(
            kind, self.process_id, subject, id=new_id(), engine=self.engine, due_at=due_at
        )

    def _offer(self, visits: Sequence[NewVisit]) -> Steps[Any]:
        if visits:
            yield KERNEL_SQL["offer"], offer_values(visits, self._shard_count)

    # -- restart

    def restart(self, order: RestartOrder) -> Generator[Step, list[Any], Answer]:
        """Redo a task (or those of an actor that have ended), what it made and what depends on it;
        without either, all of the process.

        Other branches keep their results. A run of what is redone is refused by its token.
        """
        locked = yield from self.lock()
        if locked.state == "open" and locked.cancelling:
            yield from self.unlock()
            return Answer(False, why=NOT_WHILE_CANCELLING)
        graph = yield from self.read()
        if (actor := order.actor) is not None:
            starts = [n.id for n in graph.nodes.values() if n.actor == actor and n.state in ENDED]
        else:
            starts = [order.task or locked.root]
        scopes = {row[0]: row for row in (yield SQL["read_scopes"], {"id": self.process_id})}
        refused = (
            _refusal(locked, graph, start, force=order.force or start == locked.root)
            for start in starts
        )
        why = next(filter(None, refused), None)
        if not starts:
            why = f"process {locked.id} has no task of {actor!r} that has ended: nothing to redo"
        cone = graph.cone(starts) if why is None else set()
        why = why or _undone_in_race(graph, scopes, cone)
        if any(n.id in cone and decode_options(n.options).shielded for n in graph.live()):
            why = why or NOT_WHILE_UNDOING
        superseded = graph.superseded(cone, starts)
        reset = sorted(cone - superseded)
        first = [start for start in starts if start in cone]
        why = why or _undone_before(graph, scopes, cone, [*first, *reset])
        if (lost := graph.lost_input(reset)) is not None:
            why = why or f"the input {lost[1]} of task {lost[0]} is gone: restart from scratch"
        if why is not None:
            yield from self.unlock()
            return Answer(False, why=why, missing=not any(id in graph.nodes for id in starts))
        stopped = yield from self._drop(sorted(cone), graph)
        reopened = {graph.nodes[id].promise for id in cone} | cone
        values = {"process_id": self.process_id, "tasks": sorted(superseded)}
        if superseded:
            yield SQL["supersede_tasks"], values
        yield (
            SQL["reopen_promises"],
            {"process_id": self.process_id, "promises": sorted(reopened)},
        )
        yield SQL["drop_scopes"], {"process_id": self.process_id, "tasks": sorted(cone)}
        again = {graph.nodes[id].scope_id for id in reset} - {None}
        yield SQL["reopen_scopes"], {"ids": sorted(map(str, again))}
        yield from self._reset(graph, reset, reopened, locked.now, order.priority)
        freed = yield (
            SQL["free_signals"],
            {"process_id": self.process_id, "tasks": sorted(cone), "fresh": order.fresh_signals},
        )
        yield from self._cancel_children(sorted(cone))
        root = graph.nodes[locked.root]
        root_closed = root.outcome is not None and locked.root not in reopened
        yield from self.unlock(
            "open", root_closed=root_closed, generations=1 if locked.root in starts else 0
        )
        offers = [self._engine_visit("look", self.process_id)]
        if freed:
            offers.append(self._engine_visit("signal", new_id()))
        yield from self._offer(offers)
        return Answer(True, len(cone), stopped)

    def _reset(
        self,
        graph: TaskGraph,
        reset: Sequence[str],
        reopened: set[str],
        now: datetime,
        priority: int | None,
    ) -> Steps[Any]:
        counts = {}
        for id in reset:
            count, is_stopped = graph.open_inputs(id, reopened)
            counts[id] = 0 if is_stopped else count
        yield (
            SQL["reset_tasks"],
            {
                "process_id": self.process_id,
                "tasks": list(reset),
                "waits": [counts[id] for id in reset],
            },
        )
        counted = [id for id in reset if counts[id] >= 2]
        if counted:
            numbers = [1 if graph.nodes[id].actor == FIRST_OF else counts[id] for id in counted]
            yield (
                SQL["insert_waits"],
                {"process_id": self.process_id, "tasks": counted, "counts": numbers},
            )
        visits = [
            visit_of(self.process_id, graph.nodes[id], 1, engine=self.engine, now=now)
            for id in reset
            if counts[id] == 0
        ]
        if priority is not None:
            visits = [msgspec.structs.replace(visit, priority=priority) for visit in visits]
        if visits:
            yield KERNEL_SQL["insert_new"], insert_values(visits, self._shard_count)
        # Deadlines move with a restart.
        yield from self._offer(
            [
                self._engine_visit("deadline", v.key, v.deadline_at + DEADLINE_AFTER)
                for v in visits
                if v.deadline_at is not None
            ]
        )

    # -- parts of a process, ended while the rest goes on

    def end_tasks(self, locked: Locked, changes: Iterable[TaskChange]) -> Steps[Any]:
        """Write ends like decisions do: promises closed, who waits released, the process finished."""
        listed = list(changes)
        if listed:
            commit = Commit(listed, self._shard_count)
            yield from commit.structural_steps(locked.root, locked.type, locked.now, locked.engine)


def _refusal(locked: Locked, graph: TaskGraph, start: str, *, force: bool) -> str | None:
    """Why a restart from a task cannot be; None: it can."""
    node = graph.nodes.get(start)
    if node is None:
        return f"process {locked.id} has no task {start}; it may have been pruned"
    if start == locked.root:
        return None
    if locked.state == "cancelled":
        return FROM_SCRATCH
    if node.state in ("superseded", "cancelled"):
        return f"task {start} is {node.state}: restart from the task that made it"
    if node.state in ("open", "external") and not force:
        return (
            f"task {start} is {node.state} and has not ended: there is nothing to redo; "
            "wait for it, or restart from the task that made it"
        )
    if node.done_no is not None and node.done_no <= locked.horizon:
        return f"what followed task {start} was pruned: restart from a later task"
    return None


def _undone_before(
    graph: TaskGraph, scopes: Mapping[str, Any], cone: set[str], tasks: Iterable[str]
) -> str | None:
    """What was undone is not redone, wherever a restart begins: its scope has ended for good."""
    for id in tasks:
        for scope in around(graph.nodes[id].scope_id, scopes):
            if scope[3] in UNDONE and scope[2] not in cone:
                return (
                    f"task {id} lies in a scope that has failed and was undone: restart from the "
                    f"task that opened it, {scope[2]}"
                )
    return None


def _undone_in_race(graph: TaskGraph, scopes: Mapping[str, Any], cone: set[str]) -> str | None:
    """A race cannot be run again with a scope that lost it and was undone."""
    for scope in scopes.values():
        if scope[3] not in UNDONE or scope[2] in cone:
            continue
        for id in cone:
            inputs = {promise for promise, _ in graph.inputs[id]}
            if graph.nodes[id].actor == FIRST_OF and scope[5] in inputs:
                return (
                    f"the race {id} would be run again with a scope that was undone: restart from "
                    f"the task that opened it, {scope[2]}"
                )
    return None


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


def request_cancel(
    process_id: str, priority: int = DEFAULT_PRIORITY, *, compensate: bool = True
) -> NewVisit:
    """The visit by which a process is cancelled."""
    more = '{"compensate": true}' if compensate else '{"compensate": false}'
    return _requested("cancel", process_id, process_id, priority, more)


def request_look(
    process_id: str, priority: int = DEFAULT_PRIORITY, *, source: str | None = None
) -> NewVisit:
    """The visit by which a process is checked now; `source`: who ordered it."""
    more = msgspec.json.encode(source).decode()
    return _requested("look", process_id, process_id, priority, more)


def request_restart(
    process_id: str, order: RestartOrder, priority: int = DEFAULT_PRIORITY
) -> NewVisit:
    """The visit by which a process is restarted."""
    more = msgspec.json.encode(order).decode()
    return _requested("restart", process_id, new_id(), priority, more)


def _requested(
    kind: str, process_id: str, subject: str, priority: int, more: str | None = None
) -> NewVisit:
    visit = engine_visit(kind, process_id, subject, id=new_id(), engine=QUEUE, more=more)
    return msgspec.structs.replace(visit, priority=priority)


def request_steps(visits: Sequence[NewVisit], shard_count: int) -> Steps[Any]:
    """Ask for structural changes, in anyone's transaction: they happen after it is committed.
    The visits go to where the engine works for each process."""
    rows = yield SQL["find_engines"], {"ids": sorted({visit.process_id for visit in visits})}
    engines = dict(rows)
    placed = [
        msgspec.structs.replace(visit, queue=engines.get(visit.process_id, visit.queue))
        for visit in visits
    ]
    yield KERNEL_SQL["offer"], offer_values(placed, shard_count)


def call_off_values(versions: Sequence[int]) -> dict[str, Any]:
    """The arguments of call_off.sql: at most so many are told at once, others find out by their hold."""
    told = list(map(str, versions[:CALLED_OFF]))
    return {"versions": [" ".join(told[n : n + 300]) for n in range(0, len(told), 300)]}


async def run_alone(
    database: Database, connection: Any, process_id: str, steps: Generator[Step, list[Any], T]
) -> T:
    """A structural change at once, on an asyncpg connection of the engine's."""

    async def fetch(statement: Statement, values: dict[str, Any]) -> list[Any]:
        return await database.fetch(connection, statement, *statement.arguments(values))

    async with closing(fetch, process_id), database.transaction(connection):
        return await run_steps(connection, steps)


@asynccontextmanager
async def closing(
    fetch: Callable[[Statement, dict[str, Any]], Awaitable[list[Any]]], process_id: str
) -> AsyncIterator[None]:
    """Decisions leave the process alone meanwhile. The mark is committed at once, so a change that
    raises takes it back: else nothing of the process would go on until the mark is old."""
    marks = await fetch(SQL["mark_closing"], {"id": process_id})
    try:
        yield
    except BaseException:
        with suppress(Exception):  # it is no worse than before: the mark grows old
            for (closing_at,) in marks:
                await fetch(SQL["unmark_closing"], {"id": process_id, "closing_at": closing_at})
        raise


def refuse(answer: Answer) -> Answer:
    """Raise what was refused."""
    if not answer.done:
        raise (NotFound if answer.missing else Refused)(answer.why)
    return answer
