"""What decisions end: promises are closed, who waited goes on, and the last end finishes the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, as_rows, documents, numbers, rows, run, words
from mainspring.ids import new_id
from mainspring.kernel import KERNEL_SQL, Parked
from mainspring.processes.commit.batch import CommitBatch, LockedTask, NotSettled, Torn
from mainspring.processes.commit.change import LEAVE, TaskChange
from mainspring.processes.commit.task_input import (
    InputValue,
    TaskInput,
    TaskOptions,
    decode_options,
)
from mainspring.processes.commit.visits import (
    NewVisit,
    add_values,
    delete_steps,
    engine_visit,
    offer_steps,
)
from mainspring.processes.record.decision import fingerprint
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure


class TaskEnd(msgspec.Struct):
    """A task's new state, a promise's outcome, or both of one row."""

    process_id: str
    id: str
    state: str | None = None
    outcome: str | None = None
    result: str | None = None  # JSON
    error: Failure | None = None


class CaughtPromise(NamedTuple):
    """A row of is_caught.sql."""

    source: str  # the promise
    caught: bool


class ReleasedTask(NamedTuple):
    """A row of find_released.sql."""

    n: int  # of the (first) closed promise that it waited for, from 1
    task: str
    k: int  # how many of the closed promises it waited for
    failed: bool  # one of them is an error that stops it
    waits: int  # how many inputs it waited for when it was made
    actor: str
    options: str | None  # JSON
    generation: int
    promise: str | None  # None: its own
    args: str | None  # JSON; None: it has several edges
    args_version: int
    scope_id: str | None
    step: int
    kind: str


class WaitCount(NamedTuple):
    """A row of count_down.sql."""

    task: str
    n: int
    was: int


class FailedScope(NamedTuple):
    """A row of fail_scopes.sql."""

    id: str
    process_id: str


class LockPlace(NamedTuple):
    """A row of close_scopes.sql and of locks_of.sql: a task that asked for a lock."""

    process_id: str
    task: str


class FinishedProcess(NamedTuple):
    """A row of finish_processes.sql."""

    id: str
    parent_process: str | None
    parent_task: str | None
    parent_engine: str | None  # None: no parent that is open


def judge(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    """A failure is delivered if somebody catches it; else the task parks and its promise waits."""
    failing = [change for change in changes if change.failing]
    if not failing:
        return
    caught: set[str | None] = set()
    delivered = [change for change in failing if not change.park]
    scoped = {change.scope_id for change in delivered if change.scope_id is not None}
    if scoped:
        catching = yield from rows(SQL["find_scopes"], str, ids=sorted(scoped))
        caught |= {c.promise for c in delivered if c.scope_id in catching}
    if delivered:
        found = yield from rows(
            SQL["is_caught"],
            CaughtPromise,
            processes=[change.process_id for change in delivered],
            promises=[change.promise for change in delivered],
        )
        caught |= {promise.source for promise in found if promise.caught}
        # Somebody who catches it may be linked at this very moment: whoever commits last looks last.
        held = {promise.source for promise in found if not promise.caught}
        batch.looks.update(c.process_id for c in delivered if c.promise in held)
    parked = []
    for change in failing:
        if change.promise in caught and not change.park:
            continue
        error = change.error
        assert error is not None
        change.state, change.promise, change.outcome = "parked", None, None
        batch.verdicts[batch.place_of(change)] = Parked(
            error.type, f"{error.type}: {error.message}\n{error.trace}".strip()
        )
        parked.append(
            {
                "task": change.task,
                "process_id": change.process_id,
                "type": batch.types[change.process_id],
                "actor": change.actor,
                "fingerprint": fingerprint(change.actor, error),
                "error_type": error.type,
                "error": error.message,
            }
        )
    if parked:
        yield from run(SQL["park_tasks"], items=as_rows(parked))


def end(changes: list[TaskChange], locked: Mapping[str, LockedTask] | None) -> Steps[None]:
    """Ends and outcomes. A row that is missed is a defect: everything is rolled back.

    Without rows that were locked before, one is only not as it was thought to be.
    """
    ends: dict[str, TaskEnd] = {}
    for change in changes:
        if change.state is not None:
            row = ends[change.task] = TaskEnd(change.process_id, change.task, change.state)
            if change.state == "parked":
                row.error = change.error
        if change.promise is not None:
            found = ends.get(change.promise)
            if found is None:
                found = ends[change.promise] = TaskEnd(change.process_id, change.promise)
            found.outcome, found.result = change.outcome, change.result
            found.error = change.error
    if not ends:
        return
    values = end_values(ends.values(), parked_too=locked is not None)
    [written] = yield from rows(SQL["end_tasks"], int, **values)
    if written != len(ends):
        if locked is None:
            raise NotSettled
        # The settler halves the batch until the culprit is alone.
        raise Torn(f"of {', '.join(ends)[:400]} some were closed before: two fulfil one promise")
    if locked is None:
        return
    went_on = [c.task for c in changes if locked[c.task].state == "parked" and c.state != "parked"]
    if went_on:
        yield from run(SQL["unpark_tasks"], tasks=words(went_on))


def end_steps(ends: Iterable[TaskEnd]) -> Steps[None]:
    """Write ends that nobody waits to hear of."""
    if listed := list(ends):
        yield from run(SQL["end_tasks"], **end_values(listed))


def end_values(ends: Iterable[TaskEnd], *, parked_too: bool = True) -> dict[str, object]:
    """The arguments of end_tasks.sql, in the order in which rows are locked."""
    listed = sorted(ends, key=attrgetter("id"))
    errors = [end.error for end in listed]
    return {
        "processes": words([end.process_id for end in listed]),
        "ids": words([end.id for end in listed]),
        "states": words([end.state or "NULL" for end in listed]),
        "outcomes": words([end.outcome or "NULL" for end in listed]),
        "results": documents([end.result or "null" for end in listed]),
        "errors": as_rows(errors) if any(errors) else None,
        "parked_too": parked_too,
    }


def release(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    """Tasks that waited for what is closed now, in a later statement than the lock."""
    closed = [change for change in changes if change.promise is not None]
    if not closed:
        return
    found = yield from rows(
        SQL["find_released"],
        ReleasedTask,
        processes=words([change.process_id for change in closed]),
        promises=words([str(change.promise) for change in closed]),
        outcomes=words([str(change.outcome) for change in closed]),
    )
    counted: dict[str, ReleasedTask] = {}
    for task in found:
        if task.waits == 1:
            change = closed[task.n - 1]
            how = decode_options(task.options)
            batch.ready(
                change.process_id, task.task, task.actor, how, task.generation, change.background
            )
            if task.args is not None:
                batch.hand_over(_released_input(task, task.args, how, change))
        elif task.waits > 1:
            counted[task.task] = task
    if not counted:
        return
    listed = [counted[id] for id in sorted(counted)]
    counts = yield from rows(
        SQL["count_down"],
        WaitCount,
        tasks=words([task.task for task in listed]),
        counts=numbers([task.k for task in listed]),
        failed=numbers([task.failed for task in listed]),
    )
    crossed = [counted[count.task] for count in counts if count.n <= 0 < count.was]
    if crossed:
        for task in crossed:
            change, how = closed[task.n - 1], decode_options(task.options)
            batch.ready(
                change.process_id, task.task, task.actor, how, task.generation, change.background
            )
        yield from run(SQL["drop_waits"], tasks=[task.task for task in crossed])


def offer(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    for change in changes:
        batch.visits.extend(change.offers)
    if batch.visits:
        values = add_values(batch.visits, batch.shard_count, batch.serves, batch.worker_id)
        yield from run(KERNEL_SQL["add_visits"], **values)


def finish(batch: CommitBatch, changes: list[TaskChange]) -> Steps[None]:
    """The last end finishes the process; if others end at the same moment, a look does."""
    closed = {
        change.process_id
        for change in changes
        if change.promise is not None and change.promise == batch.roots[change.process_id]
    }
    ending = sorted(closed | (batch.root_closed & {change.process_id for change in changes}))
    # Without a queue it is the engine's.
    unneeded = [
        (id, queue or batch.engines[id], key) for c in changes for id, queue, key in c.unneeded
    ]
    attrs: dict[str, dict[str, object]] = {}
    for change in changes:
        if change.attrs:  # several tasks of one process may end together
            attrs.setdefault(change.process_id, {}).update(change.attrs)
    if attrs:
        items = [{"id": id, "attrs": attrs[id]} for id in sorted(attrs)]
        yield from run(SQL["unite_attrs"], items=as_rows(items))
    left = [c.scope_id for c in changes if c.actor == LEAVE and c.outcome == "ok"]
    if left:
        for lock in (yield from rows(SQL["close_scopes"], LockPlace, ids=left)):
            batch.offers.append(batch.engine_visit("lock", lock.process_id, lock.task))
    failed = {
        change.scope_id: {"id": change.scope_id, "error": change.error}
        for change in changes
        if change.outcome == "err" and change.scope_id is not None and change.fails_scope
    }
    if failed:
        scopes = yield from rows(
            SQL["fail_scopes"], FailedScope, items=as_rows(list(failed.values()))
        )
        batch.looks.update(scope.process_id for scope in scopes)
    batch.looks.update(change.process_id for change in changes if change.look)
    batch.offers.extend(map(batch.asked_look, batch.looks))
    for change in changes:
        if change.prune:
            pruned = change.process_id
            batch.offers.append(batch.engine_visit("prune", pruned, pruned))
    if ending:
        ended = yield from rows(SQL["finish_processes"], FinishedProcess, ids=words(ending))
        finished = {process.id for process in ended}
        unneeded += [(id, batch.engines[id], f"look/{id}") for id in finished]
        for one in ended:
            told = told_parent(one.parent_process, one.parent_task, one.parent_engine)
            if told is not None:
                batch.offers.append(told)
        others = [id for id in ending if id not in finished]
        if others:
            yield from run(SQL["mark_root_closed"], ids=others)
            # Who closed the root has those to wait for that did not see it closed, and were in
            # flight; all later ones see it, and the last of them asks for a look.
            for id in others:
                seen = id in batch.root_closed
                end = batch.asked_look(id) if seen else batch.engine_visit("end", id, id)
                batch.offers.append(end)
    if batch.offers:
        # An upsert meets a row once; the earliest wins.
        batch.offers.sort(key=lambda v: -v.due_at.timestamp() if v.due_at else 0.0)
        once = {(v.queue, v.key): v for v in batch.offers}
        yield from offer_steps(list(once.values()), batch.shard_count)
    if unneeded:
        yield from delete_steps(unneeded, batch.shard_count)


def told_parent(process_id: str | None, task: str | None, engine: str | None) -> NewVisit | None:
    """The visit by which a parent that waits for a child is told of its end; None: none waits."""
    if process_id is None or task is None or engine is None:
        return None
    return engine_visit("child", process_id, task, id=new_id(), engine=engine)


def _released_input(
    task: ReleasedTask, args: str, options: TaskOptions, change: TaskChange
) -> TaskInput:
    """Of a task with one edge, whose promise this change has closed."""
    assert change.promise is not None
    given = InputValue(change.promise, task.kind, change.outcome, change.result, change.error)
    return TaskInput(
        change.process_id,
        task.task,
        task.promise or task.task,
        task.actor,
        "open",
        task.generation,
        args,
        task.args_version,
        task.scope_id,
        task.step,
        (given,),
        priority=options.priority,
        is_undo=options.shielded,
    )
