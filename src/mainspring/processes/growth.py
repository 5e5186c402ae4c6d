"""What decisions add to their graphs: tasks, edges, counts of open inputs, and scopes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from mainspring.db.literals import rows as as_rows
from mainspring.processes.batch import Batch, Steps, Torn
from mainspring.processes.change import FIRST_OF, Change, NewTask
from mainspring.processes.hand_out import NO_OPTIONS, Handout
from mainspring.processes.store import SQL


def insert(batch: Batch, changes: list[Change], state: dict[str, Any]) -> Steps:
    """Children, edges and counts, before anything is closed: what this batch closes is counted
    as open here and released after."""
    tasks: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    for change in changes:
        # A promise that a tail call moves on is open too: its new fulfiller is made here.
        made = {task.id for task in change.tasks} | {task.promise for task in change.tasks}
        for task in change.tasks:
            open_inputs, is_stopped = _inputs(task, made, state)
            if is_stopped:
                open_inputs = 0
            tasks.append(_row(task, open_inputs))
            edges += [
                {
                    "process_id": task.process_id,
                    "promise": promise,
                    "task": task.id,
                    "kind": kind,
                    "pos": pos,
                }
                for pos, (promise, kind) in enumerate(task.edges)
            ]
            if open_inputs >= 2:
                n = 1 if task.actor == FIRST_OF else open_inputs
                waits.append({"task": task.id, "process_id": task.process_id, "n": n})
            elif open_inputs == 0:
                batch.ready(task.process_id, task.id, task.actor, task.options or NO_OPTIONS, 0)
                if not task.edges:
                    batch.hand_over(_handout(task))
    if tasks:
        values = {"tasks": as_rows(tasks), "edges": as_rows(edges), "waits": as_rows(waits)}
        yield SQL["insert_tasks"], values
    scopes = [scope for change in changes for scope in change.scopes]
    if scopes:
        yield SQL["insert_scopes"], {"items": as_rows(scopes)}
    for scope in scopes:
        if scope.timeout is not None:
            due_at = batch.now + timedelta(seconds=scope.timeout)
            batch.offers.append(batch.asked_look(scope.process_id, due_at))


def _inputs(task: NewTask, made: set[str], state: dict[str, Any]) -> tuple[int, bool]:
    """How many inputs are open, and whether it need not wait for them: one that is closed is an
    error that stops it, or the first of a first_of."""
    open_inputs = 0
    is_stopped = False
    for promise, kind in task.edges:
        if kind == "handle":
            continue
        if promise in made:
            open_inputs += 1
            continue
        row = state.get(promise)
        if row is None:
            raise Torn(f"task {task.id} waits for promise {promise}, which does not exist")
        if row[2] is None:
            open_inputs += 1
        elif task.actor == FIRST_OF or (row[2] == "err" and kind in ("value", "order")):
            is_stopped = True
    return open_inputs, is_stopped


def _handout(task: NewTask) -> Handout:
    """Of a task without inputs."""
    return Handout(
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
    )


def _row(task: NewTask, waits: int) -> dict[str, Any]:
    return {
        "process_id": task.process_id,
        "id": task.id,
        "created_by": task.created_by,
        "creator_generation": task.creator_generation,
        "promise": task.promise,
        "actor": task.actor,
        "edges": len(task.edges),
        "waits": waits,
        "args": msgspec.Raw(task.args.encode()),
        "args_version": task.args_version,
        "options": task.options,
        "scope_id": task.scope_id,
        "undo": task.undo,
        "step": task.step,
    }
