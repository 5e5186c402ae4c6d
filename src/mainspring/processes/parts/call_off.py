"""Calling parts of a process off, while the rest goes on: a task with all that it made, or a scope.

A task that is called off fails with `Cancelled`, for whoever waits for it. A scope ends as one that
failed: what it did is undone, and its handler says how the process goes on. What undoes something is
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, as_rows, run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.commit.visits import asked_look
from mainspring.processes.statements import SQL
from mainspring.processes.structural.cancel import BEING_CANCELLED
from mainspring.processes.structural.change import Answer, Locked, Structural
from mainspring.processes.structural.compensation import (
    Scopes,
    StoredScope,
    around,
    compensating,
)
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode
from mainspring.processes.structural.request import PartOrder
from mainspring.tasks.declare.promise import Failure

CALL_OFF = "@call_off"


class _Called(NamedTuple):
    """What is called off: live tasks, and scopes that end as failed."""

    tasks: list[TaskNode]
    scopes: list[StoredScope]


class CallingOff(Structural):
    """The end of parts of one process."""

    def call_off(self, part: PartOrder) -> Steps[Answer]:
        """For who asks from outside: refused where there is nothing to call off."""
        locked = yield from self.lock()
        refused = "" if locked.state == "open" else f"the process is {locked.state}"
        if locked.cancelling:
            refused = refused or BEING_CANCELLED
        graph = yield from self.read()
        scopes = yield from self.read_scopes()
        called = _Called([], [])
        if not refused:
            targets, refused = _targets(graph, scopes, part, locked.root)
            called = _called(graph, scopes, targets, part.scope)
        if not refused and not any(called):
            refused = _nothing(part, scopes)
        if refused:
            yield from self.unlock()
            missing = part.task is not None and part.task not in graph.nodes
            return Answer(False, why=refused, missing=missing)
        stopped = yield from self._end(locked, graph, called, part.why, [])
        yield from self.unlock()
        return Answer(True, len(called.tasks), stopped, scopes=len(called.scopes))

    def call_off_from_within(self, task_input: TaskInput) -> Steps[Answer]:
        """For a step of the process itself, whose result is how many tasks and scopes were called off."""
        locked = yield from self.lock()
        graph = yield from self.read()
        node = graph.nodes.get(task_input.task_id)
        if locked.state != "open" or node is None or node.state != "open":
            yield from self.unlock()
            return Answer(False, why="it has ended")
        asked = msgspec.json.decode(task_input.args, type=_CallOff)
        scopes = yield from self.read_scopes()
        targets = [i.promise for i in task_input.inputs if i.kind == "handle"]
        called = _called(graph, scopes, targets, asked.scope)
        done = TaskChange(
            self.process_id,
            node.id,
            "done",
            node.actor,
            node.promise,
            "ok",
            str(len(called.tasks) + len(called.scopes)),
            generation=node.generation,
            scope_id=node.scope_id,
            background=task_input.background,
        )
        called = _Called([n for n in called.tasks if n.id != node.id], called.scopes)
        why = f"called off by {node.id}"
        stopped = yield from self._end(locked, graph, called, why, [done])
        yield from self.unlock()
        return Answer(True, len(called.tasks), stopped, scopes=len(called.scopes))

    def _end(
        self, locked: Locked, graph: TaskGraph, called: _Called, why: str, more: list[TaskChange]
    ) -> Steps[int]:
        """End the tasks, and mark the scopes, which the look that follows ends."""
        ids = [node.id for node in called.tasks]
        stopped = yield from self._drop(ids, graph)
        yield from self._cancel_children(ids)
        error = Failure("mainspring.errors.Cancelled", why)
        yield from self.end_tasks(
            locked, [*more, *(self._called_off(node, error) for node in called.tasks)]
        )
        if called.scopes:
            items = [{"id": scope.id, "error": error} for scope in called.scopes]
            yield from run(SQL["fail_scopes"], items=as_rows(items))
            yield from self._offer([asked_look(self.process_id, self.engine)])
        return stopped

    def _called_off(self, node: TaskNode, error: Failure) -> TaskChange:
        return TaskChange(
            self.process_id,
            node.id,
            "cancelled",
            node.actor,
            node.promise,
            "err",
            error=msgspec.structs.replace(error, cause=node.id),
            generation=node.generation,
            scope_id=node.scope_id,
        )


class _CallOff(msgspec.Struct):
    """The arguments of `@call_off`."""

    scope: str | None = None


def _targets(
    graph: TaskGraph, scopes: Scopes, part: PartOrder, root: str
) -> tuple[Sequence[str], str]:
    """The tasks that are meant, and why they cannot be called off."""
    undoing = compensating(graph)
    if part.actor is not None:
        nodes = graph.nodes.values()
        return [n.id for n in nodes if n.actor == part.actor and n.id not in undoing], ""
    if part.task is None:
        return [], ""
    if part.task not in graph.nodes:
        return [], f"there is no task {part.task}; it may have been pruned"
    if part.task == root:
        return [], "its first task is the process itself: cancel that"
    if part.task in undoing:
        return [], (
            f"task {part.task} undoes what was done: one that is parked is tried again "
            "(restart-tasks) or gone on without (resolve)"
        )
    return [part.task], ""


def _called(graph: TaskGraph, scopes: Scopes, targets: Sequence[str], name: str | None) -> _Called:
    """The live tasks among these and all that they made; scopes that they opened, and those of a name."""
    undoing = compensating(graph)
    made = set(graph.made_by(targets))
    ending = [
        scope
        for scope in scopes.values()
        if scope.state == "open" and (scope.opened_by in made or (name and scope.name == name))
    ]
    over = {scope.id for scope in ending}

    def is_inside(node: TaskNode) -> bool:
        return any(scope.id in over for scope in around(node.scope_id, scopes))

    live = (graph.nodes[id] for id in sorted(made) if graph.nodes[id].state in LIVE)
    tasks = [node for node in live if node.id not in undoing and not is_inside(node)]
    return _Called(tasks, list(_outermost(ending, over, scopes)))


def _outermost(
    ending: Sequence[StoredScope], over: set[str], scopes: Scopes
) -> Iterator[StoredScope]:
    for scope in ending:
        if not any(outer.id in over for outer in around(scope.parent, scopes)):
            yield scope


def _nothing(part: PartOrder, scopes: Scopes) -> str:
    """Why there is nothing to call off."""
    if part.scope is None:
        what = f"task {part.task}" if part.task is not None else f"no task of {part.actor!r}"
        state = "has ended, and so has all that it made" if part.task is not None else "is live"
        return f"{what} {state}: there is nothing to call off"
    named = [scope for scope in scopes.values() if scope.name == part.scope]
    if named:
        return f"the scope {part.scope!r} is {named[-1].state}: it has ended"
    known = sorted({scope.name for scope in scopes.values() if scope.name is not None})
    others = f"it has {', '.join(map(repr, known))}" if known else "none of its scopes has a name"
    return f"the process has opened no scope {part.scope!r}; {others}"
