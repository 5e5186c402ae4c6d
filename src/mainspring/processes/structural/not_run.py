"""Tasks that end without being run, or run again: an input failed, or their time is over. Pure."""

from __future__ import annotations

from mainspring import clock
from mainspring.kernel import Retry, Run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.commit.visits import payload_of
from mainspring.tasks.declare.promise import Failure


def stopped(
    task_input: TaskInput, promise: str, error: Failure | None, *, counts: str | None = None
) -> TaskChange:
    """An input failed: so does this task, without being run; the cause is the first that failed."""
    return TaskChange(
        task_input.process_id,
        task_input.task_id,
        "done",
        task_input.actor,
        task_input.promise,
        "err",
        error=error or Failure("unknown", "no error was kept", cause=promise),
        scope_id=task_input.scope,
        background=task_input.background,
        counts=counts,
    )


def overdue(task_input: TaskInput) -> TaskChange:
    """Its task timeout passed while it waited in the queue: it is not started."""
    failure = Failure(
        "mainspring.errors.TaskTimeout",
        f"task {task_input.actor!r} was not started before its task timeout",
        cause=task_input.task_id,
    )
    return stopped(task_input, task_input.task_id, failure, counts="task_timeout")


def too_late(run: Run, retry: Retry) -> bool:
    """A retry that would fall past the task timeout is not made."""
    deadline = payload_of(run.visit).deadline
    if deadline is None:
        return False
    return run.started + (clock.local() - run.began) + retry.after >= deadline.timestamp()
