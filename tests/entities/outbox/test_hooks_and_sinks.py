"""S7 from end to end: what a stage saves comes to its hook and to sinks, and nothing else does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import RetryPolicy, Saved, Untouched, Update
from mainspring.errors import UndeclaredField
from mainspring.testing import wait_until

QUICK = RetryPolicy(attempts=2, first=0.01, most=0.01)


class Price:
    """Copies the price into rank, counts in its state, and notes what came after the save."""

    def __init__(self) -> None:
        self.got: list[Saved] = []

    def should_process(self, entity: Any, state: Any) -> bool:
        return bool(entity["rank"] != entity["price"])

    async def process(self, entity: Any, state: Any) -> Untouched | Update:
        return Update(rank=entity["price"], state=(state or 0) + 1)

    async def saved(self, event: Saved) -> None:
        self.got.append(event)


def facts(event: Saved) -> tuple[Any, ...]:
    return (event.what, event.id, event.entity["rank"], event.state, event.entity_version)


async def test_a_save_comes_to_the_hook_and_to_the_sink_with_both_versions(stages):
    """S7"""
    kind, price, sunk = stages.kind(), Price(), []
    kind.stage(name="Price", interest=["price"])(price)
    kind.stage(lambda entity: Update(hits=1), name="Quiet", interest=["title"])
    kind.sink("sink", sunk.append)
    await stages.install()
    stages.add(1, price=7)

    await stages.run()
    stages.change(price=9)
    await stages.run()

    assert [facts(event) for event in price.got] == [
        ("saved", 1, 7, 1, price.got[0].entity_version),
        ("saved", 1, 9, 2, price.got[1].entity_version),
    ]
    assert price.got[0].changed["rank"] == [0, 7]
    assert price.got[1].state_version > price.got[0].state_version
    assert [event.stage for event in sunk if event.stage == "Quiet"] == ["Quiet"]
    assert [e.number for e in sunk] == sorted(e.number for e in sunk)
    assert {e.number for e in price.got} < {e.number for e in sunk}
    assert stages.events() == []


async def test_a_state_alone_is_an_event_whoever_replaces_it(stages):
    """S7, S11: a save of state alone, and a compare-and-set from outside."""
    kind, got = stages.kind(), []

    class Count:
        def should_process(self, entity: Any, state: Any) -> bool:
            return state is None

        async def process(self, entity: Any, state: Any) -> Untouched:
            return Untouched(state=1) if state is None else Untouched()

        async def saved(self, event: Saved) -> None:
            got.append(("saved", event.what, event.state))

        def state_changed(self, event: Saved) -> None:
            got.append(("state_changed", event.what, event.state))

    kind.stage(name="Count", state=int)(Count())
    await stages.install()
    stages.add(1)
    await stages.run()

    _, version = await kind.state("Count", 1)
    assert await kind.set_state("Count", 1, 41, version) is True
    assert await kind.set_state("Count", 1, 42, version) is False
    await stages.run()

    assert got == [("saved", "state", 1), ("state_changed", "state", 41)]


async def test_nothing_is_announced_that_was_not_saved(stages):
    """S7: a save that a user's trigger vetoes, and one that a conflict undoes."""
    kind, price = stages.kind(), Price()
    kind.stage(name="Price", interest=["price"], retry=QUICK)(price)
    await stages.install()
    stages.query(
        "create function veto() returns trigger language plpgsql as $$ begin "
        "if new.rank = 13 then return null; end if; return new; end $$"
    )
    stages.query(
        "create trigger a_veto before update on listing for each row execute function veto()"
    )
    stages.add(1, price=13)
    stages.add(2, price=5)

    async with stages.working():
        await wait_until(lambda: bool((stages.visit("listing/Price", 1) or {}).get("parked_at")))
        await wait_until(lambda: bool(price.got))

    assert [event.id for event in price.got] == [2]
    assert stages.events(1) == []
    assert stages.state("Price", 1) is None


