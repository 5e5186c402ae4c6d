"""A task as the kernel sees it: its queue, and its cron lines as schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Never

import msgspec

from mainspring.errors import InvalidTask
from mainspring.jobs import Schedule
from mainspring.kernel import REMOTE, Handler, QueueSettings, Run
from mainspring.tasks.declare.policy import declared
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.declare.task import Task, TaskSettings


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
        grace=s.grace,
        crash_limit=s.crash_limit,
        concurrency=s.concurrency,
        rate=s.rate,
        group_concurrency=s.group_concurrency,
        group_rate=s.group_rate,
        burst=s.burst,
        group_burst=s.group_burst,
        breaker=s.breaker,
        searchable=s.searchable,
        unique=None if (u := s.unique) is None else u.spec(task.signature.defaults(tuple(u.by))),
        holds_keyed=True,
        retry=s.retry,
        policy=declared(s),
    )


def schedules(task: Task[..., object]) -> list[Schedule]:
    """What the cron lines of a task's declaration make: one schedule each."""
    s = task.settings
    lines = [s.cron] if isinstance(s.cron, str) else list(s.cron or ())
    if not lines:
        for name in ("zone", "cron_args", "catch_up", "catch_up_max", "tick_argument"):
            if getattr(s, name) != getattr(_PLAIN, name):
                raise InvalidTask(
                    f"task {s.name!r}: {name}={getattr(s, name)!r} is that of a cron line, and there is "
                    f"none: give cron= too, or leave {name} out"
                )
        return []
    given = s.cron_args or {}
    if not isinstance(given, Mapping):
        raise InvalidTask(
            f"task {s.name!r}: cron_args must be a dict of arguments by name, got {given!r}"
        )
    if lacking := sorted(task.signature.required - {*given, s.tick_argument}):
        without = "" if given else " without arguments"
        raise InvalidTask(
            f"task {s.name!r} has a cron line, which calls it{without}, but {', '.join(lacking)} must be "
            f"given: give {'it' if len(lacking) == 1 else 'them'} in cron_args=, or a default"
        )
    payload = payload_for(task.signature, given, s.tick_argument)
    return [
        Schedule(
            s.name if number == 1 else f"{s.name}#{number}",
            s.name,
            line,
            s.zone,
            payload,
            s.priority,
            s.pool,
            catch_up=s.catch_up,
            catch_up_max=s.catch_up_max,
            tick_argument=s.tick_argument,
            are_same=None if (sealing := task.signature.sealing) is None else sealing.are_same,
        )
        for number, line in enumerate(lines, 1)
    ]


_PLAIN = TaskSettings("")
_ANY_TICK = datetime(2000, 1, 1, tzinfo=UTC)


def payload_for(
    signature: Signature, arguments: Mapping[str, object], tick_argument: str | None
) -> str:
    """The arguments of a schedule as JSON, checked as each tick will give them."""
    if tick_argument is None:
        return _sealed(signature, signature.encode((), arguments))
    signature.check_fields("tick_argument", [tick_argument])
    payload = signature.encode((), {**arguments, tick_argument: _ANY_TICK})
    fields = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
    del fields[tick_argument]
    return _sealed(signature, msgspec.json.encode(fields))


def _sealed(signature: Signature, payload: bytes) -> str:
    sealing = signature.sealing
    return (payload if sealing is None else sealing.payload(payload, ())).decode()


async def never_run(_: Run) -> Never:
    """The handler of a queue that is only declared here, and run elsewhere."""
    raise AssertionError("this queue is only declared here")
