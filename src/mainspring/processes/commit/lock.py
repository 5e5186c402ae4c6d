"""The locks of a commit: processes, then visits, then task rows, each in one order.

What is not locked here is not written: a process that a structural change has is left alone, and a
visit's token says whether a decision still counts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from mainspring.db.literals import words
from mainspring.kernel import KERNEL_SQL, Cancelled, find_values, in_order, lock_values
from mainspring.processes.commit.batch import CommitBatch, NotSettled, Torn
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step, Steps

LIVE = ("open", "external", "parked")


def lock_processes(batch: CommitBatch) -> Generator[Step, list[Any], list[int]]:
    """Shared; those that a structural change has are sent again, those that ended are dropped."""
    ids = sorted({change.process_id for change in batch.changes})
    name = "lock_processes_waiting" if batch.waiting else "lock_processes"
    rows = yield SQL[name], {"ids": words(ids)}
    for id, root, root_closed, now, type, engine in rows:
        batch.roots[id], batch.types[id], batch.now = root, type, now
        batch.engines[id] = engine
        if root_closed:
            batch.root_closed.add(id)
    missing = [id for id in ids if id not in batch.roots]
    still_open = set()
    if missing:
        still_open = {row[0] for row in (yield SQL["find_open"], {"ids": words(missing)})}
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


def settle_visits(batch: CommitBatch, values: dict[str, Any]) -> Steps[Any]:
    """Settle where others only lock: nothing that follows makes anything else of a plain success.

    That is one statement and one write of the visit less a step. It is for the common case alone:
    what does not count, or is locked by somebody, is found by `lock_visits` in the next try.
    """
    rows = yield KERNEL_SQL["settle"], values
    if any(answer != "settled" for answer in in_order(rows, len(batch.changes))):
        raise NotSettled
    batch.verdicts = ["settled"] * len(batch.changes)


def lock_visits(batch: CommitBatch, taken: list[int]) -> Generator[Step, list[Any], list[int]]:
    """The visit's token is the referee of late, repeated, cancelled and superseded decisions."""
    if not batch.runs:
        return taken
    runs = {n: batch.runs[n] for n in taken}
    order = sorted(runs, key=lambda n: _place(runs[n]))
    listed = [runs[n] for n in order]
    rows = yield KERNEL_SQL["lock_visits"], lock_values(listed)
    answers = {order[row[0] - 1]: row[1] for row in rows}
    if len(answers) < len(order):
        found = yield KERNEL_SQL["find_visits"], find_values(listed)
        there = {(row[0], row[1]) for row in found}
        for n in order:
            is_there = (runs[n].visit.queue, runs[n].visit.key) in there
            answers.setdefault(n, "locked" if is_there else "gone")
    kept = []
    seen: set[tuple[str, str | None]] = set()
    for n in taken:
        answer = answers.get(n, "same")
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


def lock_tasks(changes: list[TaskChange]) -> Generator[Step, list[Any], dict[str, Any]]:
    """One sorted pass over what ends, what is closed and what is linked to."""
    wanted = set(links(changes))
    for change in changes:
        wanted.add((change.process_id, change.task))
        if change.promise is not None:
            wanted.add((change.process_id, change.promise))
    listed = sorted(wanted, key=lambda pair: pair[1])
    values = {"processes": words([p for p, _ in listed]), "ids": words([t for _, t in listed])}
    rows = yield SQL["lock_tasks"], values
    return {row[0]: row for row in rows}


def still_counts(
    batch: CommitBatch, change: TaskChange, found: dict[TaskChange, int], state: dict[str, Any]
) -> bool:
    row = state.get(change.task)
    if row is None:
        raise Torn(f"task {change.task} of process {change.process_id} has a visit and no row")
    if change in found:
        if row[1] == "external" and row[3] == change.generation:
            return True
        batch.verdicts[found[change]] = "locked"  # somebody was faster: it looks again
        return False
    if change.state is None:
        return True
    return row[1] in LIVE  # else it came too late, or its visit was left over: it just ends


def _place(run: Any) -> tuple[int, str, str]:
    visit = run.visit
    return (visit.shard, visit.key, visit.queue)
