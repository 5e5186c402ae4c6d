"""The relay: what was saved comes to its consumers, at least once and in order (S7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from outbox import Outbox

from mainspring import Kind, Mainspring, RetryPolicy, Saved, Untouched
from mainspring.db.database import Database
from mainspring.db.shared import SharedConnections
from mainspring.entities.declare import consumer as consumers
from mainspring.entities.outbox.relay import Relay
from mainspring.errors import InvalidStage, NotFound
from mainspring.testing import wait_until, watch
from workers import working

QUICK = RetryPolicy(attempts=3, first=0.01, most=0.01)


@dataclass(frozen=True)
class Box:
    id: int
    a: int = 0


def box_kind(url: str) -> Kind:
    return Mainspring(url).entities("box", table="public.box", model=Box)


def hook(
    kind: Kind,
    call: Callable[[Saved], Any],
    name: str = "Stage",
    hears: str = "saved",
    **settings: Any,
) -> None:
    """A stage that is there for its hook."""

    class Stage:
        def process(self, entity: Any, state: Any) -> Untouched:
            return Untouched()

    stage = Stage()
    setattr(stage, hears, call)
    kind.stage(name=name, retry=QUICK, **settings)(stage)


@asynccontextmanager
async def relaying(url: str, kind: Kind, **settings: Any) -> AsyncIterator[Any]:
    connections = SharedConnections(Database(url), 1)
    relay = Relay(connections.line(), [kind])
    async with working(url, *relay.queues(), **settings) as worker:
        yield worker
    await relay.close()
    await connections.close()


def parked(outbox: Outbox) -> list[Any]:
    return outbox.query(
        "select queue, key, error from mainspring.visit where parked_at is not null order by 1, 2"
    )


async def test_a_hook_gets_what_was_saved_in_order_and_nothing_is_left(mainspring_url):
    """S7"""
    got: list[Saved] = []
    kind = box_kind(mainspring_url)

    async def saved(event: Saved) -> None:
        got.append(event)

    hook(kind, saved)
    outbox = Outbox(mainspring_url, "Stage")
    numbers = [outbox.save("1", a=n) for n in range(3)]

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert [event.number for event in got] == numbers
    assert [event.entity for event in got] == [Box(1, n) for n in range(3)]
    first = got[0]
    assert (first.kind, first.id, first.consumer, first.stage) == ("box", 1, "Stage", "Stage")
    assert first.idempotency_key == f"Stage:{numbers[0]}"


async def test_more_events_than_one_run_takes_come_in_order_too(mainspring_url, monkeypatch):
    """S7"""
    monkeypatch.setattr("mainspring.entities.outbox.relay.EVENTS_AT_ONCE", 10)
    got: list[int] = []
    kind = box_kind(mainspring_url)

    def saved(event: Saved) -> None:
        got.append(event.number)  # a plain function, in a thread

    hook(kind, saved)
    outbox = Outbox(mainspring_url, "Stage")
    numbers = [outbox.save("1", a=n) for n in range(21)]

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert got == numbers


async def test_a_failing_event_holds_up_its_entity_and_consumer_only(mainspring_url):
    """S7: others go on; what was delivered before it is not delivered again."""
    got: list[tuple[str, Any, int]] = []
    kind = box_kind(mainspring_url)
    good: list[int] = []

    async def saved(event: Saved) -> None:
        got.append(("Stage", event.id, event.entity.a))
        if event.entity.a == 13 and not good:
            raise ValueError("no 13")

    async def send(event: Saved) -> None:
        got.append(("sink", event.id, event.entity.a))

    hook(kind, saved)
    kind.sink("sink", send)
    outbox = Outbox(mainspring_url, "Stage", sinks=("sink",))
    for a in (1, 13, 2):
        outbox.save("1", a=a)
    outbox.save("2", a=3)

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: bool(parked(outbox)))
        await wait_until(lambda: outbox.left == (2, 2, 1))
        assert [c for c in got if c[0] == "sink" and c[1] == 1] == [
            ("sink", 1, a) for a in (1, 13, 2)
        ]
        assert ("Stage", 2, 3) in got
        assert got.count(("Stage", 1, 1)) == 1
        assert ("Stage", 1, 2) not in got
        ((queue, key, error),) = parked(outbox)
        assert (queue, key) == ("box!Stage", "1")
        assert "no 13" in error

        good.append(1)
        outbox.query(
            "update mainspring.visit set parked_at = null, attempt = 0, due_at = mainspring.now()"
        )
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert [c[2] for c in got if c[0] == "Stage" and c[1] == 1][-2:] == [13, 2]


async def test_an_event_that_comes_while_others_are_delivered_is_not_lost(mainspring_url):
    """S7, S23: the visit that was offered again stays due."""
    got: list[int] = []
    kind = box_kind(mainspring_url)
    gate, entered = asyncio.Event(), asyncio.Event()

    async def saved(event: Saved) -> None:
        got.append(event.number)
        entered.set()
        await gate.wait()

    hook(kind, saved)
    outbox = Outbox(mainspring_url, "Stage")
    first = outbox.save("1")

    async with relaying(mainspring_url, kind):
        await asyncio.wait_for(entered.wait(), 5)
        second = outbox.save("1")
        gate.set()
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert got == [first, second]


async def test_a_lost_answer_delivers_nothing_out_of_order(mainspring_url):
    """S7: a settle that is sent twice acknowledges once."""
    got: list[int] = []
    kind = box_kind(mainspring_url)

    async def saved(event: Saved) -> None:
        got.append(event.number)

    hook(kind, saved)
    outbox = Outbox(mainspring_url, "Stage")
    numbers = [outbox.save(str(key)) for key in (1, 1, 2, 2, 3)]
    failures = iter([ConnectionError("cut"), ConnectionError("cut")])

    def cut() -> None:
        if error := next(failures, None):
            raise error

    async with watch() as seen:
        seen.at("settle.answered", cut)
        async with relaying(mainspring_url, kind):
            await wait_until(lambda: outbox.left == (0, 0, 0))

    assert sorted(set(got)) == numbers


async def test_the_last_of_two_consumers_deletes_the_event(mainspring_url):
    """S7: both acknowledge the same event at once."""
    kind = box_kind(mainspring_url)
    outbox = Outbox(mainspring_url, "One", "Two", sinks=("three",))
    for name in ("One", "Two"):
        hook(kind, lambda event: None, name)
    kind.sink("three", lambda event: None)
    for n in range(40):
        outbox.save(str(n % 7))

    async with relaying(mainspring_url, kind), relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0), 20)


async def test_an_event_of_a_deleted_entity_is_still_delivered(mainspring_url):
    """S21"""
    got: list[Saved] = []
    kind = box_kind(mainspring_url)
    hook(kind, got.append, hears="deleted")
    outbox = Outbox(mainspring_url, "Stage")
    outbox.save("7")
    outbox.query("update mainspring.event set what = 'deleted', stage = null, body = null")

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    (event,) = got
    assert (event.what, event.id, event.entity, event.stage) == ("deleted", 7, None, None)


async def test_an_id_has_the_type_that_the_model_gives_to_its_column(mainspring_url):
    """S25: under another name in the code too, and where there is no row any more to tell it."""

    class Renamed(msgspec.Struct):
        number: int = msgspec.field(name="id")

    got: list[Saved] = []
    kind = Mainspring(mainspring_url).entities("box", table="public.box", model=Renamed)
    hook(kind, got.append, hears="deleted")
    outbox = Outbox(mainspring_url, "Stage")
    outbox.save("7")
    outbox.query("update mainspring.event set what = 'deleted', stage = null, body = null")

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert [event.id for event in got] == [7]


async def test_the_part_of_a_model_that_a_hook_gets_is_made_once(mainspring_url):
    """S7: made for each event, it would cost fifty times as much as the event."""
    got: list[Saved] = []
    kind = box_kind(mainspring_url)
    hook(kind, got.append, reads=["id"])
    outbox = Outbox(mainspring_url, "Stage")
    for key in ("1", "2"):
        outbox.save(key, a="no number")

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert len({type(event.entity) for event in got}) == 1
    assert sorted(event.entity.id for event in got) == [1, 2]


async def test_an_event_key_does_not_repeat_after_delete_and_create(mainspring_url):
    """S7: it is the event's number; versions begin anew (trap 25)."""
    got: list[Saved] = []
    kind = box_kind(mainspring_url)
    hook(kind, got.append)
    outbox = Outbox(mainspring_url, "Stage")
    for _ in range(2):  # version 1 both times
        outbox.save("7")

    async with relaying(mainspring_url, kind):
        await wait_until(lambda: outbox.left == (0, 0, 0))

    assert [event.entity_version for event in got] == [1, 1]
    assert len({event.idempotency_key for event in got}) == 2


