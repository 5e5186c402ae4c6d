"""Ticks: a run of a schedule's visit inserts the target under a key of its own, `name@tick`, notes the tick
and moves on to the next, all in the transaction that settles it. So a tick is made once, whatever crashes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.sql import decoded
from mainspring.ids import new_ids, shard_of, tokens
from mainspring.jobs.cron import next_tick
from mainspring.jobs.recurring import QUEUE, take_along
from mainspring.jobs.schedule import DeclaredSchedules, Recurring, due_ticks
from mainspring.jobs.statements import SQL
from mainspring.kernel import (
    KERNEL_SQL,
    Again,
    Alone,
    Done,
    Outcome,
    QueueSettings,
    Run,
    own_queue,
    read_now,
)
from mainspring.retry_policy import RetryPolicy

log = logging.getLogger("mainspring")


def recurring_queue(
    database: Database,
    line: SharedLine,
    pool: str,
    *,
    known: Callable[[], DeclaredSchedules] = DeclaredSchedules,
) -> QueueSettings:
    """The queue whose visits make the ticks of a pool. `known`: what the code declares."""

    async def handle(run: Run) -> Outcome:
        async with line.use() as connection:
            key = run.visit.key
            found = await connection.first(SQL["list_recurring"], Recurring, name=key)
            now = await read_now(connection)
        if found is None:
            return Done()  # declaring it again, or making it, offers it again
        if found.pool != pool and found.next_at is not None:
            return Done()  # its task has moved, and so has it
        if found.target in (declared := known()).former:
            # A worker of the release before has declared it again, beside the one that was renamed.
            async with line.use() as connection, database.transaction(connection):
                await take_along(database, connection, declared.schedules, declared.former)
            return Again(at=now)  # as it stands then; one that is gone ends
        if found.paused_at is not None:
            return _paused(found, now)
        return _outcome(database, found, now)

    # A schedule is never given up: neither for failures nor for what killed workers beside it.
    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)
    return QueueSettings(
        name=own_queue(QUEUE, pool),
        handler=handle,
        pool=pool,
        kind="recurring",
        retry=retry,
        crash_limit=1000,
        beside=True,
    )


def _paused(found: Recurring, now: datetime) -> Outcome:
    """Wait for the end of the pause, if it has one; resuming offers it again."""
    until = found.paused_until
    if until is None:
        return Done()
    if until > now:
        return Again(at=until)

    async def write(connection: Connection) -> None:
        await connection.run(SQL["end_pause"], name=found.name, revision=found.revision)

    return Again(at=now, writer=Alone(write))


def _outcome(database: Database, found: Recurring, now: datetime) -> Outcome:
    """Make the ticks that are due, if any are, and come again at the next."""
    name = found.name
    ticks, left_out = due_ticks(found, now)
    following = next_tick(found.cron, found.zone, now)
    if left_out is not None:
        facts = {"schedule": name, "latest": left_out.isoformat(), "made": len(ticks)}
        log.warning("schedule.ticks_left_out", extra=facts)
    if not ticks:
        return Again(at=following)
    keys = [f"{name}@{tick.isoformat()}" for tick in ticks]
    ids = new_ids(len(ticks))
    read = replace(found, payload=decoded(found.payload))

    async def write(connection: Connection) -> None:
        await connection.run(
            KERNEL_SQL["tick_recurring"],
            name=name,
            revision=found.revision,
            first=ticks[0],
            last=ticks[-1],
            last_id=ids[-1],
            keys=keys,
            shards=[shard_of(found.group or key, database.shard_count) for key in keys],
            ids=ids,
            versions=list(tokens(len(ticks))),
            payloads=[read.payload_at(t) if read.tick_argument else found.payload for t in ticks],
        )

    return Again(at=following, writer=Alone(write))
