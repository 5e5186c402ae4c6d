"""What an operator can ask of entities and order, by the kind's name and the id's text, without code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from mainspring.db.database import Database
from mainspring.entities import crawl
from mainspring.entities.capture.triggers import own
from mainspring.entities.crawl import CrawlOrder
from mainspring.entities.declare import catalogue, consumer
from mainspring.entities.declare.consumer import relay_queue
from mainspring.entities.declare.declared_kind import KindHost
from mainspring.entities.declare.keys import id_text, refused
from mainspring.entities.declare.table import quoted
from mainspring.entities.operate.why import EntityWhy, find, why_entity
from mainspring.entities.outbox.relay import acknowledge
from mainspring.entities.outside import queue
from mainspring.entities.outside.queue import Entry, Peeked
from mainspring.entities.register import found as found_trigger
from mainspring.entities.register import trigger_prefix
from mainspring.entities.statements import SQL
from mainspring.errors import NotFound, Refused, UnknownStage
from mainspring.kernel import Operation, ParkedPlace, nearest, restart_parked, shard_of

# Failures of should_process are looked for in so many system visits of a kind.
LAST_ASKED = 1000


@dataclass(frozen=True, slots=True)
class KindLoad:
    """A kind as it is registered, and what lies in its queues. `crawl`: the operation under way."""

    name: str
    source: str
    pool: str
    capture: str
    version_column: str
    generation: int
    stages: list[str]
    consumers: list[str]
    waiting: int
    scheduled: int
    running: int
    parked: int
    crawl: int | None
    keys: list[str]


@dataclass(frozen=True, slots=True)
class _Named:
    """A kind by its name, for the queue's functions."""

    host: KindHost
    name: str
    keys: tuple[str, ...]
    stages: Sequence[str]

    def key_of(self, id: Any) -> str:
        return id_text(id, self.keys)

    def id_from(self, key: str) -> Any:
        """An operator sees and gives texts, whatever the application makes of them."""
        return key


@dataclass(frozen=True, slots=True)
class AskFailures:
    """Of the last system visits: how often `should_process` of a stage failed or took too long."""

    stage: str
    failed: int
    overran: int
    last: str | None