async def test_a_delete_comes_after_what_was_not_delivered_yet(stages):
    """S21: it ends visits and states; events that wait are still delivered, the delete last."""
    kind, got, gate = stages.kind(), [], asyncio.Event()

    class Slow(Price):
        async def saved(self, event: Saved) -> None:
            await gate.wait()
            got.append((event.what, event.id, event.number))

        async def deleted(self, event: Saved) -> None:
            got.append((event.what, event.id, event.number))

    kind.stage(name="Slow", interest=["price"])(Slow())
    await stages.install()
    stages.add(1, price=7)
    async with stages.working():
        await wait_until(lambda: stages.listing()["rank"] == 7)
        stages.query("delete from listing where id = 1")
        assert stages.state("Slow") is None
        gate.set()
        await wait_until(lambda: len(got) == 2)
        await wait_until(lambda: stages.queues() == [])

    assert [(what, id) for what, id, _ in got] == [("saved", 1), ("deleted", 1)]
    assert got[0][2] < got[1][2]


async def test_an_idempotency_key_never_comes_back_after_delete_and_create(stages):
    """S7 (trap 25): versions begin anew, event numbers do not."""
    kind, price = stages.kind(), Price()
    kind.stage(name="Price", interest=["price"])(price)
    await stages.install()
    for _ in range(2):
        stages.add(1, price=7)
        await stages.run()
        stages.query("delete from listing")
        await stages.run()

    first, second = price.got
    assert first.entity_version == second.entity_version
    assert first.idempotency_key != second.idempotency_key
    assert first.number < second.number


async def test_saved_hears_what_its_own_stage_saved_and_a_sink_hears_all(stages):
    """S7: deletes and outside changes of state have hooks of their own; unheard, they are over."""
    kind, price, sent = stages.kind(), Price(), []

    async def send(event: Saved) -> None:
        sent.append((event.what, event.outside))

    kind.stage(name="Price", interest=["price"], state=int)(price)
    kind.sink("copy", send)
    await stages.install()
    stages.add(1, price=7)
    await stages.run()
    _, version = await kind.state("Price", 1)
    assert await kind.set_state("Price", 1, 41, version) is True
    await stages.run()
    saves = len(price.got)
    stages.query("delete from listing")
    await stages.run()

    assert {event.what for event in price.got} == {"saved"}
    assert len(price.got) == saves
    assert ("state", True) in sent
    assert sent[-1] == ("deleted", False)
    assert stages.query("select * from mainspring.delivery") == []


async def test_numbers_are_drawn_under_the_lock_of_the_entity(stages):
    """S7 (trap 23): a save of state alone waits for whoever has the entity's row."""
    kind = stages.kind()

    class Note:
        async def process(self, entity: Any, state: Any) -> Untouched:
            return Untouched(state=1)

        async def saved(self, event: Saved) -> None:
            pass

    kind.stage(name="Note", state=int)(Note())
    await stages.install()
    stages.add(1)
    saves = "select count(*) from mainspring.state"
    with stages.transaction() as writer:
        writer.execute("select 1 from listing where id = 1 for no key update")
        async with stages.working() as worker:
            await wait_until(lambda: worker.settler.unsettled > 0)
            before = stages.value("select last_value from mainspring.event_number")
            await wait_until(lambda: worker.settler._locked != [])
            assert stages.value(saves) == 0
            assert stages.value("select last_value from mainspring.event_number") == before
            writer.rollback()
            await wait_until(lambda: stages.value(saves) == 1)
            await stages.rest(worker)


async def test_sequences_hand_out_one_number_at_a_time(stages):
    """S7 (trap 23): cached numbers would be used out of order."""
    rows = stages.query(
        "select sequencename, cache_size from pg_sequences where schemaname = 'mainspring'"
    )
    sizes = {row["sequencename"]: row["cache_size"] for row in rows}

    assert (sizes["event_number"], sizes["state_version"]) == (1, 1)


async def test_numbers_jump_ahead_when_the_server_s_timeline_has_changed(stages):
    """S7 (trap 24): a standby that missed commits would hand them out again."""
    kind, price = stages.kind(), Price()
    kind.stage(name="Price", interest=["price"])(price)
    await stages.install()
    stages.add(1, price=7)
    await stages.run()
    stages.query(
        "update mainspring.install set timeline = timeline - 1"
    )  # as another server had it

    stages.change(price=9)
    await stages.run()
    stages.change(price=11)
    await stages.run()

    first, second, third = [event.number for event in price.got]
    assert second - first > 1_000_000
    assert third - second < 1_000
    assert price.got[1].state_version - price.got[0].state_version > 1_000_000