async def test_consumers_are_registered_and_retired(mainspring_url):
    """S7"""
    kind = box_kind(mainspring_url)
    hook(kind, lambda event: None)
    kind.sink("sink", lambda event: None)
    outbox = Outbox(mainspring_url)
    connection = await Database(mainspring_url).connect("test")
    try:
        for _ in range(2):
            await consumers.register(connection, kind.consumers)
        listed = outbox.query("select name, declared from mainspring.consumer order by 1")
        outbox.names = ["Stage", "sink"]
        outbox.save("1")

        async with connection.transaction():
            dropped = await consumers.retire(connection, "box", "sink")
        with pytest.raises(NotFound, match="no consumer 'Stagee'; did you mean 'Stage'"):
            await consumers.retire(connection, "box", "Stagee")
    finally:
        await connection.close()

    assert listed == [("Stage", {"stage": "Stage"}), ("sink", {"sink": True})]
    assert dropped == 1
    assert outbox.left == (1, 1, 1)


def test_a_sink_needs_a_free_name_and_something_to_call(mainspring_url):
    kind = box_kind(mainspring_url)
    kind.sink("sink", lambda event: None)

    with pytest.raises(InvalidStage, match="has a stage or a sink named 'sink' already"):
        kind.sink("sink", lambda event: None)
    with pytest.raises(InvalidStage, match="must be an object with send"):
        kind.sink("other", 7)  # type: ignore[arg-type]
    with pytest.raises(InvalidStage, match="without '/'"):
        kind.sink("a/b", lambda event: None)
