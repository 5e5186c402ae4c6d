"""Resends: every entity's present state is told to one consumer, as an event `snapshot` with a new number.

A resend is an operation. A step reads the next keys in the order of the key's own index, writes an event
and a delivery for each, and stores where it stands, in one transaction. An entity's row is locked while its
number is drawn, so a snapshot is never newer by number and older by content than a save. A step waits while
the consumer has still to get what two steps told, and for the rate.

A consumer that is new begins now, or by such a snapshot of everything (`start="snapshot"`). That one begins
when every worker has read the catalogue again: no change falls between it and the consumer's first event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.tx import Tx
from mainspring.entities.crawl import LOOK_AGAIN, STEPS_AHEAD, count_entities
from mainspring.entities.declare.consumer import relay_queue
from mainspring.entities.declare.kind_settings import check_rate
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs import Operation, start_operation
from mainspring.kernel import Again, Alone, Done, Outcome, QueueSettings, Run, own_queue
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage
from mainspring.phrases import nearest
from mainspring.retry_policy import RetryPolicy

OPERATION = "resend"
QUEUE = "mainspring.snapshot"
# A worker's knowledge of the catalogue is younger (catalogue.FRESH_SECONDS): so long after a consumer was
# seen by any of them, no save leaves it out. Its registration may have been committed late.
SEEN_SECONDS = 3.0
_NEW, _SEEN = "{}", '{"seen": 1}'


@dataclass(frozen=True, slots=True)
class ResendOrder:
    """Tell one consumer of a kind what every entity is now."""

    kind: str
    consumer: str
    rate: float | None = None  # entities a second

    def __post_init__(self) -> None:
        check_rate(self.rate)


class ListeningConsumer(NamedTuple):
    """A row of read_consumer.sql."""

    source: str
    keep_seconds: float | None  # for how long the kind keeps its events


async def find_consumer(tx: Tx, kind: str, name: str) -> ListeningConsumer:
    """A consumer that listens; an error that names the nearest otherwise."""
    found = await tx.first(SQL["read_consumer"], ListeningConsumer, kind=kind, consumer=name)
    if found is None:
        known = await tx.rows(SQL["list_consumers"], str, kind=kind)
        raise NotFound(f"kind {kind!r} has no consumer {name!r}{nearest(name, known)}")
    return found


async def start(
    database: Database, tx: Tx, order: ResendOrder, *, source: str, dry_run: bool = False
) -> Operation:
    """Begin a resend, in the caller's transaction; a dry run only counts."""
    found = await find_consumer(tx, order.kind, order.consumer)
    if found.source == "dao":
        raise InvalidSetting(
            f"kind {order.kind!r} has a dao, whose entities cannot be locked: a snapshot might be older "
            "than the save before it; have its own code send them"
        )
    return await start_operation(database, tx, RESENDING, order, source=source, dry_run=dry_run)


async def waits(tx: Tx, kind: str, consumer: str, most: int) -> str | None:
    """Why a step may not go on yet: the consumer has still to get what the steps before it brought."""
    ahead = STEPS_AHEAD * most
    queue = relay_queue(kind, consumer)
    waiting = await tx.one(SQL["count_relays"], int, queue=queue, most=ahead)
    return f"{waiting} entities' events wait for {consumer!r} already" if waiting >= ahead else None


async def _page(
    database: Database, connection: Connection, order: ResendOrder, position: str | None, most: int
) -> OperationPage:
    if (why := await waits(connection, order.kind, order.consumer, most)) is not None:
        return OperationPage([], position or '""', wait=LOOK_AGAIN, why=why)
    count = most if order.rate is None else max(1, min(most, int(order.rate)))
    after = (None if position is None else msgspec.json.decode(position, type=str)) or None
    keys = await connection.rows(SQL["crawl_page"], str, kind=order.kind, after=after, most=count)
    left = msgspec.json.encode(keys[-1]).decode() if len(keys) == count else None
    return OperationPage(keys, left, wait=0.0 if order.rate is None else len(keys) / order.rate)


async def _apply(
    database: Database, tx: Tx, order: ResendOrder, keys: Sequence[str]
) -> list[ItemResult]:
    if keys:
        await tx.one(
            SQL["resend_entities"], int, kind=order.kind, keys=list(keys), consumer=order.consumer
        )
    queue = relay_queue(order.kind, order.consumer)
    return [ItemResult(queue, key) for key in keys]


def _freeze(order: ResendOrder, now: datetime) -> ResendOrder:
    return order


async def _count(database: Database, tx: Tx, order: ResendOrder) -> int | None:
    return await count_entities(tx, order.kind)


RESENDING = OperationKind(OPERATION, ResendOrder, _freeze, _count, _page, _apply, counted=True)


# -- consumers that are new


def snapshot_queue(database: Database, line: SharedLine, pool: str) -> QueueSettings:
    """The queue whose visits begin the snapshot of a new consumer; the key is the relay's queue."""

    async def handle(run: Run) -> Outcome:
        kind, _, consumer = run.visit.key.partition("!")
        async with line.use() as connection:
            known = {"kind": kind, "consumer": consumer}
            if await connection.first(SQL["read_consumer"], ListeningConsumer, **known) is None:
                return Done()
        if run.visit.payload == _NEW:
            return Again(after=SEEN_SECONDS, payload=_SEEN)

        async def write(settling: Connection) -> None:
            await start(database, settling, ResendOrder(kind, consumer), source="new consumer")

        return Done(writer=Alone(write))

    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)  # it is never given up
    return QueueSettings(
        name=own_queue(QUEUE, pool),
        handler=handle,
        pool=pool,
        kind="recurring",
        retry=retry,
        beside=True,
    )
