"""Compensation: which steps are undone, and the tasks that do it, newest first. Pure.

A step is undone when the scope around it fails, or when its process is cancelled before that scope has
closed. A scope that closed has succeeded, and what was done in it stays, unless a scope around it is
open still. The compensation of a step outside any scope belongs to the process: it runs at a cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.ids import new_ids
from mainspring.processes.commit.change import NewTask
from mainspring.processes.commit.task_input import TaskOptions, decode_options
from mainspring.processes.record.decision import Undo
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode

NEVER = 1 << 62  # the number of an end that was not: what was in flight is undone first


class StoredScope(NamedTuple):
    """A row of read_scopes.sql."""

    id: str
    parent: str | None
    opened_by: str
    state: str
    on_error: str | None  # JSON
    promise: str
    error: str | None  # JSON
    deadline_at: datetime | None
    is_over: bool | None
    name: str | None = None


Scopes = Mapping[str, StoredScope]  # by id


def undo_tasks(
    process_id: str,
    steps: Sequence[TaskNode],
    maker: Callable[[TaskNode], TaskNode],
    after: Sequence[str] = (),
) -> list[NewTask]:
    """A task for each step, in reverse order of the ends, each after the one before it.
    `after`: promises of compensations that run already, of what was done later."""
    ordered = sorted(steps, key=lambda n: NEVER if n.done_no is None else n.done_no, reverse=True)
    tasks: list[NewTask] = []
    for id, step in zip(new_ids(len(ordered)), ordered, strict=True):
        undo, by = msgspec.json.decode(step.undo or "", type=Undo), maker(step)
        edges = [(step.promise, "outcome")] if undo.takes_outcome else []
        edges += [(before, "order") for before in ([tasks[-1].id] if tasks else after)]
        tasks.append(
            NewTask(
                id, process_id, by.id, by.generation, id, undo.actor, undo.args, undo.args_version,
                tuple(edges), TaskOptions(shielded=True),
            )
        )  # fmt: skip
    return tasks


def compensating(graph: TaskGraph) -> set[str]:
    """Tasks that undo something, and all that they made: no cancel ends them half way."""
    known: dict[str, bool] = {}
    for node in graph.nodes.values():
        line: list[str] = []
        at: TaskNode | None = node
        while at is not None and at.id not in known and not decode_options(at.options).shielded:
            line.append(at.id)
            at = graph.nodes.get(at.created_by or "")
        answer = at is not None and known.get(at.id, True)
        if at is not None:
            known[at.id] = answer
        known.update(dict.fromkeys(line, answer))
    return {id for id, is_one in known.items() if is_one}


def under_way(graph: TaskGraph, makers: Collection[str] | None = None) -> list[str]:
    """The promises of compensations that have not ended: of those that these tasks made, or of all."""
    return [
        node.promise
        for node in graph.nodes.values()
        if (makers is None or node.created_by in makers)
        and decode_options(node.options).shielded
        and node.state != "superseded"
        and graph.nodes[node.promise].outcome is None
    ]


def to_undo(
    graph: TaskGraph, scopes: Scopes, handed_out: Collection[str], kept: Collection[str]
) -> list[TaskNode]:
    """The steps that a cancel of the process undoes. `kept` is what undoes others, and goes on."""
    return [
        node
        for node in graph.nodes.values()
        if node.undo
        and node.id not in kept
        and may_have_begun(node, handed_out)
        and can_be_undone(node.scope_id, scopes)
    ]


def may_have_begun(node: TaskNode, handed_out: Collection[str]) -> bool:
    """Whether a step may have had its effect: it has ended or has a visit, a race called it off, or it
    was done before a restart and waits to be redone."""
    if node.state in LIVE:
        return node.id in handed_out or node.generation > 0
    return node.state in ("done", "cancelled")


def can_be_undone(scope: str | None, scopes: Scopes) -> bool:
    """Whether what was done in a scope (None: in none) may have to be undone still."""
    states = [found.state for found in around(scope, scopes)]
    return not states or ("undoing" not in states and any(s != "closed" for s in states))


def around(scope: str | None, scopes: Scopes) -> Iterator[StoredScope]:
    """The scope and those around it, from within."""
    while scope is not None and (found := scopes.get(scope)) is not None:
        yield found
        scope = found.parent
