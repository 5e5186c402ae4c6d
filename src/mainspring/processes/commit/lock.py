"""The locks of a commit: processes, then visits, then task rows, each in one order.

What is not locked here is not written: a process that a structural change has is left alone, and a
visit's token says whether a decision still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from mainspring.db.literals import words
from mainspring.db.steps import Steps, rows
from mainspring.kernel import KERNEL_SQL, Cancelled, SettleAnswer, in_order, lock_steps
from mainspring.processes.commit.batch import CommitBatch, NotSettled, Torn
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.statements import SQL

LIVE = ("open", "external", "parked")


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
    if any(answer != "settled" for answer in in_order(answers, len(batch.changes))):
        raise NotSettled
    batch.verdicts[:] = ["settled"] * len(batch.changes)


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
