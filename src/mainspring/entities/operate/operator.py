"""What an operator can ask of entities and order, by the kind's name and the id's text, without code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

import asyncpg

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.entities import crawl, replay, resend
from mainspring.entities.capture.triggers import TriggerRow, own
from mainspring.entities.crawl import CrawlOrder
from mainspring.entities.declare import catalogue, consumer
from mainspring.entities.declare.consumer import relay_queue
from mainspring.entities.declare.declared_kind import KindHost
from mainspring.entities.declare.ids import id_text, refused
from mainspring.entities.declare.table import quoted
from mainspring.entities.operate.outbox import OutboxLoad, list_outbox
from mainspring.entities.operate.why import EntityWhy, KindLoad, Undelivered, find, why_entity
from mainspring.entities.outbox.events import Delivery, acknowledge
from mainspring.entities.outside import queue
from mainspring.entities.outside.queue import Entry, Peeked
from mainspring.entities.register import trigger_prefix
from mainspring.entities.resend import ResendOrder
from mainspring.entities.statements import SQL
from mainspring.errors import NotFound, Refused, UnknownStage
from mainspring.ids import shard_of
from mainspring.jobs import Operation
from mainspring.operate import ParkedPlace, record_order, restart_parked
from mainspring.phrases import nearest

# Failures of should_process are looked for in so many system visits of a kind.
LAST_ASKED = 1000


@dataclass(frozen=True, slots=True)
class _Named:
    """A kind by its name, for the queue's functions."""

    host: KindHost
    name: str
    keys: tuple[str, ...]
    stages: Sequence[str]

    def key_of(self, id: object) -> str:
        return id_text(id, self.keys)

    def id_from(self, key: str) -> object:
        """An operator sees and gives texts, whatever the application makes of them."""
        return key


@dataclass(frozen=True, slots=True)
class AskFailures:
    """Of the last system visits: how often `should_process` of a stage failed or took too long."""

    stage: str
    failed: int
    overran: int
    last: str | None


class LeftOver(NamedTuple):
    """The row of count_documents.sql: what keeps a kind from being dropped."""

    documents: int
    workers: int


