"""What decisions end: promises are closed, who waited goes on, and the last end finishes the process."""

from __future__ import annotations

from typing import Any

from mainspring.db.literals import as_rows, numbers, words
from mainspring.kernel import KERNEL_SQL, Parked, new_id
from mainspring.processes.commit.batch import CommitBatch, NotSettled, Torn
from mainspring.processes.commit.change import LEAVE, TaskChange
from mainspring.processes.commit.end_rows import TaskEnd, end_values
from mainspring.processes.commit.task_input import InputValue, TaskInput, decode_options
from mainspring.processes.commit.visits import add_values, engine_visit, offer_values, place_values
from mainspring.processes.record.decision import fingerprint
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Steps


def judge(batch: CommitBatch, changes: list[TaskChange]) -> Steps[Any]:
    """A failure is delivered if somebody catches it; else the task parks and its promise waits."""
    failing = [change for change in changes if change.failing]
    if not failing:
        return
    caught: set[str | None] = set()
    delivered = [change for change in failing if not change.park]
    scoped = {change.scope_id for change in delivered if change.scope_id is not None}
    if scoped:
        rows = yield SQL["find_scopes"], {"ids": sorted(scoped)}
        catching = {row[0] for row in rows}
        caught |= {c.promise for c in delivered if c.scope_id in catching}
    if delivered:
        values = {
            "processes": [change.process_id for change in delivered],
            "promises": [change.promise for change in delivered],
        }
        rows = yield SQL["is_caught"], values
        caught |= {row[0] for row in rows if row[1]}
        # Somebody who catches it may be linked at this very moment: whoever commits last looks last.
        held = {row[0] for row in rows if not row[1]}
        for change in delivered:
            change.look = change.look or change.promise in held
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
        yield SQL["park_tasks"], {"items": as_rows(parked)}


def end(changes: list[TaskChange], state: dict[str, Any] | None) -> Steps[Any]:
    """Ends and outcomes. A row that is missed is a defect: everything is rolled back.

    Without the state of rows that were locked before, one is only not as it was thought to be.
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
    values = end_values(ends.values(), parked_too=state is not None)
    [(written,)] = yield SQL["end_tasks"], values
    if written != len(ends):
        if state is None:
            raise NotSettled
        # The settler halves the batch until the culprit is alone.
        raise Torn(f"of {', '.join(ends)[:400]} some were closed before: two fulfil one promise")
    if state is None:
        return
    went_on = [c.task for c in changes if state[c.task][1] == "parked" and c.state != "parked"]
    if went_on:
        yield SQL["unpark_tasks"], {"tasks": words(went_on)}


def release(batch: CommitBatch, changes: list[TaskChange]) -> Steps[Any]:
    """Tasks that waited for what is closed now, in a later statement than the lock."""
    closed = [change for change in changes if change.promise is not None]
    if not closed:
        return
    values = {
        "processes": words([change.process_id for change in closed]),
        "promises": words([str(change.promise) for change in closed]),
        "outcomes": words([str(change.outcome) for change in closed]),
    }
    rows = yield SQL["find_released"], values
    counted = {}
    for row in rows:
        if row[4] == 1:
            change = closed[row[0] - 1]
            how = decode_options(row[6])
            batch.ready(change.process_id, row[1], row[5], how, row[7], change.background)
            if row[9] is not None:
                batch.hand_over(_released_input(row, change))
        elif row[4] > 1:
            counted[row[1]] = row
    if not counted:
        return
    listed = sorted(counted)
    values = {
        "tasks": words(listed),
        "counts": numbers([counted[task][2] for task in listed]),
        "failed": numbers([counted[task][3] for task in listed]),
    }
    crossed = [task for task, n, was in (yield SQL["count_down"], values) if n <= 0 < was]
    if crossed:
        for task in crossed:
            row = counted[task]
            change, how = closed[row[0] - 1], decode_options(row[6])
            batch.ready(change.process_id, task, row[5], how, row[7], change.background)
        yield SQL["drop_waits"], {"tasks": crossed}


def offer(batch: CommitBatch, changes: list[TaskChange]) -> Steps[Any]:
    for change in changes:
        batch.visits += change.offers
    if batch.visits:
        values = add_values(batch.visits, batch.shard_count, batch.serves, batch.worker_id)
        yield KERNEL_SQL["add_visits"], values


def finish(batch: CommitBatch, changes: list[TaskChange]) -> Steps[Any]:
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
    attrs: dict[str, dict[str, Any]] = {}
    for change in changes:
        if change.attrs:  # several tasks of one process may end together
            attrs.setdefault(change.process_id, {}).update(change.attrs)
    if attrs:
        items = [{"id": id, "attrs": attrs[id]} for id in sorted(attrs)]
        yield SQL["unite_attrs"], {"items": as_rows(items)}
    left = [c.scope_id for c in changes if c.actor == LEAVE and c.outcome == "ok"]
    if left:
        yield SQL["change_scopes"], {"ids": left, "state": "closed"}
    failed = {
        change.scope_id: {"id": change.scope_id, "error": change.error}
        for change in changes
        if change.outcome == "err" and change.scope_id is not None and change.fails_scope
    }
    if failed:
        rows = yield SQL["fail_scopes"], {"items": as_rows(list(failed.values()))}
        batch.offers += [batch.asked_look(process_id) for process_id in {row[1] for row in rows}]
    batch.offers += [batch.asked_look(c.process_id) for c in changes if c.look]
    batch.offers += [
        batch.engine_visit("prune", c.process_id, c.process_id) for c in changes if c.prune
    ]
    if ending:
        rows = yield SQL["finish_processes"], {"ids": words(ending)}
        finished = {row[0] for row in rows}
        unneeded += [(id, batch.engines[id], f"look/{id}") for id in finished]
        for _, parent, parent_task, engine in rows:
            if engine is not None:
                visit = engine_visit("child", parent, parent_task, id=new_id(), engine=engine)
                batch.offers.append(visit)
        others = [id for id in ending if id not in finished]
        if others:
            yield SQL["mark_root_closed"], {"ids": others}
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
        yield KERNEL_SQL["offer"], offer_values(list(once.values()), batch.shard_count)
    if unneeded:
        yield KERNEL_SQL["delete_visits"], place_values(unneeded, batch.shard_count)


def _released_input(row: Any, change: TaskChange) -> TaskInput:
    """Of a task with one edge, whose promise this change has closed."""
    assert change.promise is not None
    _, task, _, _, _, actor, how, generation, promise, args, version, scope, step, kind = row
    given = InputValue(change.promise, kind, change.outcome, change.result, change.error)
    options = decode_options(how)
    return TaskInput(
        change.process_id,
        task,
        promise or task,
        actor,
        "open",
        generation,
        args,
        version,
        scope,
        step,
        (given,),
        priority=options.priority,
        is_undo=options.shielded,
    )
