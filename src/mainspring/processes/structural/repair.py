"""Repairs: what one transaction makes impossible, and is there all the same (P7).

A restore or a hand-made change. What is safe is repaired under the exclusive lock and counted as a
defect; the rest marks the process and is left to an operator.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from mainspring.db.sql import Steps, first, rows, run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.visits import insert_steps, task_visit
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Locked, Structural, visit_of
from mainspring.processes.structural.cone import TaskGraph

log = logging.getLogger("mainspring")

# The details of process_violation, as the view words them: those that are safe to repair ...
NOT_QUEUED = "an open task has no visit and waits for nothing"
MISCOUNTED = "a count is not the number of open inputs"
NOT_STARTED = "a process has no first task"
NO_TIMER = "a task sleeps and has no timer"
NOT_TOLD = "a task waits for a child that has ended"
NOT_APPLIED = "a result was accepted and its promise is open"
ALL_ENDED = "a process is open and all of it has ended"
SAFE = {NOT_QUEUED, MISCOUNTED, NOT_STARTED, NO_TIMER, NOT_TOLD, NOT_APPLIED}
# ... and one that makes nothing about its task safe: what it is to be run with is not known.
LOST_INPUT = "an input is gone"


AUTOMATIC = "automatic"  # the source of a repair that nobody ordered


class ProcessViolation(NamedTuple):
    """A row of read_violations.sql: a rule that a process breaks."""

    rule: str
    detail: str
    task: str


class UnappliedResult(NamedTuple):
    """A row of read_unapplied.sql."""

    id: str
    outcome: str
    result: str


class Repairing(Structural):
    """Repairs of one process. `source`: who ordered them."""

    def __init__(self, process_id: str, shard_count: int, source: str = AUTOMATIC) -> None:
        super().__init__(process_id, shard_count)
        self._source = source

    def _repair(self, locked: Locked) -> Steps[None]:
        broken = yield from rows(SQL["read_violations"], ProcessViolation, id=self.process_id)
        if not broken:
            return
        graph = yield from self.read()
        lost = {one.task for one in broken if one.detail == LOST_INPUT}
        # The look finishes the process last of all.
        broken = [one for one in broken if one.detail != ALL_ENDED]
        repaired = [one for one in broken if one.detail in SAFE and one.task not in lost]
        found: dict[str, list[str]] = defaultdict(list)
        for one in repaired:
            found[one.detail].append(one.task)
        yield from self._queue(locked, graph, found)
        yield from self._count(graph, found[MISCOUNTED])
        yield from self._tell(found)
        yield from self._apply(locked, graph, found[NOT_APPLIED])
        if repaired:
            yield from self._note(repaired)
        others = [one for one in broken if one not in repaired]
        if others:
            yield from self._mark(others[0])

    def _mark(self, broken: ProcessViolation) -> Steps[None]:
        """What cannot be repaired: the mark stands until somebody sees to it, and is reported once."""
        reason = f"{broken.rule}: {broken.detail} (task {broken.task})"
        marked = yield from first(SQL["mark_inconsistent"], str, id=self.process_id, reason=reason)
        if marked is not None:
            facts = {"process_id": self.process_id, "reason": reason}
            log.error("process.inconsistent", extra=facts)

    def _queue(self, locked: Locked, graph: TaskGraph, found: dict[str, list[str]]) -> Steps[None]:
        """Tasks that are ready and not queued; the first of all, if there is none, is made anew."""
        unready = [graph.nodes[task] for task in found[NOT_QUEUED]]
        visits = [
            visit_of(self.process_id, node, engine=self.engine, now=locked.now) for node in unready
        ]
        if found[NOT_STARTED]:
            yield from run(SQL["insert_root"], id=self.process_id)
            visits.append(
                task_visit(
                    self.process_id,
                    locked.root,
                    locked.type,
                    engine=self.engine,
                    generation=locked.generation,
                )
            )
        yield from insert_steps(visits, self._shard_count)
        if unready:
            yield from run(SQL["drop_waits"], tasks=[node.id for node in unready])

    def _count(self, graph: TaskGraph, tasks: list[str]) -> Steps[None]:
        if tasks:
            counts = [graph.open_inputs(task, set())[0] for task in tasks]
            yield from run(
                SQL["insert_waits"], process_id=self.process_id, tasks=tasks, counts=counts
            )

    def _tell(self, found: dict[str, list[str]]) -> Steps[None]:
        """Visits that would have told a task what it waits for outside: each looks for itself."""
        lost = [("timer", task) for task in found[NO_TIMER]]
        lost += [("child", task) for task in found[NOT_TOLD]]
        yield from self._offer([self._engine_visit(kind, task) for kind, task in lost])

    def _apply(self, locked: Locked, graph: TaskGraph, tasks: list[str]) -> Steps[None]:
        """Close promises whose results are there."""
        if not tasks:
            return
        unapplied = yield from rows(
            SQL["read_unapplied"], UnappliedResult, process_id=self.process_id, tasks=tasks
        )
        yield from self.end_tasks(
            locked,
            [
                TaskChange(
                    self.process_id,
                    one.id,
                    None,
                    graph.nodes[one.id].actor,
                    one.id,
                    one.outcome,
                    one.result,
                )
                for one in unapplied
            ],
        )

    def _note(self, repaired: list[ProcessViolation]) -> Steps[None]:
        yield from note_repairs(self.process_id, repaired, self._source)
        for one in repaired:
            facts = {"process_id": self.process_id, **one._asdict()}
            log.error("process.defect", extra=facts)


def note_repairs(process_id: str, repaired: Sequence[ProcessViolation], source: str) -> Steps[None]:
    """Keep what was repaired, and on whose order."""
    yield from run(
        SQL["note_repairs"],
        process_id=process_id,
        tasks=[one.task for one in repaired],
        rules=[one.rule for one in repaired],
        details=[one.detail for one in repaired],
        source=source,
    )
