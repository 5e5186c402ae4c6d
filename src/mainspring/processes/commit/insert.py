"""What decisions add to their graphs: tasks, edges, counts of open inputs, and scopes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from mainspring.db.literals import as_rows, documents, numbers, texts, words
from mainspring.db.steps import Steps, run
from mainspring.processes.commit.batch import CommitBatch, Torn
from mainspring.processes.commit.change import FIRST_OF, NewTask, TaskChange
from mainspring.processes.commit.lock import LockedTask
from mainspring.processes.commit.task_input import NO_OPTIONS, TaskInput
from mainspring.processes.statements import SQL


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
            open_inputs, is_stopped = _inputs(task, made, locked)
            if is_stopped:
                open_inputs = 0
            tasks.append(task)
            waits.append(open_inputs)
            if open_inputs >= 2:
                n = 1 if task.actor == FIRST_OF else open_inputs
                counted.append((task.id, task.process_id, n))
            elif open_inputs == 0:
                options = task.options or NO_OPTIONS
                batch.ready(task.process_id, task.id, task.actor, options, 0, change.background)
                if not task.edges:
                    batch.hand_over(_task_input(task))
    if tasks:
        yield from run(SQL["insert_tasks"], **_values(tasks, waits, counted))
    scopes = [scope for change in changes for scope in change.scopes]
    if scopes:
        yield from run(SQL["insert_scopes"], items=as_rows(scopes))
    for scope in scopes:
        if scope.timeout is not None:
            due_at = batch.now + timedelta(seconds=scope.timeout)
            batch.offers.append(batch.asked_look(scope.process_id, due_at))


def _inputs(task: NewTask, made: set[str], locked: Mapping[str, LockedTask]) -> tuple[int, bool]:
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
        linked = locked.get(promise)
        if linked is None:
            raise Torn(f"task {task.id} waits for promise {promise}, which does not exist")
        if linked.outcome is None:
            open_inputs += 1
        elif task.actor == FIRST_OF or (linked.outcome == "err" and kind in ("value", "order")):
            is_stopped = True
    return open_inputs, is_stopped


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