class EntityOperator:
    """Questions and orders about entities."""

    def __init__(self, host: KindHost) -> None:
        self._host = host

    async def kinds(self) -> list[KindLoad]:
        """All kinds with what lies in their queues."""
        async with self._connection() as (_, connection):
            return await connection.rows(SQL["list_loads"], KindLoad, kind=None)

    async def kind(self, name: str) -> KindLoad:
        """One kind; an error that names the nearest otherwise."""
        found = {kind.name: kind for kind in await self.kinds()}
        if name not in found:
            raise NotFound(f"no kind of entities is named {name!r}{nearest(name, found)}")
        return found[name]

    def _text(self, kind: str, id: object) -> object:
        """An id as the database has it, where the application has a codec for ids of its own type."""
        declared = getattr(self._host, "kinds", {}).get(kind)
        return id if declared is None or declared.codec is None else declared.key_of(id)

    async def why(self, kind: str, id: object) -> EntityWhy:
        """All that is known of one entity."""
        id = self._text(kind, id)
        async with self._connection() as (database, connection):
            try:
                return await why_entity(database, connection, kind, id)
            except asyncpg.DataError as error:
                raise refused(kind, [str(id)], error) from None

    async def offer(
        self, kind: str, id: object, *, stage: str | None = None, at: datetime | None = None
    ) -> bool:
        """Offer an entity to a stage, or to be asked about by all."""
        named, text = await self._named(kind, stage), self._text(kind, id)
        note = partial(_noted, "entities.offer", f"{kind} {text}", {"stage": stage, "at": at})
        return await queue.offer(named, text, stage, at, None, note)

    async def check(self, kind: str, id: object) -> list[Entry]:
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
        id: object,
        *,
        stage: str | None = None,
        crawl: bool = False,
        force: bool = False,
    ) -> bool:
        """Take an entity out of a stage's queue."""
        named = await self._named(kind, stage)
        text = self._text(kind, id)
        note = partial(
            _noted, "entities.delete", f"{kind} {text}", {"stage": stage, "force": force}
        )
        return await queue.delete(named, text, stage, crawl, force, None, note)

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

    async def resend(
        self, kind: str, consumer: str, *, rate: float | None, source: str, dry_run: bool = False
    ) -> Operation:
        """Tell one consumer what every entity of a kind is now."""
        await self.kind(kind)
        order = ResendOrder(kind, consumer, rate)
        async with self._connection() as (database, connection):
            return await resend.start(database, connection, order, source=source, dry_run=dry_run)

    async def replay(
        self,
        kind: str,
        consumer: str,
        *,
        since: int | datetime,
        rate: float | None,
        source: str,
        dry_run: bool = False,
    ) -> Operation:
        """Bring one consumer the kept events of a kind again, from a number or a time on."""
        await self.kind(kind)
        async with self._connection() as (database, connection):
            return await replay.start(
                database,
                connection,
                kind,
                consumer,
                since,
                rate=rate,
                source=source,
                dry_run=dry_run,
            )

    async def outbox(self) -> list[OutboxLoad]:
        """How many events wait for each consumer, and since when."""
        async with self._connection() as (_, connection):
            return await list_outbox(connection)

    async def skip(self, kind: str, id: object, name: str) -> int:
        """Drop the first event that waits for a consumer, and let the others go on (S7).

        Answers its number.
        """
        async with self._connection() as (database, connection):
            key, _ = await find(connection, kind, self._text(kind, id))
            place = ParkedPlace(shard_of(key, database.shard_count), key, relay_queue(kind, name))
            is_parked = await connection.first(
                SQL["lock_relay"], bool, shard=place.shard, key=key, queue=place.queue
            )
            waiting = await connection.rows(
                SQL["list_entity_deliveries"], Undelivered, kind=kind, key=key
            )
            first = {events.consumer: events.first for events in waiting}.get(name)
            if first is None:
                raise NotFound(f"no event of {kind} {id!r} waits for {name!r}")
            await acknowledge(connection, [Delivery(place.shard, kind, key, first, name)])
            if is_parked:
                await restart_parked(database, connection, [place])
            await record_order(
                connection,
                "entities.skip",
                f"{kind} {key}",
                details={"consumer": name, "event": first},
            )
            return first

    async def retire_stage(self, kind: str, stage: str) -> None:
        """Take a stage out of the catalogue: it is asked no more; what waits in its queue stays."""
        await self._named(kind, stage)
        async with self._connection() as (_, connection):
            await catalogue.retire(connection, kind, stage)
            await record_order(connection, "entities.retire_stage", f"{kind}/{stage}")

    async def ask_failures(self, kind: str) -> list[AskFailures]:
        """Stages whose `should_process` failed or overran lately; their entities are queued unasked."""
        await self._named(kind)
        async with self._connection() as (_, connection):
            return await connection.rows(
                SQL["list_ask_failures"], AskFailures, kind=kind, most=LAST_ASKED
            )

    async def drop_kind(self, kind: str) -> int:
        """Forget a kind that no code has any more: triggers, visits, states, events. Entities stay.

        Answers how many visits were dropped. Refused while a worker serves it or documents are left.
        """
        found = await self.kind(kind)
        async with self._connection() as (_, connection):
            left = await connection.one(SQL["count_documents"], LeftOver, kind=kind)
            if left.workers:
                raise Refused(f"kind {kind!r} is served by {left.workers} workers; stop them first")
            if left.documents:
                raise Refused(
                    f"kind {kind!r} has {left.documents:,} documents, which would be nobody's; "
                    f"delete them first: delete from mainspring.document where kind = '{kind}'"
                )
            prefix = trigger_prefix(kind)
            rows = await connection.rows(SQL["list_triggers"], TriggerRow, prefix=prefix)
            for trigger in own(kind, rows):
                await connection.execute(f"drop trigger {quoted(trigger.name)} on {trigger.table}")
            for function in (f"bump_{kind}", f"capture_of_{kind}"):
                await connection.execute(f"drop function if exists mainspring.{quoted(function)}()")
            await record_order(connection, "entities.drop_kind", kind)
            return await connection.one(SQL["drop_kind"], int, kind=found.name)

    async def retire_consumer(self, kind: str, name: str) -> int:
        """Take a consumer out; answers how many deliveries were dropped."""
        await self._named(kind)
        async with self._connection() as (_, connection):
            await record_order(connection, "entities.retire_consumer", f"{kind}/{name}")
            return await consumer.retire(connection, kind, name)

    async def _named(self, kind: str, stage: str | None = None) -> _Named:
        found = await self.kind(kind)
        if stage is not None and stage not in found.stages:
            raise UnknownStage(kind, stage, found.stages)
        return _Named(self._host, kind, tuple(found.keys), found.stages)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[Database, Connection]]:
        database = await self._host.database()
        pool = await self._host.pool()
        async with pool.connection(transaction=True) as connection:
            yield database, connection


async def _noted(action: str, target: str, details: Mapping[str, object], tx: Tx) -> None:
    given = {name: value for name, value in details.items() if value}
    await record_order(tx, action, target, details=given)
