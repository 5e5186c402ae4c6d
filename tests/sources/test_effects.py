"""Each kind of effect, exactly once: 10,000 records, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from brokers import NatsServer
from mainspring import Untouched, Update
from mainspring.sources import Advance, Delete, Edit, Enqueue, Put, Record, Signal
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import Feed, NatsFeed, Sources


@dataclass
class Draft:
    title: str
    edits: int = 0


async def test_ten_thousand_records_have_each_effect_once(feed: Feed, sources: Sources) -> None:
    """Invariants 10 and 11, without a crash: counts are equal, for calls, params, signals and documents."""
    app, count = sources.app, 10_000

    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    loaded = app.data("dwh").param("loaded", kind="integer")
    drafts = app.documents("draft", model=Draft)
    paid, stopped = app.signal("paid", int), app.signal("stopped", int)

    @app.task
    async def ship(order: int) -> None: ...

    @app.process
    def fulfil(order: int) -> None:
        ship(stopped.wait(timeout=timedelta(days=7)))

    def to(record: Record) -> Sequence[Any]:
        n = record.json()
        found: list[Any] = [Enqueue(charge.bind(n)), Advance(loaded, n)]
        if n % 100 == 0:
            found.append(Signal(fulfil, "7", paid, n))
        if n % 10 == 0:
            found.append(Put(drafts, n % 500, Draft(str(n))))
        return found

    app.source("orders", feed.broker(), to=to)
    await feed.put(range(count // 2), part=0)
    await feed.put(range(count // 2, count), part=1)
    await app.migrate()
    await fulfil.options(id="7").start(7)
    async with app.worker(**FAST_SETTINGS):
        calls = "select count(*) from mainspring.visit where queue = 'charge'"
        await wait_until(lambda: sources.value(calls) == count, 60)
        await wait_until(lambda: sum(sources.offsets().values()) >= count, 20)
    assert sources.value("select num from mainspring.param") == count - 1
    assert sources.count("mainspring.signal") == count // 100
    assert sources.count("mainspring.document") == 50
    payloads = sources.query(
        "select payload ->> 'order' as n from mainspring.visit where queue = 'charge'"
    )
    assert sorted(int(row["n"]) for row in payloads) == list(range(count))


async def test_effects_of_documents_keep_the_order_of_their_records(
    nats: NatsServer, sources: Sources
) -> None:
    """Puts, edits and deletes of one document, in one batch or in many."""
    app, feed = sources.app, NatsFeed(nats)
    drafts = app.documents("draft", model=Draft)
    await feed.put(["put", "edit", "edit", "delete", "put", "edit", "stay"])

    def grown(draft: Draft) -> Update:
        return Update(edits=draft.edits + 1)

    def to(record: Record) -> Any:
        match record.json():
            case "put":
                return Put(drafts, 1, Draft(str(record.offset)))
            case "edit":
                return Edit(drafts, 1, grown)
            case "delete":
                return Delete(drafts, 1)
            case _:
                return Edit(drafts, 1, lambda draft: Untouched())

    app.source("drafts", feed.broker(), to=to)
    await app.migrate()
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: max(sources.offsets().values(), default=0) == 8, 20)
    found = await drafts.get(1)
    assert found is not None
    assert found[0] == Draft("5", edits=1)


async def test_a_signal_to_nobody_is_let_go_only_where_the_effect_says_so(
    nats: NatsServer, sources: Sources
) -> None:
    app, feed = sources.app, NatsFeed(nats)
    paid = app.signal("paid", int)

    @app.process
    def fulfil(order: int) -> None: ...

    def to(record: Record) -> Signal:
        return Signal("fulfil", "nobody", "paid", 1, required=record.json() != "late")

    app.source("orders", feed.broker(), to=to)
    await feed.put(["late", "early", "late"])
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked("ORDERS/orders.0")
    assert paid.name == "paid"
    assert "ORDERS/orders.0 offset 2" in row["error"]
    assert "no open process of type 'fulfil'" in row["error"]
    assert "nobody" not in row["error"]
    assert sources.offsets()["ORDERS/orders.0"] == 2
