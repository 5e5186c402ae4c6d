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

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.kind_settings import Crawl, check_between, check_rate
from mainspring.entities.offers import CRAWL_PRIORITY, StageOffer, offer
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, NotFound
from mainspring.kernel import (
    Again,
    Alone,
    Done,
    ItemResult,
    Offer,
    Operation,
    OperationKind,
    OperationPage,
    Outcome,
    QueueSettings,
    RetryPolicy,
    Run,
    list_operations,
    offer_visits,
    own_queue,
    shard_of,
    start_operation,
)

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
    connection: Any,
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
    row = await _read_kind(connection, order.kind)
    if row is None:
        raise NotFound(f"no kind of entities is named {order.kind!r} in this database")
    if after_deploy:
        serving = await _serving(connection, order.kind, None)
        order = replace(order, after_launches=[row["launch"] for row in serving])
    return await start_operation(
        database, connection, crawling({}), order, source=source, dry_run=dry_run
    )


async def schedule(database: Database, connection: Any, kinds: Sequence[DeclaredKind]) -> None:
    """Offer the scheduled crawls of these kinds; one that is planned sooner stays."""
    now = (await connection.fetchrow("select mainspring.now()"))[0]
    due = [
        Offer(own_queue(QUEUE, kind.settings.pool), kind.name, now + kind.settings.crawl.every)
        for kind in kinds
        if kind.settings.crawl.every is not None
    ]
    if due:
        await offer_visits(database, connection, due)


async def _serving(connection: Any, kind: str, among: list[str] | None) -> list[Any]:
    """Launch and process of the workers that serve a kind: all, or of some those that still do."""
    statement = SQL["list_processes"]
    values = {"kind": kind, "launches": among}
    return list(await connection.fetch(statement.numbered, *statement.arguments(values)))


async def _read_kind(connection: Any, name: str) -> Any:
    return await connection.fetchrow(SQL["read_kind"].numbered, name)


# -- steps


def crawling(kinds: Mapping[str, DeclaredKind]) -> OperationKind:
    """The kind of operation; `kinds` of the code are needed where a DAO knows the ids."""

    async def page(
        database: Database, connection: Any, order: CrawlOrder, position: str | None, most: int
    ) -> OperationPage:
        if order.after_launches and (
            old := await _serving(connection, order.kind, order.after_launches)
        ):
            places = ", ".join(row["process"] for row in old)
            return _wait(position, f"workers from before the deploy still run: {places}")
        ahead = STEPS_AHEAD * most
        traffic = SQL["read_traffic"]
        values = {"kind": order.kind, "most": ahead}
        row = await connection.fetchrow(traffic.numbered, *traffic.arguments(values))
        if row["waiting"] >= ahead:
            return _wait(position, f"{row['waiting']} visits of the crawl wait already")
        if row["lag_seconds"] > order.pause_if_lag:
            return _wait(position, f"live visits lag by {row['lag_seconds']:.1f} s")
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
    connection: Any, kind: DeclaredKind | None, name: str, after: str | None, most: int
) -> list[str]:
    if kind is not None and kind.dao is not None:
        ids = getattr(kind.dao, "ids", None)
        if ids is None:
            raise InvalidSetting(
                f"kind {name!r} has a dao without ids(connection, after, limit), which answers the "
                "ids after one in their order: a crawl needs it"
            )
        return [kind.key_of(id) for id in await ids(connection, after, most)]
    statement = SQL["crawl_page"]
    values = {"kind": name, "after": after, "most": most}
    rows = await connection.fetch(statement.numbered, *statement.arguments(values))
    return [row["key"] for row in rows]


def _freeze(order: CrawlOrder, now: datetime) -> CrawlOrder:
    return order


async def _count(database: Database, connection: Any, order: CrawlOrder) -> int | None:
    """How many entities there are: an estimate where there are many."""
    found = await connection.fetchval(SQL["estimate_entities"].numbered, order.kind)
    if found is None or found >= COUNTED:
        return None if found is None else int(found)
    row = await _read_kind(connection, order.kind)
    if row["source"] == "document":
        return int(found)
    rows = await connection.fetch(
        "select count(*) from mainspring.crawl_page($1, null, $2)", order.kind, 10 * COUNTED
    )
    return int(rows[0][0])


async def _offer(
    database: Database, connection: Any, order: CrawlOrder, keys: Sequence[str]
) -> list[ItemResult]:
    queue = f"{order.kind}~"
    asked = ["new"] if order.stages is None else [f"ask:{stage}" for stage in order.stages]
    payload = dict.fromkeys((*asked, "out"), 1)
    await offer(
        connection,
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


def crawl_queue(database: Database, kinds: Mapping[str, DeclaredKind], pool: str) -> QueueSettings:
    """The queue whose visits begin crawls: a kind's next scheduled one, or one for a new stage.

    In another pool than the default one it is `mainspring.crawl@pool`, so that whoever serves the
    kind begins its crawls.
    """
    turn = asyncio.Semaphore(1)  # one at a time needs one connection

    async def handle(run: Run) -> Outcome:
        async with turn:
            connection = await database.connect("crawl")
            try:
                return await _begin(database, connection, kinds, run)
            finally:
                await connection.close(timeout=5)

    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)  # a schedule is never given up
    name = own_queue(QUEUE, pool)
    return QueueSettings(
        name=name, handler=handle, pool=pool, kind="recurring", retry=retry, beside=True
    )


async def _begin(
    database: Database, connection: Any, kinds: Mapping[str, DeclaredKind], run: Run
) -> Outcome:
    # Beside the schedule, which it must not put off.
    name, _, for_new = run.visit.key.partition("/")
    row = await _read_kind(connection, name)
    if row is None or (for_new and not _has_ids(kinds.get(name))):
        return Done()
    asked = [key[4:] for key in msgspec.json.decode(run.visit.payload) if key.startswith("ask:")]
    every: timedelta | None = row["crawl_every"]
    settings = kinds[name].settings.crawl if name in kinds else Crawl()
    order = CrawlOrder(name, asked or None, settings.rate, settings.pause_if_lag)
    if not asked and (every is None or await _is_crawled(database, connection, name)):
        return Done() if every is None else Again(after=every.total_seconds())
    source = f"new stages {', '.join(asked)}" if asked else "schedule"

    async def write(tx: Any) -> None:
        await start(database, tx, order, source=source)

    if every is None or for_new:
        return Done(writer=Alone(write))
    return Again(after=every.total_seconds(), payload="{}", writer=Alone(write))


def _has_ids(kind: DeclaredKind | None) -> bool:
    """Whether all entities of a kind can be found."""
    return kind is None or kind.dao is None or hasattr(kind.dao, "ids")


async def _is_crawled(database: Database, connection: Any, kind: str) -> bool:
    """Whether a crawl of the whole kind is under way."""
    for state in ("running", "paused"):
        for found in await list_operations(database, connection, state=state, limit=500):
            order = found.order
            if found.kind == OPERATION and order["kind"] == kind and order["stages"] is None:
                return True
    return False
