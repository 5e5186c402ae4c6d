"""The causal cone of a task: what a restart from it redoes. Pure, over a process in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from mainspring.processes.record.race import RACES, terms_of

LIVE = ("open", "external", "parked")
# What only waits, or passes on what it waited for: nothing happens outside by it. When the result of a
# process is there and nothing else of it is live, nobody reads these any more. look.sql and the view of
# what is broken name them too.
WAITING = (
    "@signal",
    "@sleep",
    "@gather",
    "@concat",
    "@first_of",
    "@some_of",
    "@call_off",
    "@every",
    "@answer",
    "@pass_on",
)


class TaskNode(msgspec.Struct):
    """A task of the graph."""

    id: str
    created_by: str | None
    promise: str
    actor: str
    state: str
    outcome: str | None
    generation: int = 0
    scope_id: str | None = None
    done_no: int | None = None
    options: str | None = None
    undo: str | None = None
    race: str | None = None  # JSON: the terms of one


class TaskEdge(NamedTuple):
    """A task's interest in a promise."""

    promise: str
    task: str
    kind: str


class TaskGraph:
    """All tasks and edges of a process."""

    def __init__(self, tasks: Iterable[TaskNode], edges: Iterable[TaskEdge]) -> None:
        self.nodes: Mapping[str, TaskNode] = {task.id: task for task in tasks}
        self.inputs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._waiting: dict[str, list[str]] = defaultdict(list)
        self._made: dict[str, list[str]] = defaultdict(list)
        self._fulfilling: dict[str, list[str]] = defaultdict(list)
        self.edges_on: dict[str, set[str]] = defaultdict(set)  # of any kind, by promise
        for promise, task, kind in edges:
            self.edges_on[promise].add(task)
            if kind != "handle":
                self.inputs[task].append((promise, kind))
                self._waiting[promise].append(task)
        for node in self.nodes.values():
            self._fulfilling[node.promise].append(node.id)
            if node.created_by is not None:
                self._made[node.created_by].append(node.id)

    def cone(self, starts: Collection[str]) -> set[str]:
        """The tasks, whatever they made, and whatever waits for what these fulfil, and so on.

        By the promise that a task *fulfils*: a tail call may have given it another's.
        """
        found = set(starts)
        todo = list(starts)
        while todo:
            node = self.nodes[todo.pop()]
            for id in (
                *self._made[node.id],
                *self._waiting[node.promise],
                *self._called_off(node),
            ):
                if id not in found and id in self.nodes and self.nodes[id].state != "superseded":
                    found.add(id)
                    todo.append(id)
        return found

    def made_by(self, starts: Collection[str]) -> set[str]:
        """These tasks and all that they made, superseded ones left out."""
        found = {id for id in starts if self.nodes[id].state != "superseded"}
        todo = list(found)
        while todo:
            for id in self._made[todo.pop()]:
                if id not in found and self.nodes[id].state != "superseded":
                    found.add(id)
                    todo.append(id)
        return found

    def _called_off(self, node: TaskNode) -> list[str]:
        """Who lost a race that is run again runs again: a cancellation must not win it."""
        if node.actor not in RACES:
            return []
        return [
            id
            for promise, _ in self.inputs[node.id]
            for id in self._fulfilling[promise]
            if self.nodes[id].state == "cancelled"
        ]

    def superseded(self, cone: set[str], starts: Collection[str]) -> set[str]:
        """Of a cone: what was made by a member of it, and so never was. The rest is reset.

        A lone start is never among them; of several, one may have been made by another.
        """
        kept = starts if len(starts) == 1 else ()
        return {id for id in cone if id not in kept and self.nodes[id].created_by in cone}

    def open_inputs(self, task: str, reopened: set[str]) -> tuple[int, int]:
        """How many inputs are open once these promises are, and the ends of how many it waits for. None,
        where it need not wait."""
        count = kept = failed = 0
        is_stopped = False
        for promise, kind in self.inputs[task]:
            of = self.nodes.get(promise)  # one that is gone (I12) closes no more
            outcome = None if of is None or promise in reopened else of.outcome
            if outcome is None:
                count += 1
                continue
            kept, failed = kept + (outcome == "ok"), failed + (outcome == "err")
            is_stopped = is_stopped or (outcome == "err" and kind in ("value", "order"))
        node = self.nodes[task]
        if node.actor in RACES:
            n = terms_of(node.actor, node.race).left(kept, failed, count)
            return (count if n else 0), n
        return (0, 0) if is_stopped else (count, count)

    def lost_input(self, tasks: Iterable[str]) -> tuple[str, str] | None:
        """The first of these tasks that has an input which is gone, with that."""
        pairs = ((task, promise) for task in tasks for promise, _ in self.inputs[task])
        return next((pair for pair in pairs if pair[1] not in self.nodes), None)

    def interest(self, promise: str) -> int:
        """How many tasks that have not ended have an edge of any kind on it."""
        return sum(self.nodes[task].state in LIVE for task in self.edges_on[promise])

    def live(self) -> list[TaskNode]:
        """Tasks that have not ended."""
        return [node for node in self.nodes.values() if node.state in LIVE]
