"""Offsets: gaps, what the broker has dropped or lost, where a source begins and goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import nats as nats_client
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from brokers import NatsServer
from kafka_broker import KafkaBroker
from mainspring import Mainspring
from mainspring.errors import InvalidSetting, NotFound
from mainspring.sources import Enqueue, Nats, Record
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import Feed, KafkaFeed, NatsFeed, Sources

CALLS = "select payload -> 'value' as n from mainspring.visit where queue = 'keep' order by key"


def declare(app: Mainspring, broker: Any, **settings: Any) -> None:
    """A source whose records become calls that nobody runs."""

    @app.task(pool="nobody")
    async def keep(value: Any, key: str | None) -> None: ...

    def to(record: Record) -> Enqueue:
        value = None if record.value is None else json.loads(record.value)
        if isinstance(value, str) and len(value) > 1000:
            value = len(value)
        return Enqueue(keep.bind(value, None if record.key is None else record.key.decode()))

    app.source("orders", broker, to=to, **settings)


def taken(sources: Sources) -> list[Any]:
    return [row["n"] for row in sources.query(CALLS)]


async def test_a_seek_reads_again_and_makes_no_call_again(feed: Feed, sources: Sources) -> None:
    """Calls of records that were read before are known, live or in history; later ones are made."""
    app = sources.app
    done: list[int] = []

    @app.task
    async def charge(order: int) -> None:
        done.append(order)

    app.source("orders", feed.broker(), to=lambda r: Enqueue(charge.bind(r.json())))
    await feed.put(range(100))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(done) == 100, 30)
        [first] = [p for p, n in sources.offsets().items() if p.endswith("0") and n >= 100]
        end = sources.offsets()[first]
        assert await app.operator.sources.seek("orders", "earliest", first) == [first]
        await wait_until(lambda: sources.offsets().get(first) == end, 30)
        await feed.put([100])
        await wait_until(lambda: len(done) == 101, 30)
        await app.operator.sources.seek("orders", end - 50, first)
        await wait_until(lambda: sources.offsets().get(first) == end + 1, 30)
        await feed.put([101])
        await wait_until(lambda: len(done) == 102, 30)
        with pytest.raises(InvalidSetting, match="an offset is that of one partition"):
            await app.operator.sources.seek("orders", 7)
        with pytest.raises(NotFound, match=r"has no partition 'x'"):
            await app.operator.sources.seek("orders", 7, "x")
    assert sorted(done) == list(range(102))


async def test_latest_begins_after_what_is_there_and_an_instant_between(
    feed: Feed, sources: Sources
) -> None:
    await feed.put([1, 2])
    await asyncio.sleep(0.01)  # two records of one millisecond are not told apart
    middle = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await feed.put([3])
    declare(sources.app, feed.broker(), start="latest")
    await sources.app.migrate()
    async with sources.app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(sources.offsets()) >= 2, 30)
        await feed.put([4])
        await wait_until(lambda: taken(sources) == [4], 30)
        if type(getattr(feed, "cluster", None)).__name__ == "KafkaCluster":
            return  # librdkafka's own cluster knows no times
        [first] = [p for p in sources.offsets() if p.endswith("0")]
        await sources.app.operator.sources.seek("orders", middle, first)
        await wait_until(lambda: taken(sources) == [3, 4], 30)


async def test_a_paused_source_reads_nothing_until_it_is_resumed(
    nats: NatsServer, sources: Sources
) -> None:
    feed, app = NatsFeed(nats), sources.app
    await feed.put([1])
    declare(app, feed.broker())
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: taken(sources) == [1], 30)
        await app.operator.sources.pause("orders")
        held = (
            "select 1 as n from mainspring.visit where queue = 'source/orders' and pass is not null"
        )
        await wait_until(lambda: not sources.query(held), 30)
        await feed.put([2])
        assert {p.state for p in await app.operator.sources.partitions()} == {"paused"}
        assert taken(sources) == [1]
        assert await app.operator.sources.resume("orders") == []
        await wait_until(lambda: taken(sources) == [1, 2], 30)


# -- Kafka


async def test_retention_that_passed_the_offset_stops_the_partition_and_says_so(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """Never silently reset: an operator says where to go on."""
    feed, app = KafkaFeed(real_kafka, topic), sources.app
    await feed.put(range(10))
    declare(app, feed.broker())
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 10, 30)
    await feed.put(range(10, 30))
    await asyncio.to_thread(real_kafka.drop_before, topic, 0, 20)
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked(f"{topic}/0")
        assert f"{topic}/0: the broker does not have offset 10: it has 20 to 30" in row["error"]
        assert len(taken(sources)) == 10
        await app.operator.sources.seek("orders", "earliest", f"{topic}/0")
        await wait_until(lambda: len(taken(sources)) == 20, 30)
    assert taken(sources) == [*range(10), *range(20, 30)]


async def test_a_partition_that_went_back_stops(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """A topic that was deleted and made again has fewer records than were taken in."""
    feed, app = KafkaFeed(real_kafka, topic), sources.app
    await asyncio.to_thread(real_kafka.make, topic)
    await feed.put(range(10))
    declare(app, feed.broker())
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 10, 30)
    admin = AdminClient({"bootstrap.servers": real_kafka.servers, "log_level": 0})
    await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 30)
    await wait_until(lambda: topic not in admin.list_topics(timeout=5).topics, 30)
    await asyncio.to_thread(real_kafka.make, topic)
    await feed.put([100])
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked(f"{topic}/0")
    assert "the broker does not have offset 10: it has 0 to 1" in row["error"]


async def test_transactions_and_compaction_leave_gaps_that_are_passed(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """Control records and aborted ones take offsets; lag comes to nothing all the same."""
    app = sources.app
    await asyncio.to_thread(real_kafka.make, topic)

    def transactions() -> None:
        settings = {"bootstrap.servers": real_kafka.servers, "log_level": 0}
        producer = Producer({**settings, "transactional.id": topic})
        producer.init_transactions(30)
        for n in range(6):
            producer.begin_transaction()
            producer.produce(topic, str(n), partition=0)
            producer.produce(topic, str(n), partition=0)
            producer.flush(30)
            (producer.abort_transaction if n % 2 else producer.commit_transaction)(30)

    await asyncio.to_thread(transactions)
    declare(app, KafkaFeed(real_kafka, topic).broker())
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: sources.offsets().get(f"{topic}/0") == 18, 30)
        [state] = await app.operator.sources.partitions()
        assert (state.lag, state.state) == (0, "reading")
    assert taken(sources) == [0, 0, 2, 2, 4, 4]


async def test_a_compacted_topic_with_tombstones_is_read_through_its_gaps(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    compacting = {
        "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100",
        "max.compaction.lag.ms": "200", "min.compaction.lag.ms": "0", "delete.retention.ms": "60000",
    }  # fmt: skip
    await asyncio.to_thread(real_kafka.make, topic, 1, compacting)
    for n in range(5):
        await asyncio.to_thread(real_kafka.fill, topic, [("a", str(n).encode())])
    await asyncio.to_thread(real_kafka.fill, topic, [("b", b"7"), ("b", None)])

    def compacted() -> bool:
        real_kafka.fill(topic, [("filler", b"0")])
        keys = [m.key() for m in real_kafka.records(topic, 3)]
        return keys.count(b"a") == 1

    await wait_until(lambda: asyncio.to_thread(compacted), 90)
    declare(sources.app, KafkaFeed(real_kafka, topic).broker())
    rows = "select payload from mainspring.visit where queue = 'keep' order by key"
    async with sources.app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(sources.query(rows)) >= 3, 30)
    found = [row["payload"] for row in sources.query(rows)]
    assert {"key": "a", "value": 4} in found
    assert {"key": "b", "value": None} in found
    assert sum(row["key"] == "a" for row in found) == 1


async def test_new_partitions_are_found_and_read_from_their_first_record(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """Whatever `start` says: a partition that came later is younger than the source."""
    feed, app = KafkaFeed(real_kafka, topic), sources.app
    await asyncio.to_thread(real_kafka.make, topic)
    declare(app, feed.broker(), start="latest")
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(sources.offsets()) == 1, 30)
    admin = AdminClient({"bootstrap.servers": real_kafka.servers, "log_level": 0})
    more = admin.create_partitions([NewPartitions(topic, 2)])[topic]
    await asyncio.to_thread(more.result, 30)
    await feed.put([1, 2], part=1)
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: taken(sources) == [1, 2], 30)


async def test_huge_records_come_one_by_one(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """Records that are larger than what is fetched at once, among small ones."""
    await asyncio.to_thread(real_kafka.make, topic, 1, {"max.message.bytes": "20000000"})

    def fill() -> None:
        producer = Producer(
            {
                "bootstrap.servers": real_kafka.servers,
                "log_level": 0,
                "message.max.bytes": 20_000_000,
            }
        )
        for size in (10, 9_000_000, 10, 5_000_000, 5_000_000, 10):
            producer.produce(topic, json.dumps("x" * size), partition=0)
            producer.flush(30)

    await asyncio.to_thread(fill)
    declare(sources.app, KafkaFeed(real_kafka, topic).broker())
    async with sources.app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 6, 60)
    assert [n for n in taken(sources) if isinstance(n, int)] == [9_000_000, 5_000_000, 5_000_000]


# -- NATS


async def stream(server: NatsServer, values: Sequence[object], **config: Any) -> None:
    connection = await nats_client.connect(server.url)
    try:
        context = connection.jetstream()
        await context.add_stream(name="ORDERS", subjects=["orders.>"], **config)
        for n, value in enumerate(values):
            await context.publish(f"orders.{n % 3}", json.dumps(value).encode())
    finally:
        await connection.close()


async def test_a_stream_that_dropped_its_messages_stops_the_source(
    nats: NatsServer, sources: Sources
) -> None:
    app = sources.app
    await stream(nats, range(6), max_msgs=6)
    declare(app, Nats(nats.url, stream="ORDERS"))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 6, 30)
    await stream(nats, range(6, 20), max_msgs=6)
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked("ORDERS/>")
        assert "does not have message 7: it has 15 to 20" in row["error"]
        await app.operator.sources.seek("orders", "earliest")
        await wait_until(lambda: len(taken(sources)) == 12, 30)
    assert taken(sources) == [*range(6), *range(14, 20)]


async def test_a_compacted_stream_may_drop_what_it_likes(
    nats: NatsServer, sources: Sources
) -> None:
    app = sources.app
    await stream(nats, range(6), max_msgs_per_subject=1)
    declare(app, Nats(nats.url, stream="ORDERS", compacted=True))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: taken(sources) == [3, 4, 5], 30)
    await stream(nats, range(6, 12), max_msgs_per_subject=1)
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: taken(sources) == [3, 4, 5, 9, 10, 11], 30)


async def test_a_quiet_filter_of_a_busy_stream_moves_on(nats: NatsServer, sources: Sources) -> None:
    """What others send is dropped by age one day: a filter that has nothing must not stay behind it."""
    app = sources.app
    await stream(nats, range(30))
    declare(app, Nats(nats.url, stream="ORDERS", subjects="orders.nobody"))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: sources.offsets().get("ORDERS/orders.nobody") == 31, 30)
    assert taken(sources) == []
