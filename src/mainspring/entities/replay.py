"""Replays: kept events come to one consumer again, with their old numbers.

Only of kinds with `keep_events`: a save then writes each event a second time, into the table of its
day, and whole days are dropped by age. A replay is an operation. A step brings the next events by number
back into the outbox, with a delivery that names the operation; the relay sends them as any others, in order
per entity.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import asyncpg

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.entities.crawl import LOOK_AGAIN
from mainspring.entities.declare.consumer import relay_queue
from mainspring.entities.declare.kind_settings import check_rate
from mainspring.entities.resend import find_consumer, waits
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting
from mainspring.jobs import Operation, start_operation
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage

log = logging.getLogger("mainspring")
OPERATION = "replay"
# Events of a replay are counted up to here.
COUNTED = 1_000_000
_EVER = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """Bring a consumer the kept events of a kind after one number, up to another."""

    kind: str
    consumer: str
    after: int
    until: int
    rate: float | None = None  # events a second
    operation: int = 0  # its own id

    def __post_init__(self) -> None:
        check_rate(self.rate)


class KeptSpan(NamedTuple):
    """The row of find_kept.sql: a replay's bounds."""

    after: int
    until: int


async def start(
    database: Database,
    tx: Tx,
    kind: str,
    consumer: str,
    since: int | datetime,
    *,
    rate: float | None = None,
    source: str,
    dry_run: bool = False,
) -> Operation:
    """Begin a replay from a number or a time on, in the caller's transaction; a dry run only counts."""
    found = await find_consumer(tx, kind, consumer)
    if found.keep_seconds is None:
        raise InvalidSetting(
            f"kind {kind!r} keeps no events: declare it with keep_events=timedelta(days=...) to replay "
            f"those from then on; kind.resend({consumer!r}) sends what every entity is now"
        )
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise InvalidSetting(f"since must have a time zone, got {since!r}")
        span = await tx.one(SQL["find_kept"], KeptSpan, kind=kind, since=since)
    elif isinstance(since, bool) or not isinstance(since, int) or since < 0:
        raise InvalidSetting(f"since must be an event's number or a time, got {since!r}")
    else:
        span = await tx.one(SQL["find_kept"], KeptSpan, kind=kind, since=_EVER)
        span = KeptSpan(max(0, since - 1), span.until)
    order = ReplayOrder(kind, consumer, span.after, span.until, rate)
    return await start_operation(database, tx, REPLAYING, order, source=source, dry_run=dry_run)


async def _page(
    database: Database, connection: Connection, order: ReplayOrder, position: str | None, most: int
) -> OperationPage:
    if (why := await waits(connection, order.kind, order.consumer, most)) is not None:
        return OperationPage([], position or str(order.after), wait=LOOK_AGAIN, why=why)
    count = most if order.rate is None else max(1, min(most, int(order.rate)))
    numbers = await connection.rows(
        SQL["list_kept"],
        int,
        kind=order.kind,
        after=order.after if position is None else int(position),
        until=order.until,
        most=count,
    )
    left = str(numbers[-1]) if len(numbers) == count else None
    return OperationPage(
        numbers, left, wait=0.0 if order.rate is None else len(numbers) / order.rate
    )


async def _apply(
    database: Database, tx: Tx, order: ReplayOrder, numbers: Sequence[int]
) -> list[ItemResult]:
    if numbers:
        await tx.one(
            SQL["replay_events"],
            int,
            kind=order.kind,
            consumer=order.consumer,
            numbers=list(numbers),
            operation=order.operation,
        )
    queue = relay_queue(order.kind, order.consumer)
    return [ItemResult(queue, str(number)) for number in numbers]


def _freeze(order: ReplayOrder, now: datetime) -> ReplayOrder:
    return order


async def _count(database: Database, tx: Tx, order: ReplayOrder) -> int | None:
    return await tx.one(
        SQL["count_kept"],
        int,
        kind=order.kind,
        after=order.after,
        until=order.until,
        most=COUNTED,
    )


REPLAYING = OperationKind(OPERATION, ReplayOrder, _freeze, _count, _page, _apply, counted=True)


# -- the days of kept events


async def keep_days(database: Database, connection: Connection, *, days: int) -> None:
    """Make the days to come and drop those that nobody keeps any more. Any worker may do it."""
    for day in await connection.rows(SQL["missing_days"], str):
        try:
            async with connection.atomic():
                await connection.one(SQL["make_event_day"], bool, day=day)
        except (asyncpg.CheckViolationError, asyncpg.LockNotAvailableError) as error:
            log.info("events.day_not_made", extra={"day": day, "error": str(error)})
    for name in await connection.rows(SQL["old_event_days"], str):
        try:
            async with connection.atomic():
                done = await connection.one(SQL["drop_event_day"], bool, name=name)
            if done:
                log.info("events.day_dropped", extra={"day": name})
        except asyncpg.LockNotAvailableError:
            log.info("events.day_in_use", extra={"day": name})
    await connection.run(SQL["delete_kept"])
