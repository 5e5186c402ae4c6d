"""What tasks wait for outside the graph, in a commit: signals, times and child processes."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import msgspec

from mainspring.db.sql import Steps, as_rows, first, rows, run
from mainspring.errors import IdInUse
from mainspring.kernel import Again
from mainspring.processes.commit.batch import CommitBatch
from mainspring.processes.commit.change import NewProcess, TaskChange
from mainspring.processes.commit.start import Started, start_steps
from mainspring.processes.commit.waiting import ExternalTask, WaitingSignal, closing_of
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure


def look_outside(batch: CommitBatch, taken: list[int]) -> Steps[dict[TaskChange, int]]:
    """What the visits of signals, timers and children find to close, each with its visit."""
    seeking = [n for n in taken if batch.changes[n].seeks]
    if not seeking:
        return {}
    ids = sorted({batch.changes[n].process_id for n in seeking})
    externals = yield from rows(SQL["read_externals"], ExternalTask, ids=ids)
    signals: dict[tuple[str, str | None], list[WaitingSignal]] = {}
    if any(external.kind == "signal" for external in externals):
        for signal in (yield from rows(SQL["read_signals"], WaitingSignal, ids=ids)):
            signals.setdefault((signal.process_id, signal.name), []).append(signal)
    visit_of = {batch.changes[n].process_id: n for n in seeking}
    timing = [batch.changes[n] for n in seeking if batch.changes[n].seeks == "timer"]
    timers = {change.task: change.background for change in timing}
    found: dict[TaskChange, int] = {}
    for external in externals:
        waiting = signals.get((external.process_id, external.name), [])
        change = closing_of(external, waiting, now=batch.now, timers=timers)
        if change is not None:
            found[change] = visit_of[change.process_id]
    early = {e.task: e.due_at for e in externals if e.due_at is not None and e.due_at > batch.now}
    closed = {change.task for change in found}
    for n in seeking:
        task = batch.changes[n].task
        if batch.changes[n].seeks == "timer" and task in early and task not in closed:
            batch.verdicts[n] = Again(at=early[task])  # its worker's clock runs ahead
    return found


def take(changes: list[TaskChange]) -> Steps[None]:
    """Signals that are taken, and rows of tasks that wait outside no longer."""
    taking = [change for change in changes if change.signal is not None]
    if taking:
        taken = yield from rows(
            SQL["take_signals"],
            str,
            processes=[change.process_id for change in taking],
            names=[change.signal[0] for change in taking if change.signal],
            ids=[change.signal[1] for change in taking if change.signal],
            tasks=[change.task for change in taking],
            generations=[change.generation for change in taking],
        )
        if len(taken) != len(taking):
            raise TimeoutError("a signal was taken by another task meanwhile")  # sent again
    outside = [c.task for c in changes if c.was_external and c.state != "external"]
    if outside:
        yield from run(SQL["drop_externals"], tasks=outside)


def wait_outside(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    """Tasks that wait for a signal, a time or a child from here on."""
    items = []
    locks = []
    for change in changes:
        waiting = change.waiting
        if waiting is None or change.state != "external":
            continue
        due_at = waiting.until
        if waiting.seconds is not None:
            due_at = batch.now + timedelta(seconds=waiting.seconds)
        items.append(
            {
                "task": change.task,
                "process_id": change.process_id,
                "kind": waiting.kind,
                "name": waiting.name,
                "due_at": due_at,
                "child": waiting.child,
                "now": waiting.now,
            }
        )
        kinds = ["await"] if waiting.kind == "signal" else []
        if waiting.lock is not None:
            kinds = ["lock"]  # by which it is granted; nobody sends that signal before
            locks.append(
                {
                    "name": waiting.lock,
                    "process_id": change.process_id,
                    "task": change.task,
                    "generation": change.generation,
                    "scope_id": change.scope_id,
                }
            )
        kinds += ["timer"] if due_at is not None else []
        for kind in kinds:
            due = due_at if kind == "timer" else None
            visit = batch.engine_visit(kind, change.process_id, change.task, due)
            if kind == "timer" and change.background is not None:
                # Its visit is what knows, when it goes off, that what follows gives way.
                visit = msgspec.structs.replace(visit, priority=change.background)
            batch.offers.append(visit)
    if items:
        yield from run(SQL["insert_externals"], items=as_rows(items))
    if locks:
        yield from run(SQL["ask_locks"], items=as_rows(locks))


def start_children(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    """Child processes begin in the commit by which their task begins to wait for them."""
    for change in changes:
        if change.child is None or change.waiting is None:
            continue
        try:
            started = yield from _start_child(change.child, batch.shard_count)
        except IdInUse as error:
            text = f"{error}; a child is never one that is there already: derive its id from its parent's"
            change.must_park(Failure("mainspring.errors.IdInUse", text, cause=change.task))
            continue
        change.waiting.child = started.id


def _start_child(child: NewProcess, shard_count: int) -> Steps[Started]:
    """Under its id. After a restart the child of before has that: this one's has a number besides."""
    parent = child.parent
    for number in count(parent.generation):
        key = f"{child.key}#{number}" if number else child.key
        try:
            return (
                yield from start_steps(
                    child.type,
                    key,
                    child.args,
                    shard_count=shard_count,
                    attrs=child.attrs,
                    args_version=child.args_version,
                    parent=parent,
                    refuse_taken=True,
                    begin=child.begin,
                )
            )
        except IdInUse:
            former = yield from first(
                SQL["find_former_child"],
                str,
                type=child.type,
                key=key,
                parent=parent.process_id,
                task=parent.task,
                generation=parent.generation,
            )
            if former is None:
                raise
    raise AssertionError("numbers do not end")
