"""Queues as an operator sees and sets them: their load, pause and resume, limits.

An order reaches every worker at once by a notification, and at its next beat without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.database import Database
from mainspring.db.sql import Statement
from mainspring.db.tx import Tx
from mainspring.declaring import OWN
from mainspring.errors import InvalidSetting, InvalidTime, NotFound
from mainspring.failure_text import clean_text
from mainspring.kernel import REMOTE, read_now
from mainspring.operate.statements import SQL
from mainspring.phrases import counted, instant, nearest

# So many visits are counted when somebody looks, of each state: a glance must not read a million rows.
COUNT_MOST = 200_000
# How a breaker acts, which operators may change too.
BREAKER = ("breaker_failures", "breaker_pause")
QUEUE_LIMITS: tuple[str, ...] = ("concurrency", "rate", "group_concurrency", "group_rate")
REASON_BYTES = 400
SET_BY_OPERATORS = (*QUEUE_LIMITS, "burst", "group_burst", "waiting_max", *BREAKER)


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """A queue and what lies in it. Not `known`: visits have the name, but no code declared it."""

    name: str
    pool: str | None
    kind: str | None
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None
    burst: int | None
    group_burst: int | None
    breaker_failures: int | None
    breaker_pause: float | None
    searchable: list[str] | None
    waiting_max: int | None
    is_full: bool | None
    paused_at: datetime | None  # while the pause is in force
    paused_until: datetime | None
    pause_reason: str | None
    known: bool
    workers: int
    waiting: int
    scheduled: int
    running: int
    parked: int
    lag_seconds: float
    capped: list[str] = field(
        default_factory=list
    )  # which counts stopped: there are at least so many

    def count(self, name: str) -> str:
        """A count as people read it: `1000+` where counting stopped."""
        return f"{getattr(self, name)}{'+' if name in self.capped else ''}"

    @property
    def pause(self) -> str:
        """Since when it is paused, until when and why, in words; empty if it is not."""
        return pause_text(self.paused_at, self.paused_until, self.pause_reason)

    @property
    def waits(self) -> str:
        """How many visits wait, in words."""
        least = "at least " if {"waiting", "scheduled"} & set(self.capped) else ""
        return least + counted(self.waiting + self.scheduled, "visit", "waits", "wait")

    @property
    def unserved(self) -> bool:
        """Visits wait here and no living worker knows the queue: a task was renamed or removed."""
        return self.workers == 0 and self.kind != REMOTE and self.waiting + self.scheduled > 0


def pause_text(since: datetime | None, until: datetime | None, reason: str | None) -> str:
    """A pause in words; empty if there is none."""
    if since is None:
        return ""
    end = "" if until is None else f" until {instant(until)}"
    return f"since {instant(since)}{end}{f': {reason}' if reason else ''}"


class ChangedQueue(NamedTuple):
    """A queue that an order was carried out on; workers are told."""

    name: str
    pg_notify: None


class PausedQueue(NamedTuple):
    """A queue that was paused or resumed, and whether it was paused before."""

    name: str
    paused_before: bool


async def list_queues(
    database: Database, tx: Tx, *, name: str | None = None, exact: bool = False
) -> list[QueueLoad]:
    """All queues with their load, or one. Unless `exact`, counting stops at COUNT_MOST over all."""
    most = None if exact else COUNT_MOST
    return await tx.rows(SQL["list_queues"], QueueLoad, name=name, most=most)


async def pause_queue(
    database: Database,
    tx: Tx,
    name: str,
    *,
    reason: str | None = None,
    until: datetime | None = None,
) -> None:
    """Start nothing of this queue until it is resumed, or until a time; what runs goes on."""
    await check_end(tx, until)
    values = {"paused": True, "reason": _reason(reason), "until": until}
    await _order(database, tx, SQL["pause_queue"], name, **values)


async def resume_queue(database: Database, tx: Tx, name: str) -> None:
    """Undo a pause."""
    resume = SQL["pause_queue"]
    await _order(database, tx, resume, name, paused=False, reason=None, until=None)


async def pause_queues(
    database: Database,
    tx: Tx,
    *,
    paused: bool,
    keep: Iterable[str] = (),
    reason: str | None = None,
    until: datetime | None = None,
) -> dict[str, bool]:
    """Pause or resume all queues, the engine's own too, except some; whether each was paused before.

    Of all queues that there are: what a release declares later is not paused by it. What is paused
    already keeps its reason and its end.
    """
    await check_end(tx, until)
    keep = list(keep)
    for name in keep:
        await check_queue(database, tx, name)
    queues = await tx.rows(
        SQL["pause_queues"],
        PausedQueue,
        paused=paused,
        keep=keep,
        reason=_reason(reason),
        until=until,
    )
    return {queue.name: queue.paused_before for queue in queues}


def _reason(text: str | None) -> str | None:
    return clean_text(text, REASON_BYTES) if text else None


async def check_end(tx: Tx, until: datetime | None, what: str = "a pause") -> None:
    """Refuse an end that has passed, or that says no zone."""
    if until is None:
        return
    if until.tzinfo is None:
        raise InvalidTime(
            f"{what} must end at a time with a time zone, got until={until.isoformat()}; use "
            "datetime.now(UTC) + ..."
        )
    if until <= await read_now(tx):
        raise InvalidSetting(f"{what} must end in the future, got until={until.isoformat()}")


async def limit_queue(
    database: Database,
    tx: Tx,
    name: str,
    limits: dict[str, float | None],
    *,
    source: str = "",
) -> None:
    """Set some of SET_BY_OPERATORS; None lifts one. Stands until the code declares something else, and
    is kept with who did it."""
    if not limits:
        raise InvalidSetting(f"name a limit to set: {', '.join(SET_BY_OPERATORS)}")
    for limit, value in limits.items():
        check_limit(limit, value)
    changes = msgspec.json.encode(limits).decode()
    await _order(database, tx, SQL["limit_queue"], name, changes=changes, source=source)


def check_limit(name: str, value: object) -> None:
    """Refuse a limit that does not exist or is out of range."""
    if name not in SET_BY_OPERATORS:
        raise InvalidSetting(f"a limit is one of {', '.join(SET_BY_OPERATORS)}, got {name!r}")
    if value is None:
        return
    whole = not name.endswith(("rate", "pause"))
    number = value if isinstance(value, int if whole else int | float) else None
    least = 1 if whole else 0.000_001
    if number is None or isinstance(value, bool) or not least <= number <= 1_000_000:
        raise InvalidSetting(
            f"{name} must be {'a whole number of 1' if whole else 'more than 0'} to 1000000, "
            f"got {value!r}; to start nothing, pause the queue"
        )


async def _order(
    database: Database, tx: Tx, statement: Statement, name: str, **values: object
) -> None:
    if await tx.first(statement, ChangedQueue, name=name, **values) is None:
        raise await unknown_queue(database, tx, name)


async def check_queue(database: Database, tx: Tx, name: str) -> None:
    """Refuse a name that no code ever declared and no visit has."""
    if not await _glimpse(tx, name):
        raise await unknown_queue(database, tx, name)


async def unknown_queue(database: Database, tx: Tx, name: str) -> NotFound:
    """The error for a queue that is not there, with the nearest that is."""
    if any(not queue.known for queue in await _glimpse(tx, name)):
        return NotFound(
            f"queue {name!r} has visits, but no worker has declared it yet: mainspring migrate "
            "module:app, or start a worker"
        )
    return NotFound(f"no queue is named {name!r}{nearest_queue(name, await list_names(tx))}")


async def list_names(tx: Tx) -> list[str]:
    """The names of all queues: those that code has declared, and those that only visits have."""
    return [queue.name for queue in await _glimpse(tx)]


async def _glimpse(tx: Tx, name: str | None = None) -> list[QueueLoad]:
    """All queues or one, to know which there are: hardly anything is counted."""
    return await tx.rows(SQL["list_queues"], QueueLoad, name=name, most=1)


def nearest_queue(name: str, known: Iterable[str]) -> str:
    """The nearest queue, or, where none is near, which there are."""
    tasks = sorted(other for other in known if not other.startswith(OWN))
    if near := nearest(name, known):
        return near
    more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
    return f"; there are {', '.join(map(repr, tasks[:5]))}{more}" if tasks else "; there are none"
