"""first_of: the first of several promises that comes to its end; the others are called off.

A structural change: who lost is called off under the exclusive lock, and only if nothing else is
interested in what it would bring.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from mainspring.processes.commit.change import LEAVE, TaskChange
from mainspring.processes.commit.visits import asked_look
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step
from mainspring.processes.structural.change import Answer, Structural
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode
from mainspring.tasks.declare.promise import Failure

LOST = Failure("mainspring.errors.Cancelled", "another of a first_of came first")


class Racing(Structural):
    """The end of a first_of."""

    def end_race(
        self, task: str, background: int | None = None
    ) -> Generator[Step, list[Any], Answer]:
        """Close it with the first outcome, and call the losers off. `background`: see Change."""
        locked = yield from self.lock()
        graph = yield from self.read()
        node = graph.nodes.get(task)
        if locked.state != "open" or node is None or node.state != "open":
            yield from self.unlock()
            return Answer(False, why="it has ended")
        values = {"process_id": self.process_id, "task": task}
        rows = yield SQL["read_race"], values
        if not rows:
            yield from self.unlock()
            return Answer(False, why="no input is closed")
        losers = _losers(graph, node)
        scopes = [loser.scope_id for loser in losers if loser.actor == LEAVE]
        losers = [loser for loser in losers if loser.actor != LEAVE]
        yield from self._drop([loser.id for loser in losers], graph)
        yield from self._cancel_children([loser.id for loser in losers])
        won = self._won(node, rows[0])
        won.background = background
        changes = [won, *map(self._lost, losers)]
        yield from self.end_tasks(locked, changes)
        if scopes:
            yield from self._call_off(scopes)
        yield from self.unlock()
        return Answer(True, len(losers))

    def _call_off(self, scopes: list[str | None]) -> Generator[Step, list[Any], Any]:
        """A scope that lost ends as one that failed: what it did is undone."""
        items = [{"id": id, "error": LOST} for id in scopes]
        yield SQL["fail_scopes"], {"items": msgspec.json.encode(items).decode()}
        yield from self._offer([asked_look(self.process_id, self.engine)])

    def _won(self, node: TaskNode, row: Any) -> TaskChange:
        pos, outcome, result, error = row
        change = TaskChange(self.process_id, node.id, "done", node.actor, node.promise, outcome)
        change.generation, change.scope_id = node.generation, node.scope_id
        if outcome == "ok":
            change.result = f'{{"index": {pos}, "value": {result or "null"}}}'
        else:
            change.error = msgspec.json.decode(error, type=Failure) if error else LOST
        return change

    def _lost(self, node: TaskNode) -> TaskChange:
        change = TaskChange(self.process_id, node.id, "cancelled", node.actor)
        change.promise, change.outcome, change.error = node.promise, "err", LOST
        change.generation, change.fails_scope = node.generation, False
        return change


def _losers(graph: TaskGraph, race: TaskNode) -> list[TaskNode]:
    """Live tasks that fulfil an open input of the race in which nothing else is interested."""
    wanted = {promise for promise, _ in graph.inputs[race.id]}
    wanted = {p for p in wanted if graph.nodes[p].outcome is None and graph.interest(p) == 1}
    return [n for n in graph.nodes.values() if n.promise in wanted and n.state in LIVE]
