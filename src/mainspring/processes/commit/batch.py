"""The state of one commit, and the locks that it begins with.

The state is the changes of a batch, what became of each, and the visits that they make; all steps of
`commit.py` read and write it. Locks are taken on processes, then visits, then task rows, each in one
order. What is not locked here is not written: a process that a structural change has is left alone, and a
visit's token says whether a decision still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from mainspring.db.sql import Steps, rows, words
from mainspring.ids import new_id, tokens
from mainspring.kernel import (
    EARLIEST,
    KERNEL_SQL,
    Cancelled,
    Run,
    SettleAnswer,
    Verdict,
    in_order,
    lock_steps,
)
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import (
    DEADLINE_AFTER,
    NO_OPTIONS,
    TaskInput,
    TaskOptions,
    deadline_of,
)
from mainspring.processes.commit.visits import (
    NewVisit,
    Serves,
    asked_look,
    engine_visit,
    queue_of,
    task_visit,
)
from mainspring.processes.statements import SQL

LIVE = ("open", "external", "parked")


class Torn(RuntimeError):
    """A row was not as every commit leaves it: nothing is written."""


class NotSettled(TimeoutError):
    """Something of the batch is not as it was read: all is rolled back, and each looked at."""


class LockedProcess(NamedTuple):
    """A row of lock_processes.sql and lock_processes_waiting.sql."""

    id: str
    root: str
    root_closed: bool
    now: datetime
    type: str
    engine: str


class LockedTask(NamedTuple):
    """A row of lock_tasks.sql."""

    id: str
    state: str
    outcome: str | None
    generation: int


class CommitBatch:
    """Changes that are committed together. `verdicts` answers each by its place."""

    def __init__(
        self,
        changes: Sequence[TaskChange],
        shard_count: int,
        *,
        runs: Sequence[Run] = (),
        waiting: bool = False,
        serves: Serves = lambda queue, shard: False,
        settle: Mapping[str, object] | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        self.changes = changes
        # Whose visits say whether each change still counts; none of a change that nobody ran for.
        # Not in the change: runs note theirs, and a circle of the two would wait for the collector.
        self.runs = runs
        self.shard_count = shard_count
        self.waiting = waiting  # for a structural change under way, instead of leaving it alone
        self.serves = serves  # what the committing worker will start itself
        self.worker_id = worker_id  # of the worker that starts what it serves
        # The arguments of settle.sql, if every change is a plain success: see settle_visits.
        self.settle = settle
        self.has_settled = False
        self.verdicts: list[Verdict] = [None] * len(changes)
        self.visits: list[NewVisit] = []  # that this commit added
        self.task_inputs: dict[int, TaskInput] = {}  # by the version of the visit
        self.offers: list[NewVisit] = []  # that may be there already
        self.looks: set[str] = set()  # processes that must be looked at
        self.roots: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.engines: dict[str, str] = {}  # the queue in which the engine works for each process
        self.root_closed: set[str] = set()
        self._tokens: list[int] = []  # drawn and not used yet
        self.now = EARLIEST

    def took(
        self, id: str, root: str, type: str, engine: str, now: datetime, root_closed: bool
    ) -> None:
        """A process is locked, and may be changed."""
        self.roots[id], self.types[id], self.engines[id] = root, type, engine
        self.now = now
        if root_closed:
            self.root_closed.add(id)

    def ready(
        self,
        process_id: str,
        task: str,
        actor: str,
        options: TaskOptions,
        generation: int,
        background: int | None,
    ) -> None:
        if options is NO_OPTIONS and generation == 0 and background is None:  # most: no detour
            queue = queue_of(actor, self.engines[process_id])
            self.visits.append(NewVisit(queue, task, process_id, task, self._token()))
            return
        due_at = options.at
        if options.delay is not None:
            due_at = self.now + timedelta(seconds=options.delay)
        deadline_at = deadline_of(options, due_at or self.now)
        if deadline_at is not None:
            looked_at = deadline_at + DEADLINE_AFTER
            self.offers.append(self.engine_visit("deadline", process_id, task, looked_at))
        self.visits.append(
            task_visit(
                process_id,
                task,
                actor,
                engine=self.engines[process_id],
                generation=generation,
                due_at=due_at,
                priority=background if options.priority is None else options.priority,
                group=options.group,
                deadline_at=deadline_at,
                version=self._token(),
            )
        )

    def _token(self) -> int:
        if not self._tokens:
            self._tokens = list(tokens(64))
        return self._tokens.pop()

    def asked_look(self, process_id: str, due_at: datetime | None = None) -> NewVisit:
        return asked_look(process_id, self.engines[process_id], due_at)

    def engine_visit(
        self, kind: str, process_id: str, subject: str, due_at: datetime | None = None
    ) -> NewVisit:
        engine = self.engines[process_id]
        return engine_visit(kind, process_id, subject, id=new_id(), engine=engine, due_at=due_at)

    def hand_over(self, task_input: TaskInput) -> None:
        """What the visit that was added last is run with: known here, so nobody need read it."""
        self.task_inputs[self.visits[-1].version] = task_input

    def place_of(self, change: TaskChange) -> int:
        return next(n for n, other in enumerate(self.changes) if other is change)


# -- locks


def lock_processes(batch: CommitBatch) -> Steps[list[int]]:
    """Shared; those that a structural change has are sent again, those that ended are dropped."""
    ids = sorted({change.process_id for change in batch.changes})
    if batch.waiting:
        locked = yield from rows(SQL["lock_processes_waiting"], LockedProcess, ids=words(ids))
    else:
        locked = yield from rows(SQL["lock_processes"], LockedProcess, ids=words(ids))
    for process in locked:
        batch.took(
            process.id, process.root, process.type, process.engine, process.now, process.root_closed
        )
    missing = [id for id in ids if id not in batch.roots]
    still_open: set[str] = set()
    if missing:
        still_open = set((yield from rows(SQL["find_open"], str, ids=words(missing))))
    taken = []
    for n, change in enumerate(batch.changes):
        if change.process_id in batch.roots:
            taken.append(n)
        elif change.process_id in still_open:
            batch.verdicts[n] = "locked"
        else:
            # Its visit, if it is still there, must go with it.
            batch.verdicts[n] = Cancelled("its process has ended")
            taken.append(n)
    return taken


def settle_visits(batch: CommitBatch, values: Mapping[str, object]) -> Steps[None]:
    """Settle where others only lock: nothing that follows makes anything else of a plain success.

    That is one statement and one write of the visit less a step. It is for the common case alone:
    what does not count, or is locked by somebody, is found by `lock_visits` in the next try.
    """
    answers = yield from rows(KERNEL_SQL["settle"], SettleAnswer, **values)
    in_order(answers, len(batch.changes))
    if len(answers) > 1:  # one is named: not settled, or by its run before, whatever that said then
        raise NotSettled
    batch.verdicts[:] = ["settled"] * len(batch.changes)
    batch.has_settled = True


def lock_visits(batch: CommitBatch, taken: list[int]) -> Steps[list[int]]:
    """The visit's token is the referee of late, repeated, cancelled and superseded decisions."""
    if not batch.runs:
        return taken
    answers = yield from lock_steps([batch.runs[n] for n in taken])
    kept = []
    seen: set[tuple[str, str | None]] = set()
    for n, answer in zip(taken, answers, strict=True):
        subject = (batch.changes[n].task, batch.changes[n].seeks)
        if answer == "same" and batch.verdicts[n] is None and subject in seen:
            batch.verdicts[n] = "locked"  # one decision for a task: the next is judged after it
        elif answer == "same" and batch.verdicts[n] is None:
            kept.append(n)
            seen.add(subject)
        elif answer != "same":
            # Settled before, by this very run: its answer was lost, and all of it stands.
            batch.verdicts[n] = {"moved": "rerun"}.get(answer, answer)
    return kept