class EntityOperator:
    """Questions and orders about entities."""

    def __init__(self, host: KindHost) -> None:
        self._host = host

    async def kinds(self) -> list[KindLoad]:
        """All kinds with what lies in their queues."""
        async with self._connection() as (_, connection):
            rows = await connection.fetch(SQL["list_loads"].numbered, None)
        return [KindLoad(**dict(row)) for row in rows]

    async def kind(self, name: str) -> KindLoad:
        """One kind; an error that names the nearest otherwise."""
        found = {kind.name: kind for kind in await self.kinds()}
        if name not in found:
            raise NotFound(f"no kind of entities is named {name!r}{nearest(name, found)}")
        return found[name]

    def _text(self, kind: str, id: Any) -> Any:
        """An id as the database has it, where the application has a codec for ids of its own type."""
        declared = getattr(self._host, "kinds", {}).get(kind)
        return id if declared is None or declared.codec is None else declared.key_of(id)

    async def why(self, kind: str, id: Any) -> EntityWhy:
        """All that is known of one entity."""
        id = self._text(kind, id)
        async with self._connection() as (database, connection):
            try:
                return await why_entity(database, connection, kind, id)
            except asyncpg.DataError as error:
                raise refused(kind, [id], error) from None

    async def offer(
        self, kind: str, id: Any, *, stage: str | None = None, at: datetime | None = None
    ) -> bool:
        """Offer an entity to a stage, or to be asked about by all."""
        named, text = await self._named(kind, stage), self._text(kind, id)
        return await queue.offer(named, text, stage, at, None)

    async def check(self, kind: str, id: Any) -> list[Entry]:
        """In which queues an entity is."""
        return await queue.check(await self._named(kind), self._text(kind, id), None)

    async def peek(
        self, kind: str, *, stage: str | None = None, limit: int = 50, crawl: bool = False
    ) -> list[Peeked]:
        """The first entities of a stage's queue."""
        return await queue.peek(await self._named(kind, stage), stage, limit, crawl, None)

    async def delete(
        self,
        kind: str,
        id: Any,
        *,
        stage: str | None = None,
        crawl: bool = False,
        force: bool = False,
    ) -> bool:
        """Take an entity out of a stage's queue."""
        named = await self._named(kind, stage)
        return await queue.delete(named, self._text(kind, id), stage, crawl, force, None)

    async def crawl(
        self,
        kind: str,
        *,
        source: str,
        stages: Iterable[str] | None = None,
        rate: float | None = None,
        pause_if_lag: float = 5.0,
        after_deploy: bool = False,
        dry_run: bool = False,
    ) -> Operation:
        """Ask every stage, or these, about every entity.

        `after_deploy`: begin when the workers that serve the kind now are gone.
        """
        names = None if stages is None else list(stages)
        for name in names or ():
            await self._named(kind, name)
        order = CrawlOrder(kind, names, rate, pause_if_lag)
        async with self._connection() as (database, connection):
            return await crawl.start(
                database,
                connection,
                order,
                source=source,
                dry_run=dry_run,
                after_deploy=after_deploy,
            )

    async def skip(self, kind: str, id: Any, name: str) -> int:
        """Drop the first event that waits for a consumer, and let the others go on (S7).

        Answers its number.
        """
        async with self._connection() as (database, connection):
            key, _ = await find(connection, kind, self._text(kind, id))
            place = ParkedPlace(shard_of(key, database.shard_count), key, relay_queue(kind, name))
            values = {"shard": place.shard, "key": key, "queue": place.queue}
            statement = SQL["lock_relay"]
            locked = await connection.fetch(statement.numbered, *statement.arguments(values))
            waiting = SQL["list_entity_deliveries"]
            rows = await connection.fetch(
                waiting.numbered, *waiting.arguments({"kind": kind, "key": key})
            )
            first = {row["consumer"]: row["first"] for row in rows}.get(name)
            if first is None:
                raise NotFound(f"no event of {kind} {id!r} waits for {name!r}")
            await acknowledge(connection, [(place.shard, kind, key, first, name)])
            if locked and locked[0]["parked"]:
                await restart_parked(database, connection, [place])
            return int(first)

    async def retire_stage(self, kind: str, stage: str) -> None:
        """Take a stage out of the catalogue: it is asked no more; what waits in its queue stays."""
        await self._named(kind, stage)
        async with self._connection() as (_, connection):
            await catalogue.retire(connection, kind, stage)

    async def ask_failures(self, kind: str) -> list[AskFailures]:
        """Stages whose `should_process` failed or overran lately; their entities are queued unasked."""
        await self._named(kind)
        async with self._connection() as (_, connection):
            statement = SQL["list_ask_failures"]
            values = {"kind": kind, "most": LAST_ASKED}
            rows = await connection.fetch(statement.numbered, *statement.arguments(values))
        return [AskFailures(**dict(row)) for row in rows]

    async def drop_kind(self, kind: str) -> int:
        """Forget a kind that no code has any more: triggers, visits, states, events. Entities stay.

        Answers how many visits were dropped. Refused while a worker serves it or documents are left.
        """
        found = await self.kind(kind)
        async with self._connection() as (_, connection):
            (row,) = await connection.fetch(SQL["count_documents"].numbered, kind)
            if row["workers"]:
                raise Refused(
                    f"kind {kind!r} is served by {row['workers']} workers; stop them first"
                )
            if row["documents"]:
                raise Refused(
                    f"kind {kind!r} has {row['documents']:,} documents, which would be nobody's; "
                    f"delete them first: delete from mainspring.document where kind = '{kind}'"
                )
            rows = await connection.fetch(SQL["list_triggers"].numbered, trigger_prefix(kind))
            for trigger in own(kind, map(found_trigger, rows)):
                await connection.execute(f"drop trigger {quoted(trigger.name)} on {trigger.table}")
            for function in (f"bump_{kind}", f"capture_of_{kind}"):
                await connection.execute(f"drop function if exists mainspring.{quoted(function)}()")
            (row,) = await connection.fetch(SQL["drop_kind"].numbered, found.name)
            return int(row["visits"])

    async def retire_consumer(self, kind: str, name: str) -> int:
        """Take a consumer out; answers how many deliveries were dropped."""
        await self._named(kind)
        async with self._connection() as (_, connection):
            return await consumer.retire(connection, kind, name)

    async def _named(self, kind: str, stage: str | None = None) -> _Named:
        found = await self.kind(kind)
        if stage is not None and stage not in found.stages:
            raise UnknownStage(kind, stage, found.stages)
        return _Named(self._host, kind, tuple(found.keys), found.stages)

    @asynccontextmanager
    async def _connection(self) -> Any:
        database: Database = await self._host.database()
        pool = await self._host.pool()
        async with pool.connection(transaction=True) as connection:
            yield database, connection
