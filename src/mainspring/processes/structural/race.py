"""first_of: the first of several promises that comes to its end; the others are called off.

A structural change: who lost is called off under the exclusive lock, and only if nothing else is
interested in what it would bring.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, as_rows, first, run
from mainspring.processes.commit.change import LEAVE, TaskChange
from mainspring.processes.commit.visits import asked_look
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Structural
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode
from mainspring.tasks.declare.promise import Failure

LOST = Failure("mainspring.errors.Cancelled", "another of a first_of came first")


class FirstInput(NamedTuple):
    """A row of read_race.sql: the input that was closed first."""

    pos: int
    outcome: str
    result: str | None
    error: str | None


class Racing(Structural):
    """The end of a first_of."""

    def end_race(self, task: str, background: int | None = None) -> Steps[Answer]:
        """Close it with the first outcome, and call the losers off. `background`: see Change."""
        locked = yield from self.lock()
        graph = yield from self.read()
        node = graph.nodes.get(task)
        if locked.state != "open" or node is None or node.state != "open":
            yield from self.unlock()
            return Answer(False, why="it has ended")
        winner = yield from first(
            SQL["read_race"], FirstInput, process_id=self.process_id, task=task
        )
        if winner is None:
            yield from self.unlock()
            return Answer(False, why="no input is closed")
        losers = _losers(graph, node)
        scopes = [loser.scope_id for loser in losers if loser.actor == LEAVE]
        losers = [loser for loser in losers if loser.actor != LEAVE]
        yield from self._drop([loser.id for loser in losers], graph)
        yield from self._cancel_children([loser.id for loser in losers])
        won = self._won(node, winner, background)
        yield from self.end_tasks(locked, [won, *map(self._lost, losers)])
        if scopes:
            yield from self._call_off(scopes)
        yield from self.unlock()
        return Answer(True, len(losers))

    def _call_off(self, scopes: list[str | None]) -> Steps[None]:
        """A scope that lost ends as one that failed: what it did is undone."""
        items = [{"id": id, "error": LOST} for id in scopes]
        yield from run(SQL["fail_scopes"], items=as_rows(items))
        yield from self._offer([asked_look(self.process_id, self.engine)])

    def _won(self, node: TaskNode, winner: FirstInput, background: int | None) -> TaskChange:
        change = TaskChange(
            self.process_id,
            node.id,
            "done",
            node.actor,
            node.promise,
            winner.outcome,
            generation=node.generation,
            scope_id=node.scope_id,
            background=background,
        )
        if winner.outcome == "ok":
            change.result = f'{{"index": {winner.pos}, "value": {winner.result or "null"}}}'
        else:
            error = winner.error
            change.error = msgspec.json.decode(error, type=Failure) if error else LOST
        return change

    def _lost(self, node: TaskNode) -> TaskChange:
        return TaskChange(
            self.process_id,
            node.id,
            "cancelled",
            node.actor,
            node.promise,
            "err",
            error=LOST,
            generation=node.generation,
            fails_scope=False,
        )


def _losers(graph: TaskGraph, race: TaskNode) -> list[TaskNode]:
    """Live tasks that fulfil an open input of the race in which nothing else is interested."""
    wanted = {promise for promise, _ in graph.inputs[race.id]}
    wanted = {p for p in wanted if graph.nodes[p].outcome is None and graph.interest(p) == 1}
    return [n for n in graph.nodes.values() if n.promise in wanted and n.state in LIVE]
