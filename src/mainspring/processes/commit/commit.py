"""The decision commit: many changes of many processes in one transaction.

`Commit` is a generator of statements without I/O, so that the settler (asyncpg) and a task's own
transaction (psycopg) walk the same steps. Lock order: processes by id (shared), visits, task rows by id
in one pass, wait rows by task, new visits, process rows. Every step is a statement of its own: what it
sees is what was committed before its locks were had.

`Decisions` is the writer by which the settler commits many runs; `change_steps` settles one run apart
from the settler. What is closed, released and finished is in close.py, what waits outside the graph in
external.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from mainspring import clock
from mainspring.db.database import Connection
from mainspring.db.sql import Steps, as_rows, documents, numbers, rows, texts, words
from mainspring.db.sql import run as execute
from mainspring.kernel import (
    KERNEL_SQL,
    Again,
    Done,
    Outcome,
    Run,
    SettleAnswer,
    Verdict,
    WorkerPort,
    in_order,
    settle_values,
)
from mainspring.processes.commit import close, external
from mainspring.processes.commit.batch import (
    CommitBatch,
    LockedTask,
    Torn,
    links,
    lock_processes,
    lock_tasks,
    lock_visits,
    settle_visits,
    still_counts,
)
from mainspring.processes.commit.change import NewTask, TaskChange
from mainspring.processes.commit.task_input import NO_OPTIONS, TaskInput
from mainspring.processes.record.race import RACES, terms_of
from mainspring.processes.statements import SQL

# Decisions that are committed together; batches of 100 to 500 cost alike, smaller ones more.
BATCH = 250
# Decisions with more children than `WIDE` are committed by fours, with more than `WIDEST` alone: what a
# transaction writes, and what its statements keep in memory, is bounded by the children.
WIDE = 16
WIDE_BATCH = 4
WIDEST = 1000


class Commit(CommitBatch):
    """One transaction of changes."""

    def steps(self) -> Steps[None]:
        """Write the changes; what is not to be settled says so in `verdicts`."""
        taken = yield from lock_processes(self)
        if self.settle is not None and not any(self.verdicts):
            yield from settle_visits(self, self.settle)
            # Plain successes that link to nothing: their ends are the lock of their rows.
            if not any(links(self.changes)):
                yield from self._grow_and_end(list(self.changes), None)
                return
        else:
            taken = yield from lock_visits(self, taken)
        if taken:
            yield from self._write(taken)

    def structural_steps(self, root: str, type: str, now: datetime, engine: str) -> Steps[None]:
        """The same for the changes of one process that the caller has locked for itself alone."""
        self.took(self.changes[0].process_id, root, type, engine, now, root_closed=True)
        yield from self._write(list(range(len(self.changes))))

    def _write(self, taken: list[int]) -> Steps[None]:
        found = yield from external.look_outside(self, taken)
        changes = [self.changes[n] for n in taken if not self.changes[n].seeks] + list(found)
        if not changes:
            return
        locked = yield from lock_tasks(changes)
        changes = [change for change in changes if still_counts(self, change, found, locked)]
        for change in changes:
            if change.keeps:
                self.verdicts[self.place_of(change)] = Again(after=1.0)
        yield from external.start_children(self, changes)
        yield from self._grow_and_end(changes, locked)

    def _grow_and_end(
        self, changes: list[TaskChange], locked: Mapping[str, LockedTask] | None
    ) -> Steps[None]:
        yield from insert(self, changes, locked or {})
        yield from close.judge(self, changes)
        yield from close.end(changes, locked)
        outside = [change for change in changes if change.is_outside]
        if outside:
            yield from external.take(outside)
        yield from close.release(self, changes)
        if outside:
            yield from external.wait_outside(self, outside)
        yield from close.offer(self, changes)
        yield from close.finish(self, changes)


# -- what decisions add: tasks, edges, counts of open inputs, and scopes


def insert(
    batch: CommitBatch, changes: list[TaskChange], locked: Mapping[str, LockedTask]
) -> Steps[None]:
    """Children, edges and counts, before anything is closed: what this batch closes is counted
    as open here and released after."""
    tasks: list[NewTask] = []
    waits: list[int] = []
    counted: list[tuple[str, str, int]] = []
    for change in changes:
        if not change.tasks:
            continue
        # A promise that a tail call moves on is open too: its new fulfiller is made here.
        made = {task.id for task in change.tasks} | {task.promise for task in change.tasks}
        for task in change.tasks:
            open_inputs, n = _inputs(task, made, locked)
            tasks.append(task)
            waits.append(open_inputs)
            if open_inputs >= 2:
                counted.append((task.id, task.process_id, n))
            elif open_inputs == 0:
                options = task.options or NO_OPTIONS
                batch.ready(task.process_id, task.id, task.actor, options, 0, change.background)
                if not task.edges:
                    batch.hand_over(_task_input(task))
    if tasks:
        yield from execute(SQL["insert_tasks"], **_values(tasks, waits, counted))
    scopes = [scope for change in changes for scope in change.scopes]
    if scopes:
        yield from execute(SQL["insert_scopes"], items=as_rows(scopes))
    for scope in scopes:
        if scope.timeout is not None:
            due_at = batch.now + timedelta(seconds=scope.timeout)
            batch.offers.append(batch.asked_look(scope.process_id, due_at))


def _inputs(task: NewTask, made: set[str], locked: Mapping[str, LockedTask]) -> tuple[int, int]:
    """How many inputs are open, and the ends of how many it waits for. None, where one that is closed is
    an error that stops it, or those that are closed decide a race."""
    open_inputs = kept = failed = 0
    is_stopped = False
    for promise, kind in task.edges:
        if kind == "handle":
            continue
        if promise in made:
            open_inputs += 1
            continue
        linked = locked.get(promise)
        if linked is None:
            raise Torn(f"task {task.id} waits for promise {promise}, which does not exist")
        if linked.outcome is None:
            open_inputs += 1
            continue
        kept, failed = kept + (linked.outcome == "ok"), failed + (linked.outcome == "err")
        is_stopped = is_stopped or (linked.outcome == "err" and kind in ("value", "order"))
    if task.actor in RACES:
        n = terms_of(task.actor, task.args).left(kept, failed, open_inputs)
        return (open_inputs if n else 0), n
    return (0, 0) if is_stopped else (open_inputs, open_inputs)


def _task_input(task: NewTask) -> TaskInput:
    """Of a task without inputs."""
    return TaskInput(
        task.process_id,
        task.id,
        task.promise,
        task.actor,
        "open",
        0,
        task.args,
        task.args_version,
        task.scope_id,
        task.step,
        (),
        priority=None if task.options is None else task.options.priority,
    )


def _values(
    tasks: list[NewTask], waits: list[int], counted: list[tuple[str, str, int]]
) -> dict[str, object]:
    """The arguments of insert_tasks.sql. Columns that few tasks need are left out where none does."""
    edges = [
        (task.process_id, promise, task.id, kind, pos)
        for task in tasks
        for pos, (promise, kind) in enumerate(task.edges)
    ]
    options = [task.options for task in tasks]
    scopes = [task.scope_id for task in tasks]
    undos = [task.undo for task in tasks]
    return {
        "processes": words([task.process_id for task in tasks]),
        "ids": words([task.id for task in tasks]),
        "creators": words([task.created_by for task in tasks]),
        "creator_generations": numbers([task.creator_generation for task in tasks]),
        "promises": words(["NULL" if t.promise == t.id else t.promise for t in tasks]),
        "actors": texts([task.actor for task in tasks]),
        "edges": numbers([len(task.edges) for task in tasks]),
        "waits": numbers(waits),
        "args": documents([task.args for task in tasks]),
        "args_versions": numbers([task.args_version for task in tasks]),
        "options": as_rows(options) if any(options) else None,
        "scopes": words([scope or "NULL" for scope in scopes]) if any(scopes) else None,
        "undos": as_rows(undos) if any(undos) else None,
        "steps": numbers([task.step for task in tasks]),
        "counted": words([task for task, _, _ in counted]),
        "counted_processes": words([process_id for _, process_id, _ in counted]),
        "counts": numbers([n for _, _, n in counted]),
        "edge_processes": words([edge[0] for edge in edges]),
        "edge_promises": words([edge[1] for edge in edges]),
        "edge_tasks": words([edge[2] for edge in edges]),
        "edge_kinds": words([edge[3] for edge in edges]),
        "edge_places": numbers([edge[4] for edge in edges]),
    }


# -- the writers, by which the settler commits many runs


class Decisions:
    """The writer of changes: they and the settles of their runs are one transaction."""

    overlaps = True  # they lock in one order: as well two lines of a worker as two workers
    stands = False

    def __init__(
        self,
        shard_count: int,
        most: int,
        committed: Callable[[Commit], None],
        worker: WorkerPort,
    ) -> None:
        self.most = most
        self._worker = worker
        self._shard_count = shard_count
        self._committed = committed
        # The batch that is being committed on a connection; one that breaks takes its batch along.
        self._open: WeakKeyDictionary[Connection, Commit] = WeakKeyDictionary()

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        changes = [_change_of(run) for run in runs]
        settle, worker_id = None, self._worker.worker_id
        if worker_id is not None and all(change.is_plain for change in changes):
            settle = settle_values(runs, worker_id)
        commit = self._open[connection] = Commit(
            changes,
            self._shard_count,
            runs=runs,
            serves=self._worker.serves,
            settle=settle,
            worker_id=worker_id,
        )
        try:
            await connection.follow(commit.steps())
        except BaseException:
            for run, change in zip(runs, changes, strict=True):
                run.leave_to_writer(msgspec.structs.replace(change, doubted=True))
            raise
        await _count(connection, runs, commit)
        return commit.verdicts

    def committed(self, connection: Connection) -> None:
        """Told by the settler."""
        self._committed(self._open.pop(connection))


class DecisionWriters:
    """The writers of one worker, by how wide decisions are."""

    def __init__(
        self, shard_count: int, committed: Callable[[Commit], None], worker: WorkerPort
    ) -> None:
        self._batched, self._wide, self._alone = (
            Decisions(shard_count, most, committed, worker) for most in (BATCH, WIDE_BATCH, 1)
        )

    def settles(self, run: Run, change: TaskChange) -> Outcome:
        """The run is over, and this is what it changes."""
        if change.state is not None and '"deadline"' in run.visit.payload:
            unneeded = [(change.process_id, "", f"deadline/{change.task}")]
            change = msgspec.structs.replace(change, unneeded=unneeded)
        run.leave_to_writer(change)
        width = len(change.tasks)
        if width > WIDEST:
            return Done(writer=self._alone)
        return Done(writer=self._wide if width > WIDE else self._batched)

    def settles_later(self, run: Run, make: Callable[[], TaskChange]) -> Outcome:
        """The same, but the change is made when it is written: many wait as what they are made of."""
        run.leave_to_writer(make)
        return Done(writer=self._wide)


def _change_of(run: Run) -> TaskChange:
    """What the run noted; a wide one is made only now."""
    noted: TaskChange | Callable[[], TaskChange] = run.change
    return noted if isinstance(noted, TaskChange) else noted()


async def _count(connection: Connection, runs: Sequence[Run], commit: Commit) -> None:
    """Results that came too late to count, and what else the changes say."""
    counted = []
    for run, change, verdict in zip(runs, commit.changes, commit.verdicts, strict=True):
        name = "late_result" if verdict == "gone" else change.counts if verdict is None else None
        if name is not None:
            counted.append((run.visit.queue, name))
    if counted:
        actors, names = [actor for actor, _ in counted], [name for _, name in counted]
        await connection.run(KERNEL_SQL["count"], actors=actors, names=names)


# -- one run, apart from the settler


def settle_steps(run: Run, outcome: Outcome, worker_id: UUID | None = None) -> Steps[str]:
    """Write a run's outcome to its visit, in the caller's transaction; returns what settle.sql does.

    But "before" where this run was settled earlier: perhaps by somebody else, so its outcome need not be
    this one.
    """
    seconds = max(0.0, clock.local() - run.began)
    ended = msgspec.structs.replace(run, outcome=outcome, seconds=seconds)
    answers = yield from rows(
        KERNEL_SQL["settle"], SettleAnswer, **settle_values([ended], worker_id)
    )
    answer = in_order(answers, 1)[0]
    return "before" if answer == "settled" and len(answers) > 1 else answer


def change_steps(
    run: Run, change: TaskChange, shard_count: int, worker_id: UUID | None = None
) -> Steps[str]:
    """Commit what a run changes and settle it: "settled", or why nothing was written."""
    commit = Commit([change], shard_count, runs=[run], waiting=True)
    yield from commit.steps()
    verdict = commit.verdicts[0]
    if isinstance(verdict, str):
        return "before" if verdict == "settled" else verdict
    return (yield from settle_steps(run, Done() if verdict is None else verdict, worker_id))
