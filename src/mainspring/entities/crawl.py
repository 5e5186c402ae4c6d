"""Crawls: every stage is asked about every entity again, beside the live changes (S18).

A crawl is an operation. A step reads the next keys in the order of the key's own index, offers them to
the queue "kind~" and stores where it stands, in one transaction: a crash repeats nothing and leaves
nothing out. Visits of a crawl have rows of their own and lower priority; a step waits while the visits of
two steps are still there, while live visits lag, and for the rate. Crawls come by a schedule, on command,
and when a stage is new.

A crawl is as complete as the code that answers for it: a worker of an older release says no for its part of
the base. So one that is ordered for a deploy waits until the processes are gone that served the kind then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.tx import Tx
from mainspring.entities.declare.dao import ListingDao
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.kind_settings import Crawl, check_between, check_rate
from mainspring.entities.offers import CRAWL_PRIORITY, StageOffer, offer
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, NotFound
from mainspring.ids import shard_of
from mainspring.jobs import Operation, list_operations, start_operation
from mainspring.kernel import (
    Again,
    Alone,
    Done,
    Offer,
    Outcome,
    QueueSettings,
    Run,
    offer_visits,
    own_queue,
)
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage
from mainspring.retry_policy import RetryPolicy

OPERATION = "crawl"
QUEUE = "mainspring.crawl"
# So many steps' visits may wait before the next step.
STEPS_AHEAD = 2
# A step that may not go on looks again after so many seconds.
LOOK_AGAIN = 0.5
# Below this a table is counted, above it the server's estimate is good enough.
COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class CrawlOrder:
    """One crawl: of these stages, or of all. It waits for the end of these launches of workers."""

    kind: str
    stages: list[str] | None = None
    rate: float | None = None
    pause_if_lag: float = 5.0
    after_launches: list[str] | None = None

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_between("pause_if_lag", self.pause_if_lag, 0.1, 86_400)


# -- orders


async def start(
    database: Database,
    connection: Connection,
    order: CrawlOrder,
    *,
    source: str,
    dry_run: bool = False,
    after_deploy: bool = False,
) -> Operation:
    """Begin a crawl, in the caller's transaction; a dry run only counts.

    `after_deploy`: who serves the kind now has the old code; its first step waits until they are gone.
    """
    if order.stages == []:
        raise InvalidSetting(
            f"a crawl of kind {order.kind!r} names no stage to ask; leave stages out to ask all of them"
        )
    if await _read_kind(connection, order.kind) is None:
        raise NotFound(f"no kind of entities is named {order.kind!r} in this database")
    if after_deploy:
        serving = await _serving(connection, order.kind, None)
        order = replace(order, after_launches=[worker.launch for worker in serving])
    return await start_operation(
        database, connection, crawling({}), order, source=source, dry_run=dry_run
    )


async def schedule(database: Database, tx: Tx, kinds: Sequence[DeclaredKind]) -> None:
    """Offer the scheduled crawls of these registered kinds; one that is planned sooner stays."""
    due = []
    for kind in kinds:
        if (every := kind.settings.crawl.every) is None:
            continue
        if (row := await _read_kind(tx, kind.name)) is not None:
            due.append(Offer(own_queue(QUEUE, kind.settings.pool), kind.name, row.now + every))
    if due:
        await offer_visits(database, tx, due)


class RegisteredKind(NamedTuple):
    """A row of read_kind.sql."""

    source: str
    crawl_every: timedelta | None
    now: datetime


class ServingWorker(NamedTuple):
    """A row of list_processes.sql."""

    launch: str
    process: str


class Traffic(NamedTuple):
    """The row of read_traffic.sql."""

    waiting: int  # visits of the crawl lane, up to a limit
    lag_seconds: float  # of live visits


async def _serving(tx: Tx, kind: str, among: list[str] | None) -> list[ServingWorker]:
    """The workers that serve a kind: all, or of some those that still do."""
    return await tx.rows(SQL["list_processes"], ServingWorker, kind=kind, launches=among)


async def _read_kind(tx: Tx, name: str) -> RegisteredKind | None:
    return await tx.first(SQL["read_kind"], RegisteredKind, kind=name)


# -- steps


def crawling(kinds: Mapping[str, DeclaredKind]) -> OperationKind:
    """The kind of operation; `kinds` of the code are needed where a DAO knows the ids."""

    async def page(
        database: Database,
        connection: Connection,
        order: CrawlOrder,
        position: str | None,
        most: int,
    ) -> OperationPage:
        if order.after_launches and (
            old := await _serving(connection, order.kind, order.after_launches)
        ):
            places = ", ".join(worker.process for worker in old)
            return _wait(position, f"workers from before the deploy still run: {places}")
        ahead = STEPS_AHEAD * most
        traffic = await connection.one(SQL["read_traffic"], Traffic, kind=order.kind, most=ahead)
        if traffic.waiting >= ahead:
            return _wait(position, f"{traffic.waiting} visits of the crawl wait already")
        if traffic.lag_seconds > order.pause_if_lag:
            return _wait(position, f"live visits lag by {traffic.lag_seconds:.1f} s")
        count = most if order.rate is None else max(1, min(most, int(order.rate)))
        after = None if position is None else msgspec.json.decode(position, type=str)
        keys = await _keys(connection, kinds.get(order.kind), order.kind, after, count)
        last = len(keys) < count
        wait = 0.0 if order.rate is None else len(keys) / order.rate
        return OperationPage(
            keys, None if last else msgspec.json.encode(keys[-1]).decode(), wait=wait
        )

    return OperationKind(OPERATION, CrawlOrder, _freeze, _count, page, _offer, counted=True)


def _wait(position: str | None, why: str) -> OperationPage:
    return OperationPage([], position or '""', wait=LOOK_AGAIN, why=why)


async def _keys(
    connection: Connection, kind: DeclaredKind | None, name: str, after: str | None, most: int
) -> list[str]:
    if kind is not None and kind.dao is not None:
        if not isinstance(kind.dao, ListingDao):
            raise InvalidSetting(
                f"kind {name!r} has a dao without ids(connection, after, limit), which answers the "
                "ids after one in their order: a crawl needs it"
            )
        return [kind.key_of(id) for id in await kind.dao.ids(connection, after, most)]
    return await connection.rows(SQL["crawl_page"], str, kind=name, after=after, most=most)


def _freeze(order: CrawlOrder, now: datetime) -> CrawlOrder:
    return order


class Estimate(NamedTuple):
    """A row of estimate_entities.sql."""

    entities: int | None


async def _count(database: Database, tx: Tx, order: CrawlOrder) -> int | None:
    return await count_entities(tx, order.kind)


async def count_entities(tx: Tx, name: str) -> int | None:
    """How many entities a kind has: an estimate where there are many."""
    estimate = await tx.first(SQL["estimate_entities"], Estimate, kind=name)
    found = None if estimate is None else estimate.entities
    if found is None or found >= COUNTED:
        return found
    kind = await _read_kind(tx, name)
    if kind is not None and kind.source == "document":
        return found
    return await tx.one(SQL["count_entities"], int, kind=name, most=10 * COUNTED)


async def _offer(
    database: Database, tx: Tx, order: CrawlOrder, keys: Sequence[str]
) -> list[ItemResult]:
    queue = f"{order.kind}~"
    asked = ["new"] if order.stages is None else [f"ask:{stage}" for stage in order.stages]
    payload: dict[str, object] = dict.fromkeys((*asked, "out"), 1)
    await offer(
        tx,
        [
            StageOffer(
                queue,
                shard_of(key, database.shard_count),
                key,
                payload=payload,
                priority=CRAWL_PRIORITY,
            )
            for key in keys
        ],
    )
    return [ItemResult(queue, key) for key in keys]


# -- the schedule


def crawl_queue(
    database: Database, line: SharedLine, kinds: Mapping[str, DeclaredKind], pool: str
) -> QueueSettings:
    """The queue whose visits begin crawls: a kind's next scheduled one, or one for a new stage.

    In another pool than the default one it is `mainspring.crawl@pool`, so that whoever serves the
    kind begins its crawls.
    """

    async def handle(run: Run) -> Outcome:
        async with line.use() as connection:
            return await _begin(database, connection, kinds, run)

    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)  # a schedule is never given up
    name = own_queue(QUEUE, pool)
    return QueueSettings(
        name=name, handler=handle, pool=pool, kind="recurring", retry=retry, beside=True
    )


async def _begin(
    database: Database, connection: Connection, kinds: Mapping[str, DeclaredKind], run: Run
) -> Outcome:
    # Beside the schedule, which it must not put off.
    name, _, for_new = run.visit.key.partition("/")
    row = await _read_kind(connection, name)
    if row is None or (for_new and not _has_ids(kinds.get(name))):
        return Done()
    asked = [key[4:] for key in msgspec.json.decode(run.visit.payload) if key.startswith("ask:")]
    every = row.crawl_every
    settings = kinds[name].settings.crawl if name in kinds else Crawl()
    order = CrawlOrder(name, asked or None, settings.rate, settings.pause_if_lag)
    if not asked and (every is None or await _is_crawled(database, connection, name)):
        return Done() if every is None else Again(after=every.total_seconds())
    source = f"new stages {', '.join(asked)}" if asked else "schedule"

    async def write(settling: Connection) -> None:
        await start(database, settling, order, source=source)

    if every is None or for_new:
        return Done(writer=Alone(write))
    return Again(after=every.total_seconds(), payload="{}", writer=Alone(write))


def _has_ids(kind: DeclaredKind | None) -> bool:
    """Whether all entities of a kind can be found."""
    return kind is None or kind.dao is None or isinstance(kind.dao, ListingDao)


async def _is_crawled(database: Database, connection: Connection, kind: str) -> bool:
    """Whether a crawl of the whole kind is under way."""
    for state in ("running", "paused"):
        for found in await list_operations(database, connection, state=state, limit=500):
            order = found.order
            if found.kind == OPERATION and order["kind"] == kind and order["stages"] is None:
                return True
    return False
