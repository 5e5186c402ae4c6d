"""One transaction: the partition's offset is compared and set, then the effects of its records are written.

The compare-and-set is the fence. Whoever was overtaken finds another offset there, and writes nothing. What
the database refuses because of one record is found by halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import asyncpg
import msgspec

from mainspring import crash_points
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection
from mainspring.db.shared import SharedLine
from mainspring.errors import DatabaseUnavailable, MissingRights, QueueFull
from mainspring.sources.apply.effects import BatchEffects, Host
from mainspring.sources.apply.mapping import BadRecord, Mapped, bad_record
from mainspring.sources.declare.source import RecordSource
from mainspring.sources.statements import SQL

# What the server refuses for the sake of a value: data, constraints, and what functions raise.
_OF_VALUES = ("22", "23", "P0")


class Batch(NamedTuple):
    """Records of a partition, from the first offset up to the next; some of them are put aside."""

    partition: str
    first: int
    next: int
    end: int | None
    mapped: Sequence[Mapped]
    rejects: Sequence[BadRecord]


class Taken(NamedTuple):
    """How far a batch was committed, and the record that was refused, if one was. `is_fenced`: another
    reads the partition, or it was moved."""

    next: int
    bad: BadRecord | None = None
    is_fenced: bool = False


class OtherReader(Exception):
    """The offset is not what it was: nothing is written."""


class Committer:
    """Commits the batches of one source."""

    def __init__(self, host: Host, source: RecordSource, line: SharedLine) -> None:
        self._host = host
        self._source = source
        self._line = line

    async def commit(self, batch: Batch) -> Taken:
        """Commit a batch, or as much of it as goes before a record that is refused."""
        try:
            effects = BatchEffects(self._host, self._source.name, batch.mapped)
            await self._write(batch, effects)
        except OtherReader:
            return Taken(batch.first, is_fenced=True)
        except Exception as error:
            if not is_of_records(error) or not batch.mapped:
                raise
            return await self._refused(batch, error)
        return Taken(batch.next)

    async def _refused(self, batch: Batch, error: Exception) -> Taken:
        """A record of these is the cause: the halves before it are committed."""
        if len(batch.mapped) == 1:
            found = bad_record(self._source, batch.mapped[0].record, error)
            if self._source.on_error == "stop":
                return await self._up_to(batch, found)
            return await self.commit(batch._replace(mapped=(), rejects=[*batch.rejects, found]))
        middle = len(batch.mapped) // 2
        at = batch.mapped[middle].record.offset
        first = batch._replace(
            next=at,
            mapped=batch.mapped[:middle],
            rejects=[each for each in batch.rejects if each.record.offset < at],
        )
        taken = await self.commit(first)
        if taken.bad is not None or taken.is_fenced:
            return taken
        rest = batch._replace(
            first=at,
            mapped=batch.mapped[middle:],
            rejects=[each for each in batch.rejects if each.record.offset >= at],
        )
        return await self.commit(rest)

    async def _up_to(self, batch: Batch, bad: BadRecord) -> Taken:
        """What comes before the bad record (nothing of it has effects) is done."""
        at = bad.record.offset
        if at > batch.first:
            taken = await self.commit(batch._replace(next=at, mapped=(), rejects=()))
            if taken.is_fenced:
                return taken
        return Taken(at, bad)

    async def _write(self, batch: Batch, effects: BatchEffects) -> None:
        try:
            await self._write_once(batch, effects, again=False)
        except asyncpg.UniqueViolationError:
            # A call that was copied in is there: somebody has forgotten offsets. Look at each of them.
            await self._write_once(batch, effects, again=True)

    async def _write_once(self, batch: Batch, effects: BatchEffects, *, again: bool) -> None:
        crash_points.passed("batch.writing")
        async with self._line.use() as connection, connection.atomic():
            reached = await connection.first(
                SQL["move_offset"],
                int,
                source=self._source.name,
                partition=batch.partition,
                first=batch.first,
                next=batch.next,
                known_end=batch.end,
            )
            if reached is None:
                raise OtherReader
            crash_points.passed("batch.fenced")
            await effects.write(connection, again=again or batch.first < reached)
            if batch.rejects:
                await put_aside(connection, self._source.name, batch.rejects)
            crash_points.passed("batch.written")
        crash_points.passed("batch.committed")


def is_of_records(error: Exception) -> bool:
    """Whether a record is the cause, and not the database or how it is set up."""
    if isinstance(error, DatabaseUnavailable | QueueFull | MissingRights) or is_transient(error):
        return False
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(_OF_VALUES)
    return True


async def put_aside(connection: Connection, source: str, rejects: Sequence[BadRecord]) -> None:
    """Keep records that cannot be mapped, whole."""
    records = [each.record for each in rejects]
    await connection.run(
        SQL["insert_rejects"],
        source=source,
        partitions=[record.partition for record in records],
        numbers=[record.offset for record in records],
        topics=[record.topic for record in records],
        keys=[record.key for record in records],
        contents=[record.value for record in records],
        headers=[msgspec.json.encode(record.headers) for record in records],
        happened=[record.time_ms for record in records],
        error_types=[each.error_type for each in rejects],
        errors=[each.error for each in rejects],
    )
