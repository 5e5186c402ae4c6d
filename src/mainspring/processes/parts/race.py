"""Races: the first of several promises that comes to its end, the first success, some of many.

A structural change: who lost is called off under the exclusive lock, and only if nothing else is
interested in what it would bring. A race whose ends so far were failures waits for further ones: they
are counted anew under the same lock, so no end is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, as_rows, rows, run
from mainspring.processes.commit.change import LEAVE, TaskChange
from mainspring.processes.commit.close import CaughtPromise, TaskEnd, end_steps
from mainspring.processes.commit.visits import asked_look
from mainspring.processes.record.decision import fingerprint
from mainspring.processes.record.race import RaceTerms, terms_of
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Locked, Structural
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode
from mainspring.tasks.declare.promise import Failure

LOST = Failure("mainspring.errors.Cancelled", "another of a first_of came first")
TOO_FEW = "mainspring.errors.TooFewSucceeded"


class RaceEnd(NamedTuple):
    """A row of read_race.sql: an input that is closed."""

    pos: int
    outcome: str
    result: str | None
    error: str | None

    @property
    def failure(self) -> Failure:
        return LOST if self.error is None else msgspec.json.decode(self.error, type=Failure)


class Racing(Structural):
    """The end of a race."""

    def end_race(self, task: str, background: int | None = None) -> Steps[Answer]:
        """Close it with what came first, and call the losers off. `background`: see Change."""
        locked = yield from self.lock()
        graph = yield from self.read()
        node = graph.nodes.get(task)
        if locked.state != "open" or node is None or node.state != "open":
            yield from self.unlock()
            return Answer(False, why="it has ended")
        terms = terms_of(node.actor, node.race)
        limit = 1 if terms.ends else None
        ends = yield from rows(
            SQL["read_race"], RaceEnd, process_id=self.process_id, task=task, limit=limit
        )
        if not ends:
            yield from self.unlock()
            return Answer(False, why="no input is closed")
        kept = [end for end in ends if terms.ends or end.outcome == "ok"]
        still_open = len(graph.inputs[task]) - len(ends)
        if len(kept) < terms.need and (left := terms.left(len(kept), 0, still_open)):
            yield from run(
                SQL["insert_waits"], process_id=self.process_id, tasks=[task], counts=[left]
            )
            yield from self.unlock()
            return Answer(True)
        won = self._won(node, terms, kept[: terms.need], ends, background)
        if not terms.ends and won.error is not None and not (yield from self._is_caught(node)):
            return (yield from self._park(locked, node, won.error))
        losers = [] if terms.go_on else _losers(graph, node)
        scopes = [loser.scope_id for loser in losers if loser.actor == LEAVE]
        losers = [loser for loser in losers if loser.actor != LEAVE]
        yield from self._drop([loser.id for loser in losers], graph)
        yield from self._cancel_children([loser.id for loser in losers])
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

    def _won(
        self,
        node: TaskNode,
        terms: RaceTerms,
        kept: Sequence[RaceEnd],
        ends: Sequence[RaceEnd],
        background: int | None,
    ) -> TaskChange:
        """What it comes to: those that count, or why there are too few of them."""
        change = TaskChange(
            self.process_id,
            node.id,
            "done",
            node.actor,
            node.promise,
            "ok",
            generation=node.generation,
            scope_id=node.scope_id,
            background=background,
        )
        if terms.ends and kept[0].outcome == "err":
            change.outcome, change.error = "err", kept[0].failure
        elif len(kept) < terms.need:
            change.outcome, change.error = "err", _too_few(terms, kept, ends)
        else:
            of = {pos: n for n, pos in reversed(list(enumerate(terms.of)))}
            texts = [
                f'{{"index": {of.get(end.pos, end.pos)}, "value": {end.result or "null"}}}'
                for end in kept
            ]
            change.result = texts[0] if terms.one else f"[{', '.join(texts)}]"
        return change

    def _is_caught(self, node: TaskNode) -> Steps[bool]:
        """Whether somebody catches the failure of the race itself."""
        scopes = [] if node.scope_id is None else [node.scope_id]
        if scopes and (yield from rows(SQL["find_scopes"], str, ids=scopes)):
            return True
        found = yield from rows(
            SQL["is_caught"], CaughtPromise, processes=[self.process_id], promises=[node.promise]
        )
        return any(promise.caught for promise in found)

    def _park(self, locked: Locked, node: TaskNode, error: Failure) -> Steps[Answer]:
        """Nobody catches it: it waits for an operator. Who may still succeed goes on."""
        noted = {
            "task": node.id,
            "process_id": self.process_id,
            "type": locked.type,
            "actor": node.actor,
            "fingerprint": fingerprint(node.actor, error),
            "error_type": error.type,
            "error": error.message,
        }
        yield from run(SQL["park_tasks"], items=as_rows([noted]))
        yield from end_steps([TaskEnd(self.process_id, node.id, "parked", error=error)])
        yield from self.unlock()
        return Answer(True, parked=error)

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


def _too_few(terms: RaceTerms, kept: Sequence[RaceEnd], ends: Sequence[RaceEnd]) -> Failure:
    failed = [end for end in ends if end.outcome == "err"]
    last = failed[-1].failure
    text = (
        f"of {len(set(terms.of))} promises {terms.need} had to be kept: {len(kept)} were, "
        f"{len(failed)} failed, the last of them with {last}"
    )
    return Failure(TOO_FEW, text, cause=last.cause)


def _losers(graph: TaskGraph, race: TaskNode) -> list[TaskNode]:
    """Live tasks that fulfil an open input of the race in which nothing else is interested."""
    wanted = {promise for promise, _ in graph.inputs[race.id]}
    wanted = {p for p in wanted if graph.nodes[p].outcome is None and graph.interest(p) == 1}
    return [n for n in graph.nodes.values() if n.promise in wanted and n.state in LIVE]
