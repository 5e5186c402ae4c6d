"""Repairs: what one transaction makes impossible, and is there all the same (P7).

A restore or a hand-made change. What is safe is repaired under the exclusive lock and counted as a
defect; the rest marks the process and is left to an operator.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from mainspring.kernel import KERNEL_SQL
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.visits import insert_values, task_visit
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Steps
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


class Repairing(Structural):
    """Repairs of one process."""

    source = "automatic"

    def _repair(self, locked: Locked) -> Steps[Any]:
        rows = yield SQL["read_violations"], {"id": self.process_id}
        if not rows:
            return
        graph = yield from self.read()
        lost = {task for _, detail, task in rows if detail == LOST_INPUT}
        rows = [
            row for row in rows if row[1] != ALL_ENDED
        ]  # the look finishes the process last of all
        repaired = [row for row in rows if row[1] in SAFE and row[2] not in lost]
        found: dict[str, list[str]] = defaultdict(list)
        for _, detail, task in repaired:
            found[detail].append(task)
        yield from self._queue(locked, graph, found)
        yield from self._count(graph, found[MISCOUNTED])
        yield from self._tell(found)
        yield from self._apply(locked, graph, found[NOT_APPLIED])
        if repaired:
            yield from self._note(repaired)
        others = [row for row in rows if row not in repaired]
        if others:
            yield from self._mark(others[0])

    def _mark(self, row: Any) -> Steps[Any]:
        """What cannot be repaired: the mark stands until somebody sees to it, and is reported once."""
        rule, detail, task = row
        reason = f"{rule}: {detail} (task {task})"
        values = {"id": self.process_id, "reason": reason}
        if (yield SQL["mark_inconsistent"], values):
            facts = {"process_id": self.process_id, "reason": reason}
            log.error("process.inconsistent", extra=facts)

    def _queue(self, locked: Locked, graph: TaskGraph, found: dict[str, list[str]]) -> Steps[Any]:
        """Tasks that are ready and not queued; the first of all, if there is none, is made anew."""
        unready = [graph.nodes[task] for task in found[NOT_QUEUED]]
        visits = [
            visit_of(self.process_id, node, engine=self.engine, now=locked.now) for node in unready
        ]
        if found[NOT_STARTED]:
            yield SQL["insert_root"], {"id": self.process_id}
            visits.append(
                task_visit(
                    self.process_id,
                    locked.root,
                    locked.type,
                    engine=self.engine,
                    generation=locked.generation,
                )
            )
        if visits:
            yield KERNEL_SQL["insert_new"], insert_values(visits, self._shard_count)
        if unready:
            yield SQL["drop_waits"], {"tasks": [node.id for node in unready]}

    def _count(self, graph: TaskGraph, tasks: list[str]) -> Steps[Any]:
        if tasks:
            counts = [graph.open_inputs(task, set())[0] for task in tasks]
            values = {"process_id": self.process_id, "tasks": tasks, "counts": counts}
            yield SQL["insert_waits"], values

    def _tell(self, found: dict[str, list[str]]) -> Steps[Any]:
        """Visits that would have told a task what it waits for outside: each looks for itself."""
        lost = [("timer", task) for task in found[NO_TIMER]]
        lost += [("child", task) for task in found[NOT_TOLD]]
        yield from self._offer([self._engine_visit(kind, task) for kind, task in lost])

    def _apply(self, locked: Locked, graph: TaskGraph, tasks: list[str]) -> Steps[Any]:
        """Close promises whose results are there."""
        if not tasks:
            return
        changes = []
        for task, outcome, result in (
            yield SQL["read_unapplied"], {"process_id": self.process_id, "tasks": tasks}
        ):
            change = TaskChange(self.process_id, task, None, graph.nodes[task].actor, task)
            change.outcome, change.result = outcome, result
            changes.append(change)
        yield from self.end_tasks(locked, changes)

    def _note(self, rows: list[Any]) -> Steps[Any]:
        yield SQL["note_repairs"], note_values(self.process_id, rows, self.source)
        for rule, detail, task in rows:
            facts = {"process_id": self.process_id, "rule": rule, "detail": detail, "task": task}
            log.error("process.defect", extra=facts)


def note_values(process_id: str, rows: Sequence[Any], source: str) -> dict[str, Any]:
    """The arguments of note_repairs.sql: what was repaired, as (rule, detail, task)."""
    return {
        "process_id": process_id,
        "tasks": [row[2] for row in rows],
        "rules": [row[0] for row in rows],
        "details": [row[1] for row in rows],
        "source": source,
    }
