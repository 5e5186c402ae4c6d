"""What only a real broker of Kafka shows: restarts, limits of a topic, compaction."""

from __future__ import annotations

import asyncio
import json

import pytest

from kafka_broker import KafkaBroker
from mainspring import Update
from mainspring.errors import EventRefused
from mainspring.sinks import Kafka
from mainspring.testing import wait_until
from sinks.test_record import event
from stages import Stages

ENTITIES = range(1, 21)


async def test_a_restart_of_the_broker_costs_no_event_and_no_order(
    stages: Stages, real_kafka: KafkaBroker, topic: str
) -> None:
    """S7: killed mid-stream and started again: first arrivals of each entity are in order, and whole."""
    real_kafka.make(topic, 4)
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    quick = {"delivery.timeout.ms": 2000, "socket.timeout.ms": 2000, "log_level": 0}
    kind.sink("kafka", Kafka(real_kafka.servers, topic=topic, settings=quick))
    await stages.install()
    stages.add(*ENTITIES, price=1)

    def saved(n: int) -> bool:
        return all(row["rank"] == n for row in stages.query("select rank from listing"))

    async with stages.app.worker():
        await wait_until(lambda: saved(1), 30)
        await asyncio.to_thread(real_kafka.kill)
        try:
            for n in (2, 3):
                stages.query("update listing set price = %s", n)
                await wait_until(lambda n=n: saved(n), 30)
            waiting = stages.query("select number from mainspring.delivery")
        finally:
            await asyncio.to_thread(real_kafka.start)
        stages.query("update listing set price = 4")
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 60)
    assert waiting, "nothing waited for the broker"
    failed = stages.query(
        "select attempt from mainspring.visit where queue = 'listing!kafka' and attempt > 0"
    )
    assert not failed
    found = await asyncio.to_thread(real_kafka.records, topic, 4 * len(ENTITIES))
    for id in ENTITIES:
        own = [m for m in found if m.key() == str(id).encode()]
        ranks = [json.loads(m.value() or b"{}")["entity"]["rank"] for m in own]
        assert list(dict.fromkeys(ranks)) == [1, 2, 3, 4]


async def test_what_a_topic_finds_too_large_is_refused(real_kafka: KafkaBroker, topic: str) -> None:
    """S7: the topic's own limit, which only the broker knows."""
    real_kafka.make(topic, settings={"max.message.bytes": "2000"})
    target = Kafka(real_kafka.servers, topic=topic)
    slim = Kafka(real_kafka.servers, topic=topic, large="slim")
    large = event(body=json.dumps({"entity": {"text": "x" * 10_000}}))
    try:
        with pytest.raises(EventRefused, match="too large"):
            await target.send(large)
        await slim.send(large)
        [message] = await asyncio.to_thread(real_kafka.records, topic, 1)
        assert message.value() == b"{}"
    finally:
        await target.close()
        await slim.close()


async def test_a_tombstone_takes_an_entity_out_of_a_compacted_topic(
    real_kafka: KafkaBroker, topic: str
) -> None:
    """S7: deletes="tombstone" on a topic that is compacted."""
    compact = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "100",
        "delete.retention.ms": "0",
        "min.compaction.lag.ms": "0",
    }
    real_kafka.make(topic, settings=compact)
    target = Kafka(real_kafka.servers, topic=topic, deletes="tombstone")
    body = json.dumps({"entity": {"id": 1}})
    try:
        await target.send(event(body=body))
        await target.send(event(what="deleted", body=None))

        async def only_the_filler_is_left() -> bool:
            await target.send(event(what="saved", body=body, key="filler"))
            found = await asyncio.to_thread(real_kafka.records, topic, 1)
            return bool(found) and found[0].key() == b"filler"

        await wait_until(only_the_filler_is_left, 60)
    finally:
        await target.close()
