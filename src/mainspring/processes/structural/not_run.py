"""Tasks that end without being run, or run again: an input failed, or their time is over. Pure."""

from __future__ import annotations

from mainspring.kernel import Retry, Run, clock
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.commit.visits import payload_of
from mainspring.tasks.declare.promise import Failure


def stopped(task_input: TaskInput, promise: str, error: Failure | None) -> TaskChange:
    """An input failed: so does this task, without being run; the cause is the first that failed."""
    if error is None:
        error = Failure("unknown", "no error was kept", cause=promise)
    change = TaskChange(task_input.process_id, task_input.task_id, "done", task_input.actor)
    change.promise, change.outcome, change.error = task_input.promise, "err", error
    change.scope_id, change.background = task_input.scope, task_input.background
    return change


def overdue(task_input: TaskInput) -> TaskChange:
    """Its task timeout passed while it waited in the queue: it is not started."""
    failure = Failure(
        "mainspring.errors.TaskTimeout",
        f"task {task_input.actor!r} was not started before its task timeout",
        cause=task_input.task_id,
    )
    change = stopped(task_input, task_input.task_id, failure)
    change.counts = "task_timeout"
    return change


def too_late(run: Run, retry: Retry) -> bool:
    """A retry that would fall past the task timeout is not made."""
    deadline = payload_of(run.visit).deadline
    if deadline is None:
        return False
    return run.started + (clock.local() - run.began) + retry.after >= deadline.timestamp()
