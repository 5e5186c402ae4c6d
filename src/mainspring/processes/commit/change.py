"""Changes: what one settled visit does to its process, worked out before anything is written. Pure.

A decision becomes a change here: its children get ids, a tail call hands the obligation on, and what
it links to is listed. `commit.py` writes many changes of many processes in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.ids import new_ids
from mainspring.processes.commit.start import Begin, Parent
from mainspring.processes.commit.task_input import TaskInput, TaskOptions
from mainspring.processes.commit.visits import NewVisit
from mainspring.processes.record.decision import ChildTask, Decision, Scope
from mainspring.tasks.declare.promise import Failure

PASS_ON = "@pass_on"
LEAVE = "@leave"
# A loop is pruned every so many tail calls.
PRUNE_EVERY = 256


class NewTask(msgspec.Struct):
    """A task that a change adds. Edges are (promise, kind) in the order of its inputs."""

    id: str
    process_id: str
    created_by: str
    creator_generation: int
    promise: str
    actor: str
    args: str
    args_version: int = 1
    edges: tuple[tuple[str, str], ...] = ()
    options: TaskOptions | None = None
    scope_id: str | None = None
    undo: object = None  # JSON
    step: int = 0


class NewScope(msgspec.Struct):
    """A scope that a change opens."""

    id: str
    process_id: str
    parent: str | None
    opened_by: str
    on_error: object  # JSON
    promise: str
    timeout: float | None
    name: str | None = None


class Waiting(msgspec.Struct):
    """What an external task waits for."""

    kind: str  # signal, timer, child
    name: str | None = None
    seconds: float | None = None
    until: datetime | None = None
    child: str | None = None
    now: bool = False  # takes only signals that are sent from here on
    lock: str | None = None  # for whose grant the signal stands


class NewProcess(msgspec.Struct, frozen=True):
    """A child process that a task waits for."""

    type: str
    key: str
    args: str
    attrs: str
    parent: Parent
    args_version: int
    begin: Begin


class TaskChange(msgspec.Struct, eq=False):
    """What one visit does to its process. With `seeks` it is found out in the commit."""

    process_id: str
    task: str  # the row that ends, waits outside or parks
    state: str | None  # what it becomes; None: nothing is written to it
    actor: str = ""
    # The promise that is closed, and how; None: none is.
    promise: str | None = None
    outcome: str | None = None
    result: str | None = None  # JSON
    error: Failure | None = None
    # A failure: closes the promise if somebody catches it, else parks the task.
    failing: bool = False
    park: bool = False  # in any case: the code is at fault
    scope_id: str | None = None
    tasks: Sequence[NewTask] = ()
    scopes: Sequence[NewScope] = ()
    attrs: Mapping[str, object] | None = None
    waiting: Waiting | None = None
    # A signal that the task takes: its name and id.
    signal: tuple[str, str] | None = None
    generation: int = 0
    seeks: str | None = None  # signal, timer or child: the visit of one
    was_external: bool = False
    child: NewProcess | None = None
    prune: bool = False
    look: bool = False
    fails_scope: bool = True
    counts: str | None = None  # the counter that it adds to
    keeps: bool = False  # its visit stays, for the look to take away
    offers: Sequence[NewVisit] = ()
    # Visits that are not needed any more: (process, queue, key); without a queue: the engine's.
    unneeded: Sequence[tuple[str, str, str]] = ()
    background: int | None = None  # the priority of what it makes ready, if no call says another
    doubted: bool = False  # a commit that had it failed: each step is looked at in the next

    @property
    def is_outside(self) -> bool:
        """Its task waits outside the graph from here on, or did until now."""
        return self.waiting is not None or self.signal is not None or self.was_external

    def must_park(self, error: Failure) -> None:
        """It cannot be carried out: the task waits for an operator."""
        self.failing = self.park = True
        self.error = error

    @property
    def is_plain(self) -> bool:
        """A success: whatever the commit finds, its visit is done."""
        return not (
            self.failing
            or self.seeks
            or self.keeps
            or self.doubted
            or self.child is not None
            or self.counts is not None
        )


def change_of(
    task_input: TaskInput, decision: Decision, *, failing: bool = True, park: bool = False
) -> TaskChange:
    """A decision as a change. `validate` has found nothing against it.

    An error is one to be caught or to park the task, unless it is not `failing`; see TaskChange.
    """
    change = TaskChange(
        task_input.process_id,
        task_input.task_id,
        "done",
        task_input.actor,
        scope_id=task_input.scope,
        attrs=decision.attrs,
        generation=task_input.generation,
        background=task_input.background,
    )
    if decision.error is not None:
        change.failing, change.park = failing, park
        change.promise, change.outcome, change.error = task_input.promise, "err", decision.error
        return change
    if not decision.children and decision.returned is None:
        change.promise, change.outcome, change.result = task_input.promise, "ok", decision.result
        return change
    ids = new_ids(len(decision.children) + len(decision.scopes) + 1)
    children, scope_ids, spare = (
        ids[: len(decision.children)],
        ids[len(decision.children) : -1],
        ids[-1],
    )
    returned = decision.returned
    # What other tasks of this decision wait for if they wait for the child that takes over.
    promises = list(children)
    if isinstance(returned, int):
        promises[returned] = task_input.promise
    change.tasks = [
        _task(child, id, promises, scope_ids, task_input)
        for id, child in zip(children, decision.children, strict=True)
    ]
    change.scopes = [
        _scope(scope, n, scope_ids, promises, task_input) for n, scope in enumerate(decision.scopes)
    ]
    # An error that parked before somebody came who catches it is delivered by a look.
    change.look = any(
        isinstance(edge.promise, str) and edge.kind == "outcome"
        for child in decision.children
        for edge in child.edges
    )
    if isinstance(returned, int):
        successor = change.tasks[returned]
        successor.promise = task_input.promise
        successor.step = task_input.step + 1
        change.prune = successor.step % PRUNE_EVERY == 0
    elif isinstance(returned, str):
        passing = ChildTask(PASS_ON, '{"of": null}')
        task = _task(passing, spare, promises, scope_ids, task_input)
        task.edges = ((returned, "outcome"),)
        task.promise = task_input.promise
        change.tasks = [*change.tasks, task]
    else:
        change.promise, change.outcome, change.result = task_input.promise, "ok", decision.result
    return change


def _task(
    child: ChildTask, id: str, promises: list[str], scope_ids: list[str], task_input: TaskInput
) -> NewTask:
    return NewTask(
        id,
        task_input.process_id,
        task_input.task_id,
        task_input.generation,
        id,
        child.actor,
        child.args,
        child.args_version,
        tuple(
            (promises[e.promise] if isinstance(e.promise, int) else e.promise, e.kind)
            for e in child.edges
        ),
        _options(child),
        task_input.scope if child.scope is None else scope_ids[child.scope],
        None if child.undo is None else msgspec.to_builtins(child.undo),
    )


def _options(child: ChildTask) -> TaskOptions | None:
    options = TaskOptions(
        child.delay,
        child.at,
        child.priority,
        child.group,
        child.daemon,
        child.task_timeout,
        child.on_task_timeout,
    )
    return None if options == TaskOptions() else options


def _scope(
    scope: Scope, n: int, scope_ids: list[str], promises: list[str], task_input: TaskInput
) -> NewScope:
    return NewScope(
        scope_ids[n],
        task_input.process_id,
        task_input.scope if scope.parent is None else scope_ids[scope.parent],
        task_input.task_id,
        None if scope.on_error is None else msgspec.to_builtins(scope.on_error),
        promises[scope.result],
        scope.timeout,
        scope.name,
    )
