"""Parked tasks, at an operator's command: try again, give up, or give a value by hand.

Trying again needs only the shared lock, like a decision: many tasks of many processes in one
transaction. The other two close a promise, one process a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.sql import Steps, numbers, rows, run, texts, words
from mainspring.ids import tokens
from mainspring.kernel import KERNEL_SQL
from mainspring.processes.commit.batch import LockedProcess
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.visits import queue_of
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Structural
from mainspring.tasks.declare.promise import Failure


class ParkedTask(msgspec.Struct, frozen=True):
    """A parked task, as an order names it."""

    process_id: str
    task: str
    actor: str


class FreedTaskVisit(NamedTuple):
    """A row of restart_parked.sql."""

    queue: str
    key: str
    id: UUID
    hints: int


def unpark_steps(parked: Sequence[ParkedTask], *, priority: int | None = None) -> Steps[set[str]]:
    """Try parked tasks again, with the same idempotency key, and another priority if one is given.
    Returns those that go on; what a structural change has just now, or is parked no longer, is left."""
    ids = words(sorted({item.process_id for item in parked}))
    locked = yield from rows(SQL["lock_processes"], LockedProcess, ids=ids)
    free = {process.id: process.engine for process in locked}
    wanted = [item for item in parked if item.process_id in free]
    if not wanted:
        return set()
    freed = yield from rows(
        KERNEL_SQL["restart_parked"],
        FreedTaskVisit,
        shards=None,
        keys=texts([item.task for item in wanted]),
        queues=texts([queue_of(item.actor, free[item.process_id]) for item in wanted]),
        versions=numbers(tokens(len(wanted))),
        fresh_ids=False,
        priority=priority,
    )
    keys = {visit.key for visit in freed}
    listed = sorted((item for item in wanted if item.task in keys), key=lambda item: item.task)
    if not listed:
        return set()
    tasks = words([item.task for item in listed])
    processes = words([item.process_id for item in listed])
    reopened = yield from rows(SQL["reopen_parked"], str, processes=processes, ids=tasks)
    yield from run(SQL["unpark_tasks"], tasks=tasks)
    return set(reopened)


class Resolving(Structural):
    """Closing the promise of a parked task by hand."""

    def resolve(
        self, task: str, *, result: str | None = None, error: Failure | None = None
    ) -> Steps[Answer]:
        """Close it with a value (JSON), or with an error: what depends on it goes on."""
        locked = yield from self.lock()
        graph = yield from self.read()
        node = graph.nodes.get(task)
        if node is None or node.state != "parked":
            yield from self.unlock()
            state = "not there" if node is None else node.state
            return Answer(False, why=f"task {task} is {state}: only a parked task can be resolved")
        yield from self._drop([task], graph)
        change = TaskChange(
            self.process_id,
            task,
            "done",
            node.actor,
            node.promise,
            "ok" if error is None else "err",
            result,
            error,
            generation=node.generation,
            scope_id=node.scope_id,
        )
        yield from self.end_tasks(locked, [change])
        yield from self.unlock()
        return Answer(True, 1)
