"""Records that were put aside and are to be mapped again: each is one transaction, with its effects.

The row that is deleted with them is the fence. One that fails again stays aside, with the new reason.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainspring.db.shared import SharedLine
from mainspring.sources.apply.batch import is_of_records
from mainspring.sources.apply.effects import BatchEffects, Host
from mainspring.sources.apply.mapping import BadRecord, bad_record, map_records
from mainspring.sources.declare.record import BrokerRecord
from mainspring.sources.declare.source import RecordSource
from mainspring.sources.statements import SQL

AT_ONCE = 100
_headers = msgspec.json.Decoder(tuple[tuple[str, bytes | None], ...]).decode


class KeptRecord(NamedTuple):
    """A record that was put aside, as its row has it."""

    partition: str
    number: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: bytes
    happened_ms: int

    @property
    def record(self) -> BrokerRecord:
        return BrokerRecord(
            self.topic,
            self.partition,
            self.number,
            self.key,
            self.value,
            _headers(self.headers),
            self.happened_ms,
        )


class Retrier:
    """Maps records of one source again that were put aside."""

    def __init__(self, host: Host, source: RecordSource, line: SharedLine) -> None:
        self._host = host
        self._source = source
        self._line = line

    async def retry(self) -> bool:
        """Some of those that are to be tried; whether there may be more."""
        async with self._line.use() as connection:
            found = await connection.rows(
                SQL["rejects_to_retry"], KeptRecord, source=self._source.name, limit=AT_ONCE
            )
        for kept in found:
            await self._retry(kept.record)
        return len(found) == AT_ONCE

    async def _retry(self, record: BrokerRecord) -> None:
        mapped, bad = await map_records(self._source, [record])
        if bad:
            await self._keep(bad[0])
            return
        try:
            effects = BatchEffects(self._host, self._source.name, mapped)
            async with self._line.use() as connection, connection.atomic():
                taken = await connection.first(
                    SQL["take_reject"],
                    int,
                    source=self._source.name,
                    partition=record.partition,
                    number=record.offset,
                )
                if taken is not None:
                    await effects.write(connection, again=True)
        except Exception as error:
            if not is_of_records(error):
                raise
            await self._keep(bad_record(self._source, record, error))

    async def _keep(self, bad: BadRecord) -> None:
        async with self._line.use() as connection:
            await connection.run(
                SQL["keep_aside"],
                source=self._source.name,
                partition=bad.record.partition,
                number=bad.record.offset,
                error_type=bad.error_type,
                error=bad.error,
            )
