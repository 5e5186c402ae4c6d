"""A real broker behind a proxy that cuts, stalls or half-closes; one that is away; a refused event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brokers import NatsServer
from mainspring import RetryPolicy, Saved, Update
from mainspring.sinks import Nats
from mainspring.sinks import nats as nats_sink
from mainspring.testing import Clock, wait_until
from sinks.test_nats import received
from stages import Stages
from tcp_proxy import TcpProxy, tcp_proxy

IDS = range(1, 9)
ROUNDS = 4


@pytest.fixture
def proxy(nats: NatsServer) -> Iterator[TcpProxy]:
    with tcp_proxy("127.0.0.1", nats.port) as found:
        yield found


class Other:
    """Another consumer of the same events: whatever the broker does, it has them."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int]] = []

    async def send(self, event: Saved) -> None:
        self.got.append((event.id, event.number))


def declare(stages: Stages, address: str, **settings: Any) -> Other:
    kind, other = stages.kind(), Other()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    target = Nats(f"nats://{address}", subject="shop", stream="shop", create=True, **settings)
    kind.sink("broker", target, retry=RetryPolicy(attempts=3, first=0.05, most=0.05))
    kind.sink("other", other)
    return other


async def saved(stages: Stages, price: int) -> None:
    stages.query("update listing set price = %s", price)
    await wait_until(
        lambda: all(row["rank"] == price for row in stages.query("select rank from listing")), 30
    )


async def arrived(stages: Stages, nats: NatsServer, other: Other) -> None:
    """First arrivals per entity are all there are, in order; nothing failed, nothing is left."""
    await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 60)
    count = len(IDS) * ROUNDS
    messages = await received(nats, count)  # a repeat is dropped in the stream's window
    for id in IDS:
        own = [m for m in messages if m.subject == f"shop.listing.{id}"]
        numbers = [int(m.headers["ce-sequence"]) for m in own]
        assert numbers == sorted(numbers)
        assert [json.loads(m.data)["entity"]["rank"] for m in own] == list(range(1, ROUNDS + 1))
        assert [number for key, number in other.got if key == id] == numbers
    # "again": of several events that waited, some were taken before it broke.
    outcomes = {h["outcome"] for h in stages.query("select outcome from mainspring.history")}
    assert outcomes <= {"done", "again"}
    assert stages.query("select * from mainspring.violation") == []


def nth(n: int, direction: str, part: bytes) -> Callable[[str, bytes], bool]:
    """When bytes with a part go through for the nth time."""
    seen = 0

    def matches(where: str, data: bytes) -> bool:
        nonlocal seen
        if where == direction and part in data:
            seen += 1
            return seen == n
        return False

    return matches


@pytest.mark.parametrize(
    ("direction", "part", "n"),
    [
        ("to_server", b"CONNECT", 2),  # at its second connection
        ("to_server", b"HPUB", 3),  # a publish that does not arrive
        ("to_client", b'"seq"', 3),  # an acknowledgement that does not arrive
        ("to_client", b'"seq"', 1),
    ],
)
async def test_a_connection_cut_at_a_step_leaves_nothing_out(
    stages: Stages, nats: NatsServer, proxy: TcpProxy, direction: str, part: bytes, n: int
) -> None:
    """S7: what was not acknowledged is sent again, behind nothing of its entity."""
    other = declare(stages, proxy.address)
    await stages.install()
    stages.add(*IDS)
    proxy.cut_when(nth(n, direction, part))
    async with stages.app.worker():
        for price in range(1, ROUNDS + 1):
            await saved(stages, price)
            if price == 2:
                proxy.cut()
        await arrived(stages, nats, other)


@pytest.mark.parametrize("direction", ["to_server", "to_client", "half"])
async def test_a_connection_that_stalls_is_given_up_and_nothing_is_left_out(
    stages: Stages,
    nats: NatsServer,
    proxy: TcpProxy,
    direction: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S7: nobody is waited for without end; the other consumer is not held up."""
    monkeypatch.setattr(nats_sink, "ACK_SECONDS", 0.5)
    monkeypatch.setattr(nats_sink, "CONNECT_SECONDS", 0.5)
    other = declare(stages, proxy.address)
    await stages.install()
    stages.add(*IDS)
    async with stages.app.worker():
        await saved(stages, 1)
        if direction == "half":
            proxy.half_close("to_server")
        else:
            proxy.stall(direction)
        for price in range(2, ROUNDS + 1):
            await saved(stages, price)
        await wait_until(lambda: len(other.got) == len(IDS) * ROUNDS, 30)
        if direction != "half":
            away = "select 1 from mainspring.worker where away <> '[]'"
            await wait_until(lambda: stages.query(away), 30)
        proxy.resume()
        await arrived(stages, nats, other)


async def test_a_broker_that_is_away_for_long_gets_all_of_it_in_order(
    stages: Stages, nats: NatsServer, proxy: TcpProxy, clock: Clock
) -> None:
    """S7: ten minutes: no attempt, no settle of its queue, nothing parked; then everything."""
    other = declare(stages, proxy.address)
    await stages.install()
    stages.add(*IDS)
    async with stages.app.worker():
        await saved(stages, 1)
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 30)
        proxy.refuse()
        for price in range(2, ROUNDS + 1):
            await saved(stages, price)
            await clock.advance(200)
        tried = (
            "select 1 from mainspring.visit where queue = 'listing!broker' "
            "and (attempt > 0 or parked_at is not null)"
        )
        assert stages.query(tried) == []
        proxy.accept()
        await arrived(stages, nats, other)


async def test_a_refused_first_event_is_never_overtaken_by_its_entity_s_next(
    stages: Stages, nats: NatsServer, proxy: TcpProxy
) -> None:
    """S7: it parks its entity alone; skipped, the next goes; restarted, it would be the first."""
    declare(stages, proxy.address)
    await stages.install()
    stages.add(*IDS)
    stages.query("update listing set note = repeat('x', 2000000) where id = 3")
    async with stages.app.worker():
        await saved(stages, 1)
        await wait_until(
            lambda: (stages.visit("listing!broker", 3) or {}).get("parked_at") is not None, 30
        )
        stages.query("update listing set note = null where id = 3")
        await saved(stages, 2)
        await wait_until(
            lambda: (
                {d["key"] for d in stages.query("select key from mainspring.delivery")} == {"3"}
            ),
            30,
        )
        messages = await received(nats, 2 * (len(IDS) - 1))
        assert not [m for m in messages if m.subject == "shop.listing.3"]
        await stages.app.operator.entities.skip("listing", 3, "broker")
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 30)
    last = (await received(nats, 2 * (len(IDS) - 1) + 1))[-1]
    assert json.loads(last.data)["entity"]["rank"] == 2
