"""Events to a real NATS server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import nats as client
import pytest

from brokers import NatsServer, free_port
from mainspring import Update
from mainspring.errors import EndpointAway, InvalidSetting
from mainspring.sinks import Nats
from mainspring.sinks import nats as nats_sink
from mainspring.sinks.nats import escape
from mainspring.testing import wait_until
from sinks.test_record import event
from stages import Stages
from tcp_proxy import tcp_proxy


async def received(server: NatsServer, count: int) -> list[Any]:
    """The first messages of the stream."""
    connection = await client.connect(server.url)
    try:
        stream = connection.jetstream()
        held = (await stream.stream_info("shop")).state.messages
        assert held == count
        return [await stream.get_msg("shop", number) for number in range(1, count + 1)]
    finally:
        await connection.close()


def sink(server: NatsServer, **settings: Any) -> Nats:
    return Nats(server.url, subject="shop", stream="shop", create=True, **settings)


async def test_what_was_saved_comes_in_order_of_each_entity(
    stages: Stages, nats: NatsServer
) -> None:
    """S7: from a row's change to the stream, by a worker."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("nats", sink(nats))
    await stages.install()
    stages.add(1, 2, 3, price=1)
    async with stages.app.worker():
        await wait_until(lambda: all(stages.listing(i)["rank"] == 1 for i in (1, 2, 3)), 20)
        for n in range(2, 5):
            stages.query("update listing set price = %s", n)
            await wait_until(lambda n=n: all(stages.listing(i)["rank"] == n for i in (1, 2, 3)), 20)
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 20)
    messages = await received(nats, 12)
    for id in (1, 2, 3):
        own = [m for m in messages if m.subject == f"shop.listing.{id}"]
        assert [json.loads(m.data)["entity"]["rank"] for m in own] == [1, 2, 3, 4]
        numbers = [m.headers["ce-sequence"] for m in own]
        assert numbers == sorted(numbers)
        assert own[0].headers["ce-type"] == "listing.saved"


async def test_the_same_event_sent_twice_is_kept_once(nats: NatsServer) -> None:
    target = sink(nats)
    try:
        await target.send(event())
        await target.send(event())
        await target.send(event(number=43))
        found = await received(nats, 2)
        assert [m.headers["ce-id"] for m in found] == ["42", "43"]
    finally:
        await target.close()


async def test_a_connection_that_gives_itself_up_is_closed_whole(nats: NatsServer) -> None:
    """What nats-py is still ending, because no server is there, is waited for."""
    target = sink(nats, options={"reconnect_time_wait": 0.01})
    await target.send(event())
    connection = target._client
    assert connection is not None
    nats.kill()
    while not connection.is_closed:  # at the very moment that it says so
        await asyncio.sleep(0)
    await target.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.002, 0.004, 0.008])
async def test_a_connection_that_is_given_up_on_the_way_leaves_nothing(
    nats: NatsServer, seconds: float
) -> None:
    target = sink(nats)
    with suppress(TimeoutError):
        await asyncio.wait_for(target.send(event()), seconds)
    await target.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_options_of_the_user_s_come_before_ours(nats: NatsServer) -> None:
    options: dict[str, object] = {"name": "shop", "connect_timeout": 2}
    target = sink(nats, options=options)
    try:
        await target.send(event())
        assert target._client is not None
        assert target._client.options["name"] == "shop"
    finally:
        await target.close()


async def test_a_server_that_is_killed_holds_events_up_and_loses_none(
    stages: Stages, nats: NatsServer
) -> None:
    """S7: away is one fact: no attempt is counted, saves go on, all events come after."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("nats", sink(nats))
    await stages.install()
    stages.add(1, price=1)
    async with stages.app.worker():
        await wait_until(lambda: stages.listing()["rank"] == 1, 20)
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 20)
        nats.kill()
        for n in range(2, 6):
            stages.change(price=n)
            await wait_until(lambda n=n: stages.listing()["rank"] == n, 20)
        # Not by the visit's error: an event that is saved while its run fails makes it a new one.
        away = "select away::text as away from mainspring.worker where away <> '[]'"
        await wait_until(lambda: "nats 127.0.0.1" in str(stages.query(away)), 30)
        row = stages.visit("listing!nats")
        assert row is not None
        assert (row["attempt"], row["parked_at"]) == (0, None)
        nats.start()
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 60)
    found = await received(nats, 5)
    assert [json.loads(m.data)["entity"]["rank"] for m in found] == [1, 2, 3, 4, 5]
    assert not [h for h in stages.history("listing!nats") if h["outcome"] != "done"]


async def test_a_missing_stream_is_away_and_named(nats: NatsServer) -> None:
    target = Nats(nats.url, subject="shop")
    try:
        with pytest.raises(EndpointAway, match=r"no stream takes shop\.listing\.1"):
            await target.send(event())
        with pytest.raises(EndpointAway, match="no stream takes its subjects"):
            await target.probe()
    finally:
        await target.close()


async def test_a_server_that_is_not_there_is_away() -> None:
    target = Nats(f"nats://127.0.0.1:{free_port()}", subject="shop")
    with pytest.raises(EndpointAway, match="nats 127"):
        await asyncio.wait_for(target.send(event()), 30)
    await target.close()


async def test_an_event_that_is_too_large_is_sent_slim_where_asked(nats: NatsServer) -> None:
    target = sink(nats, large="slim")
    try:
        await target.send(event(body=json.dumps({"entity": {"text": "x" * 2_000_000}})))
        [message] = await received(nats, 1)
        assert (message.data, message.headers["ce-slim"]) == (b"{}", "true")
    finally:
        await target.close()


@pytest.mark.parametrize(
    ("id", "token"),
    [
        ("7", "7"),
        ("a.b", "a%2Eb"),
        ("*", "%2A"),
        ("a b>", "a%20b%3E"),
        ("é", "%C3%A9"),
        ("%", "%25"),
    ],
)
def test_any_id_is_one_token_of_a_subject(id: str, token: str) -> None:
    """S25"""
    assert escape(id) == token


@pytest.mark.parametrize("subject", ["", "a..b", "a.*", "a b", ".a"])
def test_a_bad_subject_is_refused(subject: str) -> None:
    with pytest.raises(InvalidSetting, match="subject must be words"):
        Nats("nats://127.0.0.1:1", subject=subject)


async def test_a_connection_that_goes_while_the_stream_is_made_is_the_server_s_absence(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7: no attempt of the event, and nothing is left open."""
    monkeypatch.setattr(nats_sink, "ACK_SECONDS", 0.5)
    host, _, port = nats.url.removeprefix("nats://").partition(":")
    with tcp_proxy(host, int(port)) as proxy:
        proxy.cut_when(lambda _, data: b"STREAM.CREATE" in data)
        target = Nats(f"nats://{proxy.address}", subject="shop", stream="shop", create=True)
        with pytest.raises(EndpointAway):
            await target.send(event())
        proxy.cut_when(None)
        await target.send(event())
        await target.close()
    assert len(await received(nats, 1)) == 1
