"""Brokers that are away: nothing is counted, `status` says so, and reading goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brokers import NatsServer, free_port
from kafka_broker import KafkaBroker
from mainspring import Mainspring
from mainspring.errors import EndpointAway
from mainspring.sources import Enqueue, Kafka, Nats
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import QUICK, KafkaFeed, NatsFeed, Sources
from tcp_proxy import TcpProxy

pytestmark = pytest.mark.timeout(180)
CALLS = (
    "select (payload ->> 'order')::int as n from mainspring.visit where queue = 'charge' order by 1"
)


def declare(app: Mainspring, broker: Any) -> None:
    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    app.source("orders", broker, to=lambda record: Enqueue(charge.bind(record.json())))


def taken(sources: Sources) -> list[int]:
    return [row["n"] for row in sources.query(CALLS)]


def check_nothing_is_counted(sources: Sources) -> None:
    rows = sources.query(
        "select attempt, crashes, parked_at from mainspring.visit where queue = 'source/orders'"
    )
    assert {(row["attempt"], row["crashes"], row["parked_at"]) for row in rows} == {(0, 0, None)}


async def is_away(app: Mainspring) -> bool:
    return any(each.reason for each, _ in (await app.operator.status()).away)


async def test_a_nats_server_that_is_killed_and_started_again_is_read_on(
    nats: NatsServer, sources: Sources
) -> None:
    app, feed = sources.app, NatsFeed(nats)
    declare(app, feed.broker())
    await feed.put(range(100))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 100, 30)
        nats.kill()
        await wait_until(lambda: is_away(app), 30)
        check_nothing_is_counted(sources)
        [(away, _)] = (await app.operator.status()).away
        assert f"nats 127.0.0.1:{nats.port} stream ORDERS is away since" in away.text
        nats.start()
        await feed.put(range(100, 200))
        await wait_until(lambda: len(taken(sources)) == 200, 60)
        check_nothing_is_counted(sources)
    assert taken(sources) == list(range(200))


async def test_a_kafka_broker_that_is_killed_and_started_again_is_read_on(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    app, feed = sources.app, KafkaFeed(real_kafka, topic)
    declare(app, feed.broker())
    await feed.put(range(100))
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(taken(sources)) == 100, 30)
        await asyncio.to_thread(real_kafka.kill)
        try:
            await wait_until(lambda: is_away(app), 30)
            check_nothing_is_counted(sources)
        finally:
            await asyncio.to_thread(real_kafka.start)
        await feed.put(range(100, 200))
        await wait_until(lambda: len(taken(sources)) == 200, 90)
        check_nothing_is_counted(sources)
    assert taken(sources) == list(range(200))


async def test_a_source_waits_for_a_broker_that_was_never_there(sources: Sources) -> None:
    port = free_port()
    declare(sources.app, Kafka(f"127.0.0.1:{port}", topic="orders", settings=QUICK))
    async with sources.app.worker(**FAST_SETTINGS):
        await wait_until(lambda: is_away(sources.app), 30)
        check_nothing_is_counted(sources)


async def test_a_stream_that_is_not_there_is_away_and_named(
    nats: NatsServer, sources: Sources
) -> None:
    app, feed = sources.app, NatsFeed(nats)
    declare(app, feed.broker())
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: is_away(app), 30)
        [(away, _)] = (await app.operator.status()).away
        assert "there is no such stream" in (away.reason or "")
        await feed.put([1])
        await wait_until(lambda: taken(sources) == [1], 60)


def test_the_address_that_is_told_has_no_password_in_it() -> None:
    broker = Nats("nats://ann:secret@nats:4222", stream="ORDERS", subjects=["orders"])
    assert broker.address == "nats nats:4222 stream ORDERS"


@contextmanager
def proxied(server: NatsServer) -> Iterator[TcpProxy]:
    proxy = TcpProxy(("127.0.0.1", server.port))
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("harm", ["cut", "stall", "half-close"])
async def test_a_network_that_breaks_while_records_come_loses_and_doubles_none(
    nats: NatsServer, sources: Sources, harm: str
) -> None:
    """What was on its way is asked for again from the offset in the database."""
    app, feed = sources.app, NatsFeed(nats)
    with proxied(nats) as proxy:
        broker = Nats(f"nats://{proxy.address}", stream="ORDERS", options={"ping_interval": 1})
        declare(app, broker)
        await feed.put(range(50))
        async with app.worker(**FAST_SETTINGS):
            await wait_until(lambda: len(taken(sources)) == 50, 30)
            for n in range(1, 4):
                putting = asyncio.create_task(feed.put(range(500 * n - 450, 500 * n + 50)))
                if harm == "cut":
                    proxy.cut()
                elif harm == "stall":
                    proxy.stall("to_client")
                else:
                    proxy.half_close("to_client")
                await putting
                if harm == "stall":
                    await wait_until(lambda: is_away(app), 60)
                    proxy.resume()
                await wait_until(lambda n=n: len(taken(sources)) == 500 * n + 50, 60)
            check_nothing_is_counted(sources)
    assert taken(sources) == list(range(1550))


async def test_a_nats_server_that_was_never_there_is_told_soon(sources: Sources) -> None:
    """The client would try the first connection for two minutes, and hold up a worker's stop."""
    broker = Nats(f"nats://127.0.0.1:{free_port()}", stream="ORDERS", subjects=["orders.a"])
    with pytest.raises(EndpointAway, match="no servers available"):
        async with asyncio.timeout(30):
            await broker.client("orders").probe()


async def test_a_kafka_broker_that_is_away_is_told_by_us_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """librdkafka would write twenty lines a second to standard error."""
    client = Kafka(f"127.0.0.1:{free_port()}", topic="orders").client("orders")
    with pytest.raises(EndpointAway, match="topic orders"):
        await client.probe()
    await client.close()
    assert capfd.readouterr().err == ""