@pytest.mark.parametrize("slow", ["hook", "sink"])
async def test_a_slow_or_failing_consumer_holds_up_neither_stages_nor_others(stages, slow):
    """S7: relays take no turn of the entity."""
    kind, gate, got = stages.kind(), asyncio.Event(), []

    async def consume(name: str, event: Saved) -> None:
        if name == slow:
            await gate.wait()
        got.append((name, event.entity["rank"]))

    class Hooked(Price):
        async def saved(self, event: Saved) -> None:
            await consume("hook", event)

    async def send(event: Saved) -> None:
        await consume("sink", event)

    kind.stage(name="Hooked", interest=["price"])(Hooked())
    kind.sink("sink", send)
    await stages.install()
    stages.add(1, price=1)
    other = "sink" if slow == "hook" else "hook"

    async with stages.working() as worker:
        for price in (1, 2, 3):
            stages.change(price=price)
            await wait_until(lambda p=price: stages.listing()["rank"] == p)
            await wait_until(lambda p=price: (other, p) in got)
        assert [name for name, _ in got] == [other] * 3
        gate.set()
        await wait_until(lambda: len(got) == 6)
        await stages.rest(worker)

    assert [rank for name, rank in got if name == slow] == [1, 2, 3]


async def test_a_hook_gets_what_its_stage_declares_where_the_row_does_not_fit_the_whole_model(
    stages,
):
    """S7: the stage ran on that part, so what it saved is announced to it all the same."""

    @dataclass
    class Strict:
        id: int
        title: str
        note: str  # null in the table
        price: int

    got = []
    kind = stages.kind(model=Strict)

    @kind.stage(reads=["title"], writes=["price"])
    class Price:
        async def process(self, found, state):
            return Update(price=len(found.title))

        async def saved(self, event):
            got.append((event.entity.title, event.entity.price))
            with pytest.raises(UndeclaredField, match="stage 'Price' looks at 'note'"):
                _ = event.entity.note

    await stages.install()
    stages.add(1, title="four")
    await stages.run()

    assert got == [("four", 4)]


async def test_every_combination_of_hooks_hears_its_own_events_and_leaves_nothing(stages):
    """S7: stages with any of the three hooks, each beside a sink that hears all of them."""
    kind, heard, sunk = stages.kind(), [], []
    hooks = ("saved", "state_changed", "deleted")
    chosen = [[h for n, h in enumerate(hooks) if bits >> n & 1] for bits in range(8)]

    async def process(self: Any, entity: Any, state: Any) -> Untouched:
        return Untouched(state=1) if state is None else Untouched()

    def hearing(stage: str, hook: str) -> Any:
        return lambda self, event: heard.append((stage, hook, event.what, event.stage))

    for n, names in enumerate(chosen):
        methods = {name: hearing(f"Stage{n}", name) for name in names}
        made = type(f"Stage{n}", (), {"process": process, **methods})
        kind.stage(name=f"Stage{n}", state=int)(made())
    kind.sink("copy", lambda event: sunk.append((event.what, event.stage, event.outside)))
    await stages.install()
    stages.add(1)
    await stages.run()
    for n in range(8):
        _, version = await kind.state(f"Stage{n}", 1)
        assert await kind.set_state(f"Stage{n}", 1, 41, version) is True
    stages.query("delete from listing")
    await stages.run()

    told = {
        "saved": lambda stage: ("state", stage),
        "state_changed": lambda stage: ("state", stage),
        "deleted": lambda stage: ("deleted", None),
    }
    for n, names in enumerate(chosen):
        stage = f"Stage{n}"
        assert [e[1:] for e in heard if e[0] == stage] == [(h, *told[h](stage)) for h in names]
    own = [("state", f"Stage{n}", outside) for n in range(8) for outside in (False, True)]
    assert sorted(sunk[:-1]) == sorted(own)
    assert sunk[-1] == ("deleted", None, False)
    assert stages.query("select * from mainspring.delivery") == []


async def test_what_nobody_hears_need_not_be_readable(stages):
    """S7: the delete of a row that does not fit its model; only `saved` is there, so it is over."""

    @dataclass
    class Strict:
        id: int
        note: str  # null in the table

    kind = stages.kind(model=Strict)

    @kind.stage(retry=RetryPolicy(attempts=1))
    class Price:
        async def process(self, found, state):
            return Untouched()

        async def saved(self, event):
            raise AssertionError("nothing was saved")

    await stages.install()
    stages.add(1)
    stages.query("delete from listing")
    await stages.run()

    assert stages.queues() == []
    assert stages.query("select * from mainspring.delivery") == []
