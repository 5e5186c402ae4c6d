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

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting, NotFound
from mainspring.kernel.jobs.cron import check_schedule, last_tick, next_tick
from mainspring.kernel.offer import Offer, offer_new_visits, offer_visits
from mainspring.kernel.operate.queues import nearest
from mainspring.kernel.outcome import Again, Alone, Done, Outcome
from mainspring.kernel.query import ask, decoded
from mainspring.kernel.retry import RetryPolicy
from mainspring.kernel.settings import DEFAULT_POOL, QueueSettings, own_queue
from mainspring.kernel.visit import DEFAULT_PRIORITY, PRIORITIES, Run, new_ids, shard_of, token

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


# -- orders


async def sync_recurring(
    database: Database, connection: Any, declared: Sequence[Schedule], *, queues: Iterable[str]
) -> None:
    """Make the schedules of these queues what the code declares, in the caller's transaction.

    One that is new or changed is offered, one that is no longer declared is removed. Schedules of
    queues that this code does not have are another application's, and are left alone.
    """
    kept = [schedule.name for schedule in declared]
    await ask(database, connection, "forget_recurring", names=[], queues=list(queues), kept=kept)
    if not declared:
        return
    rows = await ask(
        database,
        connection,
        "keep_recurring",
        names=kept,
        queues=[s.queue for s in declared],
        crons=[s.cron for s in declared],
        zones=[s.zone for s in declared],
        payloads=[s.payload for s in declared],
        priorities=[s.priority for s in declared],
    )
    changed = {row["name"] for row in rows}
    now = await _now(database, connection)
    offers = {
        s.name: Offer(own_queue(QUEUE, s.pool), s.name, next_tick(s.cron, s.zone, now))
        for s in declared
    }
    # A visit that is there keeps its time: if that has passed, a tick was missed.
    await offer_new_visits(database, connection, list(offers.values()))
    if changed:
        await offer_visits(database, connection, [offers[name] for name in sorted(changed)])


async def list_recurring(database: Database, connection: Any) -> list[Recurring]:
    """All recurring visits, by name."""
    rows = await ask(database, connection, "list_recurring", name=None)
    return [_recurring(row) for row in rows]


def _recurring(row: Any) -> Recurring:
    values = dict(row)
    del values["now"]
    values["payload"] = decoded(values["payload"])
    if values["paused_at"] is not None:
        values["next_at"] = None
    return Recurring(**values)


async def pause_recurring(database: Database, connection: Any, name: str) -> None:
    """Make no tick until it is resumed."""
    await _pause(database, connection, name, paused=True)


async def resume_recurring(database: Database, connection: Any, name: str) -> None:
    """Go on with the next tick; those of the pause are skipped. In the caller's transaction."""
    row = await _pause(database, connection, name, paused=False)
    at = next_tick(row["cron"], row["zone"], await _now(database, connection))
    await offer_visits(database, connection, [Offer(own_queue(QUEUE, row["pool"]), name, at)])


async def remove_recurring(database: Database, connection: Any, name: str) -> None:
    """Remove a schedule for good; code that declares it brings it back at a worker's start."""
    gone = await ask(database, connection, "forget_recurring", names=[name], queues=[], kept=[])
    if not gone:
        raise await _unknown(database, connection, name)


async def _pause(database: Database, connection: Any, name: str, *, paused: bool) -> Any:
    rows = await ask(database, connection, "pause_recurring", name=name, paused=paused)
    if not rows:
        raise await _unknown(database, connection, name)
    return rows[0]


async def _unknown(database: Database, connection: Any, name: str) -> NotFound:
    names = [r.name for r in await list_recurring(database, connection)]
    return NotFound(f"no recurring visit is named {name!r}{nearest(name, names)}")


async def _now(database: Database, connection: Any) -> datetime:
    rows = await ask(database, connection, "read_clock")
    now: datetime = rows[0]["now"]
    return now


# -- running


def recurring_queue(database: Database, pool: str) -> QueueSettings:
    """The queue whose visits make the ticks of a pool."""
    turn = asyncio.Semaphore(1)  # one tick at a time needs one connection

    async def handle(run: Run) -> Outcome:
        async with turn:
            connection = await database.connect("recurring")
            try:
                rows = await ask(database, connection, "list_recurring", name=run.visit.key)
            finally:
                await connection.close(timeout=5)
        if not rows or rows[0]["paused_at"] is not None:
            return Done()  # resuming, or declaring it again, offers it again
        if rows[0]["pool"] != pool and rows[0]["next_at"] is not None:
            return Done()  # its task has moved, and so has it
        return _outcome(database, rows[0])

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


def _outcome(database: Database, row: Any) -> Outcome:
    """Make the tick that is due, if one is, and come again at the next."""
    name, cron, zone, now = row["name"], row["cron"], row["zone"], row["now"]
    since = max(row["last_at"] or row["created_at"], row["changed_at"])
    tick = last_tick(cron, zone, since=since, until=now)
    following = next_tick(cron, zone, now)
    if tick is None:
        return Again(at=following)
    key = f"{name}@{tick.isoformat()}"

    async def write(tx: Any) -> None:
        await ask(
            database,
            tx,
            "tick_recurring",
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
