"""What waits for consumers: how many events, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.db.tx import Tx
from mainspring.entities.statements import SQL
from mainspring.operate import Finding
from mainspring.phrases import counted, instant

# From so many events on, or from so many seconds on, the doctor speaks of it.
MANY_EVENTS = 1_000_000
LONG_SECONDS = 3600.0


class OutboxLoad(NamedTuple):
    """A row of list_outbox.sql: what waits for one consumer."""

    kind: str
    consumer: str
    waiting: int
    capped: bool  # there are at least so many
    oldest_at: datetime | None


async def list_outbox(tx: Tx) -> list[OutboxLoad]:
    """What waits for each consumer that listens."""
    return await tx.rows(SQL["list_outbox"], OutboxLoad, most=MANY_EVENTS)


def judge_outbox(loads: Sequence[OutboxLoad], now: datetime) -> Iterator[Finding]:
    """Consumers for which much waits, or for long: nothing of it is ever dropped by itself."""
    late = []
    for load in loads:
        if load.oldest_at is None:
            continue
        waited = (now - load.oldest_at).total_seconds()
        if load.waiting >= MANY_EVENTS or waited >= LONG_SECONDS:
            late.append(load)
    for load in late:
        many = f"{load.waiting:,} or more events" if load.capped else counted(load.waiting, "event")
        text = (
            f"{many} wait for consumer {load.consumer!r} of kind {load.kind!r}, the oldest since "
            f"{instant(load.oldest_at or now)}"
        )
        queue = f"{load.kind}!{load.consumer}"
        remedy = (
            f"mainspring queues list and parked list show what holds {queue} up; if nobody wants them: "
            f"mainspring entities retire {load.kind} --consumer {load.consumer}"
        )
        yield Finding("outbox", "warn", text, remedy)
    if loads and not late:
        yield Finding("outbox", "ok", "no consumer has had events waiting for an hour")
