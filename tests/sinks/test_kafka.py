"""Events to Kafka: librdkafka's own cluster."""

from __future__ import annotations

import asyncio
import json

import pytest

from brokers import KafkaCluster, free_port
from kafka_broker import KafkaBroker
from mainspring import Update
from mainspring.errors import EndpointAway, EventRefused, InvalidSetting
from mainspring.sinks import Kafka
from mainspring.testing import wait_until
from sinks.test_record import event
from stages import Stages


def headers(message: object) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}  # type: ignore[attr-defined]


async def test_what_was_saved_comes_in_order_of_each_entity(
    stages: Stages, kafka: KafkaCluster | KafkaBroker, topic: str
) -> None:
    """S7: from a row's change to the topic, by a worker; the key is the entity's id."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("kafka", Kafka(kafka.servers, topic=topic))
    await stages.install()
    stages.add(1, 2, price=1)
    async with stages.app.worker():
        await wait_until(lambda: all(stages.listing(i)["rank"] == 1 for i in (1, 2)), 20)
        for n in (2, 3):
            stages.query("update listing set price = %s", n)
            await wait_until(lambda n=n: all(stages.listing(i)["rank"] == n for i in (1, 2)), 20)
        stages.query("delete from listing where id = 1")
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 20)
    found = await asyncio.to_thread(kafka.records, topic, 7)
    own = [m for m in found if m.key() == b"1"]
    assert [json.loads(m.value())["entity"]["rank"] for m in own[:3]] == [1, 2, 3]
    assert [headers(m)["ce_type"] for m in own] == [*["listing.saved"] * 3, "listing.deleted"]
    numbers = [headers(m)["ce_sequence"] for m in own]
    assert numbers == sorted(numbers)
    assert len({m.partition() for m in own}) == 1
    assert len([m for m in found if m.key() == b"2"]) == 3


@pytest.mark.parametrize(("deletes", "values"), [("tombstone", [None]), ("both", [b"{}", None])])
async def test_a_delete_is_a_tombstone_where_asked(
    kafka: KafkaCluster | KafkaBroker, topic: str, deletes: str, values: list[bytes | None]
) -> None:
    target = Kafka(kafka.servers, topic=topic, deletes=deletes)
    try:
        await target.send(event(what="deleted", body=None))
        found = await asyncio.to_thread(kafka.records, topic, len(values))
        assert [m.value() for m in found] == values
        assert [m.key() for m in found] == [b"1"] * len(values)
    finally:
        await target.close()


async def test_a_send_that_is_called_off_is_never_sent_later(
    kafka: KafkaCluster | KafkaBroker, topic: str
) -> None:
    """S7: at a lost lease nothing of the library's queue may follow what others send; the others go on."""
    target = Kafka(kafka.servers, topic=topic, settings={"linger.ms": 1500})
    try:
        await asyncio.wait_for(target.send(event(number=1)), 30)
        lost = asyncio.create_task(target.send(event(number=2, key="2")))
        other = asyncio.create_task(target.send(event(number=3, key="3")))
        await asyncio.sleep(0)  # both are handed to the library, which waits for more
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        await asyncio.wait_for(other, 30)
        await asyncio.wait_for(target.send(event(number=4)), 30)
        found = await asyncio.to_thread(kafka.records, topic, 3)
    finally:
        await target.close()
    assert sorted(headers(m)["ce_id"] for m in found) == ["1", "3", "4"]


async def test_a_cluster_that_is_not_there_is_away(topic: str) -> None:
    target = Kafka(
        f"127.0.0.1:{free_port()}",
        topic=topic,
        settings={"delivery.timeout.ms": 1000, "log_level": 0},
    )
    try:
        with pytest.raises(EndpointAway, match=r"kafka 127.0.0.1:\d+ topic "):
            await target.send(event())
        with pytest.raises(EndpointAway):
            await target.probe()
    finally:
        await target.close()


async def test_an_event_that_is_too_large_is_refused_or_sent_slim(
    kafka: KafkaCluster | KafkaBroker, topic: str
) -> None:
    large = event(body=json.dumps({"entity": {"text": "x" * 2_000_000}}))
    target = Kafka(kafka.servers, topic=topic)
    slim = Kafka(kafka.servers, topic=topic, large="slim")
    try:
        with pytest.raises(EventRefused, match="too large"):
            await target.send(large)
        await slim.send(large)
        [message] = await asyncio.to_thread(kafka.records, topic, 1)
        assert (message.value(), headers(message)["ce_slim"]) == (b"{}", "true")
    finally:
        await target.close()
        await slim.close()


async def test_an_event_that_is_too_large_parks_its_entity_alone(
    stages: Stages, kafka: KafkaCluster | KafkaBroker, topic: str
) -> None:
    """S7: one entity's failure holds up no other."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=1), name="Price", interest=["price"])
    kind.sink("kafka", Kafka(kafka.servers, topic=topic, settings={"message.max.bytes": 5000}))
    await stages.install()
    stages.add(1, note="x" * 10_000)
    stages.add(2)
    async with stages.app.worker():
        await wait_until(lambda: (stages.visit("listing!kafka") or {}).get("parked_at"), 20)
        await wait_until(
            lambda: len(stages.query("select number from mainspring.delivery")) == 1, 20
        )
    row = stages.visit("listing!kafka")
    assert row is not None
    assert "too large" in row["error"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"deletes": "no"}, "deletes must be one of event, tombstone, both, got 'no'"),
        ({"large": "no"}, "large must be one of park, slim, got 'no'"),
        ({"topic": ""}, "Kafka needs servers and a topic"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidSetting, match=text):
        Kafka("127.0.0.1:1", **{"topic": "t", **settings})  # type: ignore[arg-type]
