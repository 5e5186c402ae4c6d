"""Records that cannot be mapped stop their partition, or are put aside; what is in them is never told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokers import NatsServer
from mainspring import Mainspring
from mainspring.errors import InvalidSetting, NotFound
from mainspring.sources import Advance, Enqueue, Record
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import Feed, NatsFeed, Sources

SECRET = "4111-1111"


class Order(msgspec.Struct):
    order: int


async def test_a_bad_record_stops_its_partition_alone_and_is_named(
    feed: Feed, sources: Sources
) -> None:
    """What came before it has its effects; the other partition goes on; mended code goes on from there."""
    app = sources.app

    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    def strict(record: Record) -> Enqueue:
        return Enqueue(charge.bind(record.json(Order).order))

    app.source("orders", feed.broker(), to=strict)
    await feed.put([{"order": 1}, {"order": 2}, {"order": SECRET}, {"order": 4}], part=0)
    await feed.put([{"order": 5}], part=1)
    calls = "select (payload ->> 'order')::int as n from mainspring.visit where queue = 'charge' order by 1"
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: [r["n"] for r in sources.query(calls)] == [1, 2, 5], 30)
        [first] = [p for p, n in sources.offsets().items() if p.endswith("0")]
        row = await sources.parked(first)
        await feed.put([{"order": 6}], part=1)
        await wait_until(lambda: [r["n"] for r in sources.query(calls)] == [1, 2, 5, 6], 30)
        offset = sources.offsets()[first]
        assert f"source 'orders', {first} offset {offset}: " in row["error"]
        assert "Expected `int`, got `str` - at `$.order`" in row["error"]
        assert SECRET not in row["error"]
        [cause] = (await app.operator.why("source/orders", first)).causes[:1]
        assert cause.name == "parked"
        assert f"offset {offset}" in cause.text
        [found] = [f for f in await app.operator.doctor() if f.name == "sources"]
        assert (found.level, SECRET in found.text) == ("bad", False)

    def lenient(record: Record) -> Enqueue | None:
        try:
            return strict(record)
        except msgspec.ValidationError:
            return None

    async with Mainspring(sources.url) as mended:
        mended.tasks[charge.name] = app.tasks[charge.name]
        mended.source("orders", feed.broker(), to=lenient)
        async with mended.worker(**FAST_SETTINGS):
            assert await mended.operator.sources.resume("orders") == [first]
            await wait_until(lambda: [r["n"] for r in sources.query(calls)] == [1, 2, 4, 5, 6], 30)


async def test_what_an_error_of_the_function_says_is_not_told(
    nats: NatsServer, sources: Sources
) -> None:
    """Of an error that is not ours only its type and its place: its text may be a value."""
    app, feed = sources.app, NatsFeed(nats)

    def to(record: Record) -> None:
        raise ValueError(f"what is {record.json()}?")

    app.source("orders", feed.broker(), to=to)
    await feed.put([SECRET])
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked("ORDERS/orders.0")
    assert row["error"].startswith(
        "source 'orders', ORDERS/orders.0 offset 1: ValueError in to (test_bad_records.py, line "
    )
    assert SECRET not in row["error"]


async def test_what_the_database_refuses_is_found_by_halves(
    nats: NatsServer, sources: Sources
) -> None:
    """One record of a batch has an effect that cannot be written: those before it are committed."""
    app, feed = sources.app, NatsFeed(nats)
    loaded = app.data("dwh").param("loaded", kind="integer")

    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    def to(record: Record) -> list[Any]:
        n = record.json()
        return [Enqueue(charge.bind(n)), Advance(loaded if n != 5 else "dwh.loadde", n)]

    app.source("orders", feed.broker(), to=to)
    await feed.put(range(9))
    async with app.worker(**FAST_SETTINGS):
        row = await sources.parked("ORDERS/orders.0")
    assert "offset 6: mainspring.errors.UnknownParam" in row["error"]
    assert sources.value("select count(*) from mainspring.visit where queue = 'charge'") == 5
    assert sources.offsets()["ORDERS/orders.0"] == 6


async def test_rejected_records_are_kept_whole_and_tried_again_or_dropped(
    feed: Feed, sources: Sources
) -> None:
    """on_error="reject": the partition goes on; each retry has its effects once."""
    app = sources.app
    takes_text = False

    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    def to(record: Record) -> Enqueue:
        value = record.json()
        return Enqueue(charge.bind(len(value) if takes_text and isinstance(value, str) else value))

    app.source("orders", feed.broker(), to=to, on_error="reject")
    await app.migrate()  # no worker registers that pool's queue
    await feed.put([1, "abc", 2, "abcd", 3], part=0)
    calls = "select (payload ->> 'order')::int as n from mainspring.visit where queue = 'charge'"
    orders = app.operator.sources
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: sources.count("mainspring.source_reject") == 2, 30)
        await wait_until(lambda: len(sources.query(calls)) == 3, 30)
        rejected = await orders.rejects("orders")
        assert [r.bytes for r in rejected] == [5, 6]
        assert "abc" not in rejected[0].error
        assert {p.rejects for p in await orders.partitions("orders")} >= {2}
        assert await orders.retry_rejects("orders") == 2
        await _find(sources)
        await wait_until(
            lambda: (
                not sources.query(
                    "select 1 from mainspring.source_reject where retry_at is not null"
                )
            ),
            30,
        )
        assert sources.count("mainspring.source_reject") == 2  # failed again, and stay
        takes_text = True
        await orders.retry_rejects("orders", offset=rejected[1].offset)
        await _find(sources)
        await wait_until(lambda: sources.count("mainspring.source_reject") == 1, 30)
        assert sorted(r["n"] for r in sources.query(calls)) == [1, 2, 3, 4]
        assert await orders.drop_rejects("orders") == 1
    assert sources.count("mainspring.source_reject") == 0
    assert len(sources.query(calls)) == 4


async def test_a_record_that_is_dropped_while_it_is_tried_again_stays_dropped(
    nats: NatsServer, sources: Sources
) -> None:
    """Whoever tried it, and failed, has nothing to put back."""
    app, tried = sources.app, 0

    def to(record: Record) -> None:
        nonlocal tried
        tried += 1
        if tried > 1:
            sources.query("delete from mainspring.source_reject")
        raise ValueError

    feed = NatsFeed(nats)
    app.source("orders", feed.broker(), to=to, on_error="reject")
    await app.migrate()
    await feed.put([1])
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: sources.count("mainspring.source_reject") == 1, 30)
        await app.operator.sources.retry_rejects("orders")
        await _find(sources)
        await wait_until(lambda: tried == 2, 30)
        looked = (
            "select 1 from mainspring.visit where key = '@partitions' and due_at > mainspring.now()"
        )
        await wait_until(lambda: bool(sources.query(looked)), 30)
    assert sources.count("mainspring.source_reject") == 0


async def _find(sources: Sources) -> None:
    """Have the partitions looked for now, not in half a minute."""
    sources.query(
        "select mainspring.offer_visits('source/orders', array['@partitions'], array['{}'::jsonb])"
    )


async def test_orders_reach_partitions_however_many_there_are(sources: Sources) -> None:
    """The last of many is found, and goes on when it had stopped."""
    await sources.app.migrate()
    sources.query(
        "insert into mainspring.source_offset (source, partition)"
        " select 'many', 'topic/' || to_char(i, 'FM0000') from generate_series(0, 600) i"
    )
    orders = sources.app.operator.sources
    assert await orders.seek("many", 7, "topic/0600") == ["topic/0600"]
    assert sources.offsets()["topic/0600"] == 7
    assert len(await orders.seek("many", "earliest")) == 601


async def test_a_source_that_is_not_known_is_named(sources: Sources) -> None:
    async with sources.app as app:
        with pytest.raises(NotFound, match="no source is named 'orders'; it is known when"):
            await app.operator.sources.pause("orders")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"name": "a b"}, "a source's name must be"),
        ({"on_error": "skip"}, "on_error must be 'stop' or 'reject', got 'skip'"),
        ({"start": "now"}, "start must be 'earliest', 'latest' or a datetime"),
        ({"to": 7}, "to must be a function of a record, got 7"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    app = Mainspring("postgresql://nobody")
    given = {"name": "orders", "broker": NatsFeed(None), "to": print} | settings  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match=text):
        app.source(given.pop("name"), given.pop("broker"), **given)


def test_a_source_is_declared_once() -> None:
    app = Mainspring("postgresql://nobody")
    app.source("orders", NatsFeed(None), to=print)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="source 'orders' is declared twice"):
        app.source("orders", NatsFeed(None), to=print)  # type: ignore[arg-type]
