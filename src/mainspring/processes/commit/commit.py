"""The decision commit: many changes of many processes in one transaction.

A generator of statements without I/O, so that the settler (asyncpg) and a task's own transaction
(psycopg) walk the same steps. Lock order: processes by id (shared), visits, task rows by id in one
pass, wait rows by task, new visits, process rows. Every step is a statement of its own: what it
sees is what was committed before its locks were had.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mainspring.kernel import Again
from mainspring.processes.commit import close, external, insert, lock
from mainspring.processes.commit.batch import CommitBatch
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.steps import Steps


class Commit(CommitBatch):
    """One transaction of changes."""

    def steps(self) -> Steps[Any]:
        """Write the changes; what is not to be settled says so in `verdicts`."""
        taken = yield from lock.lock_processes(self)
        if self.settle is not None and not any(self.verdicts):
            yield from lock.settle_visits(self, self.settle)
            # Plain successes that link to nothing: their ends are the lock of their rows.
            if not any(lock.links(self.changes)):
                yield from self._grow_and_end(list(self.changes), None)
                return
        else:
            taken = yield from lock.lock_visits(self, taken)
        if taken:
            yield from self._write(taken)

    def structural_steps(self, root: str, type: str, now: datetime, engine: str) -> Steps[Any]:
        """The same for the changes of one process that the caller has locked for itself alone."""
        id = self.changes[0].process_id
        self.roots[id], self.types[id], self.now = root, type, now
        self.engines[id] = engine
        self.root_closed.add(id)
        yield from self._write(list(range(len(self.changes))))

    def _write(self, taken: list[int]) -> Steps[Any]:
        found = yield from external.look_outside(self, taken)
        changes = [self.changes[n] for n in taken if not self.changes[n].seeks] + list(found)
        if not changes:
            return
        state = yield from lock.lock_tasks(changes)
        changes = [change for change in changes if lock.still_counts(self, change, found, state)]
        for change in changes:
            if change.keeps:
                self.verdicts[self.place_of(change)] = Again(after=1.0)
        yield from external.start_children(self, changes)
        yield from self._grow_and_end(changes, state)

    def _grow_and_end(self, changes: list[TaskChange], state: dict[str, Any] | None) -> Steps[Any]:
        yield from insert.insert(self, changes, state or {})
        yield from close.judge(self, changes)
        yield from close.end(changes, state)
        yield from external.take(changes)
        yield from close.release(self, changes)
        yield from external.wait_outside(self, changes)
        yield from close.offer(self, changes)
        yield from close.finish(self, changes)
