"""A source beside a bare loop that consumes and copies: `python -m benchmarks.source_loop`.

Both read the same records of one partition of librdkafka's own cluster, and leave the same: a visit of each
record in `mainspring.visit`, and the offset in a row, 500 records a transaction. The bare loop maps nothing
and checks nothing. They take turns; what counts is the median of the ratios of pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

import asyncpg
import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from mainspring import Mainspring
from mainspring.ids import new_ids, shards_of, token
from mainspring.sources import Enqueue, Kafka, Record
from mainspring.testing import TestServer
from mainspring.testing.idle import wait_until

TOPIC = "orders"
AT_ONCE = 500
COLUMNS = ("key", "id", "shard", "version", "queue", "payload")


@contextmanager
def filled(count: int) -> Iterator[str]:
    """The address of a cluster that has so many records."""
    holder = Producer(
        {"test.mock.num.brokers": 1, "log_level": 0, "queue.buffering.max.messages": 2 * count}
    )
    found = holder.list_topics(timeout=10)
    for n in range(count):
        holder.produce(TOPIC, b'{"order":%d}' % n, partition=0)
    assert holder.flush(60) == 0
    yield ",".join(f"{b.host}:{b.port}" for b in found.brokers.values())


def binary(messages: Sequence[Message], shard_count: int) -> bytes:
    """Rows of visits in COPY's binary form."""
    ids = new_ids(len(messages))
    rows = [b"PGCOPY\n\xff\r\n\x00" + bytes(8)]
    for message, id, shard in zip(messages, ids, shards_of(ids, shard_count), strict=True):
        payload = message.value() or b""
        fields = (
            id.encode(),
            bytes.fromhex(id.replace("-", "")),
            struct.pack(">i", shard),
            struct.pack(">q", token()),
            b"charge",
            b"\x01" + payload,
        )
        rows.append(struct.pack(">h", len(fields)))
        rows += [struct.pack(">i", len(field)) + field for field in fields]
    rows.append(struct.pack(">h", -1))
    return b"".join(rows)


async def bare(servers: str, url: str, count: int) -> float:
    """Records a second of a loop that consumes and copies."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bare", "enable.auto.commit": False}
    )
    connection = await asyncpg.connect(url)
    shard_count = await connection.fetchval("select shard_count from mainspring.install")
    await connection.execute("create table place (next bigint)")
    await connection.execute("insert into place values (0)")
    began = time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    done = 0
    while done < count:
        messages = await asyncio.to_thread(consumer.consume, AT_ONCE, 0.05)
        messages = [m for m in messages if m.error() is None]
        if not messages:
            continue
        last = messages[-1].offset() or 0
        async with connection.transaction():
            await connection.execute("update place set next = $1", last + 1)
            await connection.copy_to_table(
                "visit",
                schema_name="mainspring",
                columns=COLUMNS,
                source=one(binary(messages, shard_count)),
                format="binary",
            )
        done += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    await connection.close()
    return count / seconds


async def one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


async def source(servers: str, url: str, count: int) -> float:
    """Records a second of a source, from the start of its worker on."""
    async with Mainspring(url) as app:

        @app.task(pool="nobody")
        async def charge(order: int) -> None: ...

        def to(record: Record) -> Enqueue:
            return Enqueue(charge.bind(**record.json()))

        app.source("orders", Kafka(servers, topic=TOPIC), to=to)
        await app.migrate()
        with psycopg.connect(url, autocommit=True) as watching:

            def offset() -> int:
                found = watching.execute(
                    "select next from mainspring.source_offset"
                    " where partition = 'orders/0' and start is null"
                ).fetchone()
                return int(found[0]) if found else -1

            async with app.worker():
                await wait_until(lambda: offset() >= 0, 60)
                began, at = time.perf_counter(), offset()
                await wait_until(lambda: offset() >= count, 300, every=0.02)
                seconds = time.perf_counter() - began
    return (count - at) / seconds


def measured(server: TestServer, kind: Callable[..., object], servers: str, count: int) -> float:
    """One run on a database of its own."""
    with server.database() as url:
        return float(asyncio.run(kind(servers, url, count)))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    server = TestServer.from_environment()
    ratios = []
    with server, filled(arguments.records) as servers:
        for _ in range(arguments.pairs):
            loop = measured(server, bare, servers, arguments.records)
            ours = measured(server, source, servers, arguments.records)
            ratios.append(ours / loop)
            print(f"bare loop {loop:,.0f}/s, source {ours:,.0f}/s, ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f} (goal: 0.5)")


if __name__ == "__main__":
    main()
