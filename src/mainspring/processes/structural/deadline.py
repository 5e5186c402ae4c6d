"""Task timeouts: a task that has not ended in time, counted from its first queueing, ends (P4).

In the queue it ends with an error, whether or not a worker of its actor comes. In work it is stopped
("force"), or goes on to its work timeout ("slide"), where recovery ends it instead of queueing it again.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.db.sql import Steps, first, run
from mainspring.kernel import KERNEL_SQL
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import DEADLINE_AFTER
from mainspring.processes.commit.visits import drop_steps
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Structural
from mainspring.tasks.declare.promise import Failure


class Overdue(msgspec.Struct, frozen=True):
    """A row of read_deadline.sql."""

    state: str
    promise: str
    actor: str
    generation: int
    scope_id: str | None
    on_task_timeout: str
    deadline_at: datetime | None  # None: there is no visit, or it has no such time
    held: bool | None
    held_until: datetime | None
    parked: bool
    now: datetime

    @property
    def again_at(self) -> datetime | None:
        """When to look again; None: there is nothing to wait for, or it ends now."""
        if self.state != "open" or self.deadline_at is None or self.parked:
            return None
        if self.now < self.deadline_at:
            return self.deadline_at + DEADLINE_AFTER  # restarted, or its deadline was moved
        if self.held and self.on_task_timeout == "slide":
            return max(self.held_until or self.now, self.now) + DEADLINE_AFTER
        return None

    @property
    def ends(self) -> bool:
        """Whether the task is to end now."""
        is_open = self.state == "open" and self.deadline_at is not None and not self.parked
        return is_open and self.again_at is None


class Deadline(Structural):
    """The end of a task whose time is over."""

    def end(self, task: str) -> Steps[Answer]:
        """Looked at again under the lock; a visit that comes too early is made anew."""
        locked = yield from self.lock()
        found = yield from first(
            SQL["read_deadline"], Overdue, process_id=self.process_id, task=task
        )
        if locked.state != "open" or found is None or not found.ends:
            if found is not None and found.again_at is not None:
                yield from self._offer([self._engine_visit("deadline", task, found.again_at)])
            yield from self.unlock()
            return Answer(False, why="its time is not over, or it has ended")
        dropped = yield from drop_steps([(found.actor, task)])
        yield from self._stop_runs(dropped)
        change = TaskChange(
            self.process_id,
            task,
            "done",
            found.actor,
            found.promise,
            "err",
            error=timed_out(found.actor, task),
            generation=found.generation,
            scope_id=found.scope_id,
        )
        yield from self.end_tasks(locked, [change])
        yield from run(KERNEL_SQL["count"], actors=[found.actor], names=["task_timeout"])
        yield from self.unlock()
        return Answer(True, 1, sum(visit.was_held for visit in dropped))


def timed_out(actor: str, task: str) -> Failure:
    """What a task ends with."""
    return Failure(
        "mainspring.errors.TaskTimeout",
        f"task {actor!r} did not end before its task timeout",
        cause=task,
    )
