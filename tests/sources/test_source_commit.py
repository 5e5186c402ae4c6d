"""One transaction of a source: the offset is the fence, whoever holds the partition's visit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from brokers import NatsServer
from mainspring.kernel.port import WorkerPort
from mainspring.sources import Edit, Enqueue, Put, Record
from mainspring.sources.apply.batch import Batch, Committer, Taken
from mainspring.sources.apply.mapping import map_records
from mainspring.sources.declare.source import RecordSource
from sources.feeds import NatsFeed, Sources

PARTITION = "orders/0"
CALLS = "select payload -> 'order' as n from mainspring.visit where queue = 'charge' order by key"


def record(offset: int) -> Record:
    return Record(
        "orders", PARTITION, offset, None, str(offset).encode(), time_ms=1_700_000_000_000
    )


class TwoReaders:
    """Two that believe the partition to be theirs, each with connections of its own."""

    def __init__(self, sources: Sources, source: RecordSource, ports: list[WorkerPort]) -> None:
        self.source = source
        self.committers = [Committer(sources.app, source, port.line()) for port in ports]

    async def commit(self, reader: int, first: int, next: int) -> Taken:
        """Have the effects of these records."""
        mapped, bad = await map_records(self.source, [record(n) for n in range(first, next)])
        assert not bad
        return await self.committers[reader].commit(Batch(PARTITION, first, next, None, mapped, ()))


@pytest.fixture
async def readers(sources: Sources, nats: NatsServer) -> AsyncIterator[TwoReaders]:
    app = sources.app
    drafts = app.documents("draft")

    @app.task
    async def charge(order: int) -> None: ...

    def to(record: Record) -> list[Enqueue | Put | Edit]:
        return [Enqueue(charge.bind(record.json())), Put(drafts, 1, {"n": record.json()})]

    source = app.source("orders", NatsFeed(nats).broker(), to=to)
    await app.migrate()
    sources.query(
        "insert into mainspring.source_offset (source, partition) values ('orders', %s)", PARTITION
    )
    database = await app.database()
    ports = [WorkerPort.to(database), WorkerPort.to(database)]
    yield TwoReaders(sources, source, ports)
    for port in ports:
        await port.close()
    await app.close()


async def test_of_two_readers_at_one_offset_one_counts(
    sources: Sources, readers: TwoReaders
) -> None:
    """The compare-and-set is the fence: the other writes nothing, however late it comes."""
    found = await asyncio.gather(readers.commit(0, 0, 5), readers.commit(1, 0, 3))
    assert sorted(each.is_fenced for each in found) == [False, True]
    [next] = sources.offsets().values()
    assert (await readers.commit(0, 0, 2)).is_fenced
    assert (await readers.commit(1, next, next + 2)).next == next + 2
    assert (await readers.commit(0, next, next + 1)).is_fenced
    assert sources.offsets() == {PARTITION: next + 2}
    calls = sources.query(CALLS)
    assert [row["n"] for row in calls] == list(range(next + 2))
    assert sources.value("select body -> 'n' from mainspring.document") == next + 1


async def test_an_order_fences_a_batch_that_is_under_way(
    sources: Sources, readers: TwoReaders
) -> None:
    """A seek in words stands until somebody has found out where that is."""
    await readers.commit(0, 0, 3)
    sources.query("update mainspring.source_offset set start = 'earliest'")
    assert (await readers.commit(0, 3, 5)).is_fenced
    assert sources.value("select next from mainspring.source_offset") == 3


async def test_a_late_batch_after_a_seek_back_makes_no_call_twice(
    sources: Sources, readers: TwoReaders
) -> None:
    """Whether records were read before is known from the row, under its lock."""
    await readers.commit(0, 0, 4)
    sources.query("update mainspring.source_offset set next = 1")
    taken = await readers.commit(1, 1, 6)  # it began before the seek, and knows nothing of it
    assert taken.next == 6
    calls = sources.query(CALLS)
    assert [row["n"] for row in calls] == list(range(6))
