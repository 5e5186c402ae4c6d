"""How sources stand, and orders about them: pause, resume, move, and what becomes of rejected records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.db.pool import HasPool
from mainspring.declaring import check_page
from mainspring.errors import InvalidSetting, NotFound
from mainspring.operate import (
    ParkedPlace,
    explaining,
    pause_queue,
    record_order,
    restart_parked,
    resume_queue,
)
from mainspring.phrases import nearest
from mainspring.sources.declare.source import QUEUE, start_text
from mainspring.sources.statements import SQL

MOST = 500


class PartitionState(NamedTuple):
    """How a partition stands. `lag` is as of the last look of its reader.

    `state` is reading, waiting (for a worker, or for the broker), paused, stopped (`error` says at which
    record) or unread (no worker has come to it yet).
    """

    source: str
    partition: str
    next: int
    start: str | None  # where it is to begin, while that is not found out
    known_end: int | None
    lag: int | None
    state: str
    since: datetime | None
    error: str | None
    looked_at: datetime | None
    moved_at: datetime | None
    rejects: int
    shard: int | None


class RejectedRecord(NamedTuple):
    """A record that was put aside, without what is in it."""

    source: str
    partition: str
    offset: int
    topic: str
    bytes: int | None
    error_type: str
    error: str
    rejected_at: datetime
    retry_at: datetime | None


class SourceOperator:
    """Questions and orders about sources."""

    def __init__(self, host: HasPool) -> None:
        self._host = host

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[Database, Connection]]:
        database, pool = await self._host.database(), await self._host.pool()
        with explaining():
            async with pool.connection(transaction=True) as connection:
                yield database, connection

    async def partitions(
        self,
        source: str | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = MOST,
    ) -> list[PartitionState]:
        """Partitions of all sources or of one, in their order."""
        async with self._connection() as (_, connection):
            found = await list_partitions(connection, source, after=after, limit=limit)
            if not found and source is not None:
                await self._known(connection, source)
            return found

    async def pause(self, source: str) -> None:
        """Read nothing of a source until it is resumed. Its readers stop within seconds."""
        async with self._connection() as (database, connection):
            await self._known(connection, source)
            await pause_queue(database, connection, QUEUE + source)
            await record_order(connection, "sources.pause", source)

    async def resume(self, source: str, partition: str | None = None) -> list[str]:
        """Undo a pause, and let partitions go on that had stopped; returns these."""
        async with self._connection() as (database, connection):
            found = await self._known(connection, source, partition)
            await resume_queue(database, connection, QUEUE + source)
            await record_order(
                connection, "sources.resume", source, details={"partition": partition}
            )
            return await _restart(database, connection, found)

    async def seek(
        self, source: str, to: int | str | datetime, partition: str | None = None
    ) -> list[str]:
        """Read on at an offset, at 'earliest', 'latest' or an instant, and let go on what had stopped.

        Records that were read before are read again: their calls are not made again while history has
        them, params only rise, signals are known. Documents are put again.
        """
        if isinstance(to, bool) or (isinstance(to, int) and to < 0):
            raise InvalidSetting(f"an offset is 0 or more, got {to!r}")
        if isinstance(to, int) and partition is None:
            raise InvalidSetting("an offset is that of one partition: name it")
        is_offset = isinstance(to, int)
        async with self._connection() as (database, connection):
            found = await self._known(connection, source, partition)
            moved = await connection.rows(
                SQL["move_to"],
                str,
                source=source,
                partition=partition,
                next=to if is_offset else None,
                start=None if isinstance(to, int) else start_text(to),
            )
            await _restart(database, connection, found)
            details = {"partition": partition, "to": to}
            await record_order(connection, "sources.seek", source, details=details)
            return sorted(moved)

    async def rejects(
        self,
        source: str,
        partition: str | None = None,
        *,
        after: tuple[str, int] = ("", -1),
        limit: int = 100,
    ) -> list[RejectedRecord]:
        """Records that were put aside, without what is in them."""
        async with self._connection() as (_, connection):
            await self._known(connection, source, partition)
            return await connection.rows(
                SQL["list_rejects"],
                RejectedRecord,
                source=source,
                partition=partition,
                after=after[0],
                after_offset=after[1],
                limit=check_page(limit),
            )

    async def retry_rejects(
        self, source: str, partition: str | None = None, offset: int | None = None
    ) -> int:
        """Have records mapped again that were put aside: a worker does it within half a minute. Returns
        how many."""
        return await self._order("retry_rejects", source, partition, offset)

    async def drop_rejects(
        self, source: str, partition: str | None = None, offset: int | None = None
    ) -> int:
        """Forget records that were put aside; returns how many."""
        return await self._order("drop_rejects", source, partition, offset)

    async def _order(
        self, order: str, source: str, partition: str | None, offset: int | None
    ) -> int:
        async with self._connection() as (_, connection):
            await self._known(connection, source, partition)
            values = {"source": source, "partition": partition, "number": offset}
            done = len(await connection.rows(SQL[order], int, **values))
            details = {"partition": partition, "offset": offset}
            await record_order(
                connection, f"sources.{order}", source, details=details, result=f"{done} records"
            )
            return done

    async def _known(
        self, connection: Connection, source: str, partition: str | None = None
    ) -> list[PartitionState]:
        """The partitions that are meant; an error names the nearest otherwise."""
        found = page = await list_partitions(connection, source)
        while len(page) == MOST:
            page = await list_partitions(connection, source, after=(source, page[-1].partition))
            found += page
        if not found:
            names = {each.source for each in await list_partitions(connection, None)}
            raise NotFound(
                f"no source is named {source!r}{nearest(source, names) or ';'} it is known when a worker "
                "that declares it has found its partitions; status says whether its broker is away"
            )
        if partition is None:
            return found
        names = {each.partition for each in found}
        if partition not in names:
            raise NotFound(
                f"source {source!r} has no partition {partition!r}{nearest(partition, names)}"
            )
        return [each for each in found if each.partition == partition]


async def list_partitions(
    connection: Connection,
    source: str | None,
    *,
    after: tuple[str, str] = ("", ""),
    limit: int = MOST,
) -> list[PartitionState]:
    """A page of partitions."""
    return await connection.rows(
        SQL["list_offsets"],
        PartitionState,
        source=source,
        after_source=after[0],
        after=after[1],
        limit=check_page(limit),
    )


async def _restart(
    database: Database, connection: Connection, found: list[PartitionState]
) -> list[str]:
    stopped = [each for each in found if each.state == "stopped" and each.shard is not None]
    places = [ParkedPlace(each.shard or 0, each.partition, QUEUE + each.source) for each in stopped]
    if places:
        await restart_parked(database, connection, places, fresh_ids=False)
    return [each.partition for each in stopped]