def links(changes: Iterable[TaskChange]) -> Iterator[tuple[str, str]]:
    """The promises, with their processes, that new tasks wait for and that were there before."""
    for change in changes:
        if not change.tasks:
            continue
        made = {task.id for task in change.tasks} | {task.promise for task in change.tasks}
        for task in change.tasks:
            for promise, kind in task.edges:
                if kind != "handle" and promise not in made:
                    yield change.process_id, promise


def lock_tasks(changes: list[TaskChange]) -> Steps[dict[str, LockedTask]]:
    """One sorted pass over what ends, what is closed and what is linked to."""
    wanted = set(links(changes))
    for change in changes:
        wanted.add((change.process_id, change.task))
        if change.promise is not None:
            wanted.add((change.process_id, change.promise))
    listed = sorted(wanted, key=lambda pair: pair[1])
    processes, ids = words([p for p, _ in listed]), words([t for _, t in listed])
    locked = yield from rows(SQL["lock_tasks"], LockedTask, processes=processes, ids=ids)
    return {task.id: task for task in locked}


def still_counts(
    batch: CommitBatch,
    change: TaskChange,
    found: dict[TaskChange, int],
    tasks: Mapping[str, LockedTask],
) -> bool:
    task = tasks.get(change.task)
    if task is None:
        raise Torn(f"task {change.task} of process {change.process_id} has a visit and no row")
    if change in found:
        if task.state == "external" and task.generation == change.generation:
            return True
        batch.verdicts[found[change]] = "locked"  # somebody was faster: it looks again
        return False
    if change.state is None:
        return True
    return task.state in LIVE  # else it came too late, or its visit was left over: it just ends
