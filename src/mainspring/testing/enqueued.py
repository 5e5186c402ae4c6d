"""What was enqueued, for tests to look at; and calls that are parked or wait for a retry, made at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec
from psycopg.rows import class_row

from mainspring.app import Mainspring
from mainspring.declaring import Seconds
from mainspring.errors import InvalidArguments
from mainspring.failure_text import describe
from mainspring.operate.keys import user_key
from mainspring.phrases import counted
from mainspring.shape import shape
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.declare.task import Task

R = TypeVar("R")
SHOWN = 20
_encoder = msgspec.json.Encoder(decimal_format="string")
CLOSE = 5.0  # seconds by which a delay may be off: the test took them

_READ = """
select queue as task, key, id, grp as "group", payload::text as arguments, priority,
  greatest(0, extract(epoch from due_at - created_at))::float8 as delay, parked_at is not null as parked
from mainspring.visit
where not starts_with(queue, 'mainspring.')
order by created_at, id
"""
_PARK = """
update mainspring.visit
set parked_at = mainspring.now(), error = %(error)s, attempt = %(attempt)s, changed_at = mainspring.now()
where id = %(id)s
"""
_FAIL = """
update mainspring.visit
set due_at = mainspring.now() + %(after)s, error = %(error)s, attempt = %(attempt)s,
  changed_at = mainspring.now()
where id = %(id)s
"""


class WaitingCall(NamedTuple):
    """A call that has not ended."""

    task: str
    key: str
    id: UUID
    group: str | None
    arguments: Mapping[str, object]
    priority: int
    delay: float  # seconds between its enqueueing and its time
    parked: bool

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        more = f" key={self.key!r}" if self.key != str(self.id) else ""
        more += f" group={self.group!r}" if self.group else ""
        more += f" delay={self.delay:.0f} s" if self.delay >= 1 else ""
        return f"{self.task}({told}){more}{' (parked)' * self.parked}"


def enqueued(app: Mainspring, task: Task[..., object] | None = None) -> list[WaitingCall]:
    """Calls that have not ended, of all tasks or of one, in the order in which they were enqueued."""
    with app.sync_pool().connection() as connection:
        rows = connection.cursor(row_factory=class_row(WaitingCall)).execute(_READ).fetchall()
    found = [
        row._replace(key=user_key(row.key), arguments=_arguments(app, row.task, str(row.arguments)))
        for row in rows
    ]
    return [call for call in found if task is None or call.task == task.name]


def _arguments(app: Mainspring, name: str, payload: str) -> dict[str, object]:
    """As they were given, if they are encrypted."""
    task = app.tasks.get(name)
    opened = payload if task is None else task.signature.opened(payload)
    found: dict[str, object] = msgspec.json.decode(opened)
    return found


def assert_enqueued(
    app: Mainspring,
    task: Task[..., object],
    arguments: Mapping[str, object] | None = None,
    *,
    key: str | None = None,
    group: str | None = None,
    delay: Seconds | None = None,
    at: datetime | None = None,
    count: int | None = None,
) -> list[WaitingCall]:
    """Fail unless a call like this is enqueued, and has not ended; gives those that fit.

    `arguments`: those that matter, by name. `delay` (seconds or a timedelta) or `at`: for when. `count`:
    exactly so many; 0: none. The failure lists what was enqueued.

        assert_enqueued(app, send_welcome, {"to": "ann"}, key="ann", delay=timedelta(days=1))
    """
    all_of_them = enqueued(app)
    wanted = _as_json(task, arguments or {})
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if at is not None:
        seconds = (at - _now(app)).total_seconds()
    found = [
        call
        for call in all_of_them
        if call.task == task.name
        and all(
            name in call.arguments and call.arguments[name] == value
            for name, value in wanted.items()
        )
        and key in (None, call.key)
        and group in (None, call.group)
        and (seconds is None or abs(call.delay - seconds) <= CLOSE)
    ]
    if (len(found) == count) if count is not None else found:
        return found
    told = WaitingCall(task.name, key or "", UUID(int=0), group, wanted, 0, seconds or 0.0, False)
    number = "a call" if count is None else counted(count, "call")
    listed = "".join(f"\n  {call}" for call in all_of_them[:SHOWN]) or "\n  nothing"
    more = f"\n  and {len(all_of_them) - SHOWN} more" if len(all_of_them) > SHOWN else ""
    raise AssertionError(
        f"{number} like {_asked(told, key)} should be enqueued, and {len(found)} fit; enqueued is:"
        f"{listed}{more}"
    )


def _asked(told: WaitingCall, key: str | None) -> str:
    return str(told._replace(key=str(told.id))) + (f" key={key!r}" if key else "")


def _as_json(task: Task[..., object], arguments: Mapping[str, object]) -> dict[str, object]:
    """Values as they travel, whatever their types; a name that the task does not have is refused."""
    if not isinstance(task, Task):
        raise InvalidArguments(
            f"name the task by itself, got {task!r}; app.find_task(name) has it by its name"
        )
    task.signature.check_fields("arguments", list(arguments))
    try:
        encoded = _encoder.encode(dict(arguments))
    except TypeError as error:
        raise TypeError(f"cannot be compared: {error}; got {shape(arguments)}") from None
    found: dict[str, object] = msgspec.json.decode(encoded)
    return found


def _now(app: Mainspring) -> datetime:
    with app.sync_pool().connection() as connection:
        [(now,)] = connection.execute("select mainspring.clock()").fetchall()
    return now  # type: ignore[no-any-return]


def parked_call(
    app: Mainspring,
    task: Task[..., R],
    arguments: Mapping[str, object],
    *,
    error: BaseException | None = None,
    attempt: int = 5,
) -> Handle[R]:
    """A call that has failed for good and waits for an operator, as if its attempts were over.

    No run of it is in history. The task's own options (`task.options(key=...)`) hold for it.
    """
    return _failed(app, task, arguments, _PARK, error, attempt=attempt, after=None)


def failed_call(
    app: Mainspring,
    task: Task[..., R],
    arguments: Mapping[str, object],
    *,
    error: BaseException | None = None,
    attempt: int = 1,
    after: Seconds = 60.0,
) -> Handle[R]:
    """A call that has failed so many times, and is tried again after so many seconds."""
    delay = after if isinstance(after, timedelta) else timedelta(seconds=after)
    return _failed(app, task, arguments, _FAIL, error, attempt=attempt, after=delay)


def _failed(
    app: Mainspring,
    task: Task[..., R],
    arguments: Mapping[str, object],
    statement: str,
    error: BaseException | None,
    *,
    attempt: int,
    after: timedelta | None,
) -> Handle[R]:
    """Enqueue it, and have it failed before anybody else sees it: both are one transaction."""
    _, text = describe(error or RuntimeError("made by a test"))
    if (sealing := task.signature.sealing) is not None:
        text = sealing.error(text)
    values = {"error": text, "attempt": attempt, "after": after}
    with app.sync_pool().connection() as connection, connection.transaction():
        [handle] = task.options(on=connection).enqueue_many_sync([arguments])
        connection.execute(statement, {**values, "id": handle.id})
    return handle
