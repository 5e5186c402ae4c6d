"""A task as the kernel sees it: its queue, and its cron line as a recurring visit."""

from __future__ import annotations

from typing import Never

from mainspring.errors import InvalidTask
from mainspring.jobs import Schedule
from mainspring.kernel import REMOTE, Handler, QueueSettings, Run
from mainspring.tasks.declare.policy import declared
from mainspring.tasks.declare.task import Task


def queue_settings(task: Task[..., object], handler: Handler) -> QueueSettings:
    """The kernel's queue of a task."""
    s = task.settings
    return QueueSettings(
        name=s.name,
        handler=handler,
        pool=s.pool,
        kind=REMOTE if s.remote else "task",
        priority=s.priority,
        hold_after=s.hold_after,
        timeout=s.timeout,
        crash_limit=s.crash_limit,
        concurrency=s.concurrency,
        rate=s.rate,
        group_concurrency=s.group_concurrency,
        group_rate=s.group_rate,
        searchable=s.searchable,
        retry=s.retry,
        policy=declared(s),
    )


def schedule(task: Task[..., object]) -> Schedule | None:
    """The recurring visit of a task that has a cron line: called without arguments."""
    s = task.settings
    if s.cron is None:
        if s.zone != "UTC":
            raise InvalidTask(
                f"task {s.name!r}: zone={s.zone!r} is that of a cron line, and there is none: "
                "give cron= too, or leave zone out"
            )
        return None
    if lacking := sorted(task.signature.required):
        raise InvalidTask(
            f"task {s.name!r} has a cron line, which calls it without arguments, but "
            f"{', '.join(lacking)} must be given: give {'it' if len(lacking) == 1 else 'them'} a default"
        )
    payload = task.signature.encode((), {}).decode()
    return Schedule(s.name, s.name, s.cron, s.zone, payload, s.priority, s.pool)


async def never_run(_: Run) -> Never:
    """The handler of a queue that is only declared here, and run elsewhere."""
    raise AssertionError("this queue is only declared here")
