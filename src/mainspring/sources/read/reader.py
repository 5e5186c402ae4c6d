"""Reads one partition: records become effects, batch by batch, for as long as its visit is held.

A run ends, and its visit goes on elsewhere or later, when its shard went to another worker, when the queue
was paused, when the offset is not its own any more, and when the broker is away. A record that cannot be
mapped parks the visit: its partition stops, the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import NamedTuple

from mainspring.db.batcher import Batcher
from mainspring.db.connect.outage import is_transient
from mainspring.db.shared import SharedLine
from mainspring.endpoint import Endpoint
from mainspring.errors import DatabaseUnavailable, EndpointAway, QueueFull
from mainspring.kernel import Again, Done, Outcome, Parked, Postponed, Run, WorkerPort
from mainspring.sources.apply.batch import Batch, Committer, Taken
from mainspring.sources.apply.mapping import BadRecord, Mapped, map_records
from mainspring.sources.declare.broker import BrokerClient, OffsetGone, RecordChunk, RecordStream
from mainspring.sources.declare.source import RecordSource
from mainspring.sources.statements import SQL

log = logging.getLogger("mainspring")
# Records of one transaction at most, and how long a quiet partition is listened to at a time (seconds).
AT_ONCE = 500
LISTEN_SECONDS = 0.5
# How often a partition is looked at that has nothing new (seconds).
LOOK_SECONDS = 2.0
# A batch that the database could not take just now is tried again after so long (seconds).
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
# The deaths of a run are forgotten when it has got a batch through, or found that there is nothing to get.
# So one that has any listens but shortly at first (seconds).
SHORTLY = 0.05
# What a broker that is away had not given is due again after so long (seconds), and waits for it then.
PUT_OFF = 1.0
AGAIN = Again()


class OffsetRow(NamedTuple):
    """Where a partition stands."""

    next: int
    reached: int
    start: str | None


class MappedChunk(NamedTuple):
    """Records with what they do, and those that cannot be mapped."""

    chunk: RecordChunk
    mapped: list[Mapped]
    bad: list[BadRecord]


class Look(NamedTuple):
    """A quiet partition, as its reader has it."""

    source: str
    partition: str
    next: int
    end: int | None


class Looked(NamedTuple):
    """Whether the reader of the look of this number goes on."""

    n: int
    goes_on: bool


class Looks:
    """The looks of all quiet readers of a worker, many in one statement."""

    def __init__(self, line: SharedLine) -> None:
        self._line = line
        self.ask = Batcher(self._ask)

    async def _ask(self, looks: Sequence[Look]) -> list[bool]:
        async with self._line.use() as connection:
            found = await connection.rows(
                SQL["look_at_offsets"],
                Looked,
                sources=[look.source for look in looks],
                partitions=[look.partition for look in looks],
                nexts=[look.next for look in looks],
                ends=[look.end for look in looks],
            )
        goes_on = dict(found)
        return [goes_on[n] for n in range(1, len(looks) + 1)]

    async def close(self) -> None:
        await self.ask.close()


class PartitionReader:
    """The readers of one source in a worker."""

    def __init__(
        self,
        source: RecordSource,
        client: BrokerClient,
        committer: Committer,
        endpoint: Endpoint,
        worker: WorkerPort,
        line: SharedLine,
        looks: Looks,
    ) -> None:
        self._source = source
        self._client = client
        self._committer = committer
        self._endpoint = endpoint
        self._worker = worker
        self._line = line
        self._looks = looks

    async def read(self, run: Run) -> Outcome:
        """Read the partition of a visit until something ends it."""
        try:
            next = await self._begin(run.visit.key)
            if next is None:
                return Done()
            stream = await self._client.read_from(run.visit.key, next)
            try:
                return await self._follow(run, stream, next)
            finally:
                await stream.close()
        except EndpointAway as error:
            self._endpoint.left(error)
            return Postponed(error.retry_after or PUT_OFF, str(error))
        except OffsetGone as error:
            return Parked("OffsetGone", f"source {self._source.name!r}, {error}")

    async def _begin(self, partition: str) -> int | None:
        """The offset to begin at; where it is only said in words, the broker is asked."""
        places = {"source": self._source.name, "partition": partition}
        while True:
            async with self._line.use() as connection:
                row = await connection.first(SQL["read_offset"], OffsetRow, **places)
            if row is None:
                return None  # it is known no more
            if row.start is None:
                return row.next
            next = await self._client.offset_at(partition, row.start)
            async with self._line.use() as connection:
                found = await connection.first(
                    SQL["begin_at"], int, next=next, start=row.start, **places
                )
            if found is not None:
                return found

    async def _follow(self, run: Run, stream: RecordStream, next: int) -> Outcome:
        now = asyncio.get_running_loop().time
        looked = now()
        partition, is_first = run.visit.key, True
        upcoming: asyncio.Task[MappedChunk] | None = (
            None  # read and mapped while the one before is committed
        )
        try:
            while self._worker.serves(run.visit.queue, run.visit.shard):
                seconds = SHORTLY if run.visit.crashes else LISTEN_SECONDS
                read = await (upcoming or self._read(stream, seconds))
                chunk, upcoming = read.chunk, None
                if is_first:
                    self._endpoint.succeeded()
                    is_first = False
                if len(chunk.records) == AT_ONCE:
                    upcoming = asyncio.create_task(self._read(stream, LISTEN_SECONDS))
                if chunk.next > next:
                    taken = await self._take(run, partition, next, read)
                    next = taken.next
                    if taken.bad is not None:
                        return Parked(taken.bad.error_type, taken.bad.error)
                    if taken.is_fenced:
                        log.info("source.overtaken", extra=self._facts(partition, next))
                        return AGAIN
                    self._client.note(partition, next)
                if run.visit.crashes and (chunk.records or chunk.end is not None):
                    return AGAIN  # with no deaths on its record
                if now() - looked > LOOK_SECONDS:
                    looked = now()
                    look = Look(self._source.name, partition, next, chunk.end)
                    if not await self._looks.ask(look):
                        return AGAIN
            return AGAIN
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)

    async def _read(self, stream: RecordStream, seconds: float) -> MappedChunk:
        chunk = await stream.read(AT_ONCE, seconds)
        return MappedChunk(chunk, *await map_records(self._source, chunk.records))

    async def _take(self, run: Run, partition: str, next: int, read: MappedChunk) -> Taken:
        """Have the effects of these records; insist while the database cannot take them."""
        chunk, mapped, bad = read
        stops = bool(bad) and self._source.on_error == "stop"
        upto = bad[0].record.offset if stops else chunk.next
        batch = Batch(partition, next, upto, chunk.end, mapped, () if stops else bad)
        pause = FIRST_PAUSE
        while batch.next > batch.first:
            try:
                taken = await self._committer.commit(batch)
            except Exception as error:
                if not (is_transient(error) or isinstance(error, DatabaseUnavailable | QueueFull)):
                    raise
                log.info("source.waiting", extra=self._facts(partition, next, error=str(error)))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE)
                if not self._worker.serves(run.visit.queue, run.visit.shard):
                    return Taken(next, is_fenced=True)
                continue
            if taken.bad is not None or taken.is_fenced:
                return taken
            break
        return Taken(upto, bad[0] if stops else None)

    def _facts(self, partition: str, next: int, **more: str) -> dict[str, object]:
        return {"source": self._source.name, "partition": partition, "offset": next, **more}
