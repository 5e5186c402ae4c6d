"""Recurring visits: targets that come again by a cron line, in the time zone they name.

A schedule is a row and a visit of the queue `mainspring.recurring`, due at the next tick; in another
pool than the default one the queue is `mainspring.recurring@pool`, so that whoever serves the target
makes its ticks. Its run
inserts the target under a key of its own, `name@tick`, notes the tick and moves on to the next, all
in the transaction that settles it: a tick is made once, whatever crashes. After a time when nothing
ran, the latest missed tick is made up for, and only that one. A changed line holds from its change
on; a pause skips its ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs.cron import check_schedule, last_tick, next_tick
from mainspring.jobs.statements import SQL
from mainspring.kernel import (
    DEFAULT_POOL,
    DEFAULT_PRIORITY,
    KERNEL_SQL,
    PRIORITIES,
    Again,
    Alone,
    Done,
    Offer,
    Outcome,
    QueueSettings,
    RetryPolicy,
    Run,
    decoded,
    new_ids,
    offer_new_visits,
    offer_visits,
    own_queue,
    read_now,
    shard_of,
    token,
)
from mainspring.phrases import nearest

QUEUE = "mainspring.recurring"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring visit as the code declares it; `payload` is JSON text. Checked when made."""

    name: str
    queue: str
    cron: str
    zone: str = "UTC"
    payload: str = "{}"
    priority: int = DEFAULT_PRIORITY
    pool: str = DEFAULT_POOL

    def __post_init__(self) -> None:
        check_schedule(self.cron, self.zone)
        if self.priority not in PRIORITIES:
            raise InvalidSetting(
                f"priority must be 0 to 9 (greater is sooner), got {self.priority!r}"
            )


@dataclass(frozen=True, slots=True)
class Recurring:
    """A recurring visit as it stands. `next_at` is None while it is paused or was never offered."""

    name: str
    queue: str
    cron: str
    zone: str
    payload: Any
    priority: int
    paused_at: datetime | None
    last_at: datetime | None
    last_id: UUID | None
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None
    pool: str  # that of its queue, whose workers make the ticks


class PausedRecurring(NamedTuple):
    """A recurring visit that was paused or resumed."""

    name: str
    cron: str
    zone: str
    pool: str


# -- orders


async def sync_recurring(
    database: Database, tx: Tx, declared: Sequence[Schedule], *, queues: Iterable[str]
) -> None:
    """Make the schedules of these queues what the code declares, in the caller's transaction.

    One that is new or changed is offered, one that is no longer declared is removed. Schedules of
    queues that this code does not have are another application's, and are left alone.
    """
    kept = [schedule.name for schedule in declared]
    await tx.run(SQL["forget_recurring"], names=[], queues=list(queues), kept=kept)
    if not declared:
        return
    changed = await tx.rows(
        SQL["keep_recurring"],
        str,
        names=kept,
        queues=[s.queue for s in declared],
        crons=[s.cron for s in declared],
        zones=[s.zone for s in declared],
        payloads=[s.payload for s in declared],
        priorities=[s.priority for s in declared],
    )
    now = await read_now(tx)
    offers = {
        s.name: Offer(own_queue(QUEUE, s.pool), s.name, next_tick(s.cron, s.zone, now))
        for s in declared
    }
    # A visit that is there keeps its time: if that has passed, a tick was missed.
    await offer_new_visits(database, tx, list(offers.values()))
    if changed:
        await offer_visits(database, tx, [offers[name] for name in sorted(set(changed))])


async def list_recurring(database: Database, tx: Tx) -> list[Recurring]:
    """All recurring visits, by name."""
    found = await tx.rows(SQL["list_recurring"], Recurring, name=None)
    return [
        replace(
            recurring,
            payload=decoded(recurring.payload),
            next_at=recurring.next_at if recurring.paused_at is None else None,
        )
        for recurring in found
    ]


async def pause_recurring(database: Database, tx: Tx, name: str) -> None:
    """Make no tick until it is resumed."""
    await _pause(database, tx, name, paused=True)


async def resume_recurring(database: Database, tx: Tx, name: str) -> None:
    """Go on with the next tick; those of the pause are skipped. In the caller's transaction."""
    resumed = await _pause(database, tx, name, paused=False)
    at = next_tick(resumed.cron, resumed.zone, await read_now(tx))
    await offer_visits(database, tx, [Offer(own_queue(QUEUE, resumed.pool), name, at)])


async def remove_recurring(database: Database, tx: Tx, name: str) -> None:
    """Remove a schedule for good; code that declares it brings it back at a worker's start."""
    gone = await tx.rows(SQL["forget_recurring"], str, names=[name], queues=[], kept=[])
    if not gone:
        raise await _unknown(database, tx, name)


async def _pause(database: Database, tx: Tx, name: str, *, paused: bool) -> PausedRecurring:
    found = await tx.first(SQL["pause_recurring"], PausedRecurring, name=name, paused=paused)
    if found is None:
        raise await _unknown(database, tx, name)
    return found


async def _unknown(database: Database, tx: Tx, name: str) -> NotFound:
    names = [recurring.name for recurring in await list_recurring(database, tx)]
    return NotFound(f"no recurring visit is named {name!r}{nearest(name, names)}")


# -- running


def recurring_queue(database: Database, line: SharedLine, pool: str) -> QueueSettings:
    """The queue whose visits make the ticks of a pool."""

    async def handle(run: Run) -> Outcome:
        async with line.use() as connection:
            key = run.visit.key
            found = await connection.first(SQL["list_recurring"], Recurring, name=key)
            now = await read_now(connection)
        if found is None or found.paused_at is not None:
            return Done()  # resuming, or declaring it again, offers it again
        if found.pool != pool and found.next_at is not None:
            return Done()  # its task has moved, and so has it
        return _outcome(database, found, now)

    # A schedule is never given up: neither for failures nor for what killed workers beside it.
    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)
    name = own_queue(QUEUE, pool)
    return QueueSettings(
        name=name,
        handler=handle,
        pool=pool,
        kind="recurring",
        retry=retry,
        crash_limit=1000,
        beside=True,
    )


def _outcome(database: Database, found: Recurring, now: datetime) -> Outcome:
    """Make the tick that is due, if one is, and come again at the next."""
    name, cron, zone = found.name, found.cron, found.zone
    since = max(found.last_at or found.created_at, found.changed_at)
    tick = last_tick(cron, zone, since=since, until=now)
    following = next_tick(cron, zone, now)
    if tick is None:
        return Again(at=following)
    key = f"{name}@{tick.isoformat()}"

    async def write(connection: Connection) -> None:
        await connection.run(
            KERNEL_SQL["tick_recurring"],
            name=name,
            cron=cron,
            zone=zone,
            tick=tick,
            key=key,
            shard=shard_of(key, database.shard_count),
            id=new_ids(1)[0],
            version=token(),
        )

    return Again(at=following, writer=Alone(write))
