"""Resends and replays: a consumer is told again what is, and what was (S7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from outbox import Outbox

from mainspring import Mainspring, Saved, Update
from mainspring.entities import replay, resend
from mainspring.errors import InvalidKind, InvalidSetting, InvalidStage, NotFound
from mainspring.jobs import operation
from mainspring.testing import wait_until
from stages import Stages


@pytest.fixture
def stages(database_url: str, app: Mainspring) -> Iterator[Stages]:
    found = Stages(database_url, app)
    yield found
    found.close()


class Sink:
    """Notes what it gets."""

    def __init__(self) -> None:
        self.got: list[Saved] = []

    async def send(self, event: Saved) -> None:
        self.got.append(event)

    def of(self, id: int) -> list[tuple[str, int]]:
        return [(e.what, e.entity["rank"] if e.entity else -1) for e in self.got if e.id == id]

    def numbers(self, id: int) -> list[int]:
        return [e.number for e in self.got if e.id == id]


def ranked(stages: Stages, **settings: Any) -> tuple[Any, Sink, Sink]:
    """A kind with a stage that has a state, and two sinks."""
    kind = stages.kind(**settings)

    def rank(entity: dict[str, Any]) -> Update:
        return Update(rank=entity["price"], state={"seen": entity["price"]})

    kind.stage(rank, name="Rank", interest=["price"], state=dict)
    first, second = Sink(), Sink()
    kind.sink("first", first)
    kind.sink("second", second)
    return kind, first, second


async def done(stages: Stages, id: int | None) -> None:
    assert id is not None

    def over() -> bool:
        state = stages.value("select state::text from mainspring.operation where id = %s", id)
        why = "select error from mainspring.operation where id = %s"
        assert state in ("running", "done"), stages.value(why, id)
        return bool(state == "done")

    await wait_until(over, 30)
    await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 30)


async def test_a_resend_tells_one_consumer_what_every_entity_is(
    stages: Stages, monkeypatch
) -> None:
    """S7: new numbers, the state with it; nobody else hears of it; nothing is left."""
    monkeypatch.setattr(operation, "PAGE", 3)
    kind, first, second = ranked(stages)
    await stages.install()
    stages.add(*range(1, 11), price=5)
    async with stages.working() as worker:
        await stages.rest(worker)
        stages.query("update listing set note = 'x' where id = 4")  # no stage saves it
        await stages.rest(worker)
        before = max(e.number for e in first.got)
        told = len(second.got)
        first.got.clear()
        begun = await kind.resend("first")
        assert begun.total == 10
        await done(stages, begun.id)
    assert len(second.got) == told
    assert {e.id for e in first.got} == set(range(1, 11))
    assert {e.what for e in first.got} == {"snapshot"}
    assert min(e.number for e in first.got) > before
    [four] = [e for e in first.got if e.id == 4]
    assert (four.entity["note"], four.state, four.stage) == ("x", {"seen": 5}, "Rank")
    assert (four.entity_version, four.state_version) != (None, None)
    assert stages.query("select number from mainspring.event") == []
    assert stages.query("select * from mainspring.violation") == []


async def test_a_snapshot_waits_for_a_save_and_says_what_that_left(stages: Stages) -> None:
    """S7: a snapshot with a higher number is never older by content than a save with a lower one."""
    kind, first, _ = ranked(stages)
    await stages.install()
    stages.add(1, price=5)
    async with stages.working() as worker:
        await stages.rest(worker)
        first.got.clear()
        with stages.transaction() as other:
            other.execute("update listing set note = 'late' where id = 1")
            begun = await kind.resend("first")
            waiting = (
                "select 1 from pg_stat_activity where wait_event_type = 'Lock' "
                "and query like '%%resend_entities%%'"
            )
            await wait_until(lambda: stages.query(waiting), 20)
        await done(stages, begun.id)
        await stages.rest(worker)
    assert first.got[0].entity["note"] == "late"


async def test_a_resend_waits_while_its_consumer_is_paused(stages: Stages, monkeypatch) -> None:
    """S7: it never fills the outbox with the whole base; it says what it waits for."""
    monkeypatch.setattr(operation, "PAGE", 2)
    kind, first, _ = ranked(stages)
    await stages.install()
    stages.add(*range(1, 13), price=5)
    async with stages.working() as worker:
        await stages.rest(worker)
        await stages.app.operator.pause("listing!first")
        first.got.clear()
        begun = await kind.resend("first", source="test")
        waits = "select error from mainspring.visit where queue = 'mainspring.operation'"
        await wait_until(
            lambda: any("wait for 'first' already" in str(r["error"]) for r in stages.query(waits)),
            20,
        )
        assert len(stages.query("select number from mainspring.delivery")) <= 6
        assert not first.got
        await stages.app.operator.resume("listing!first")
        await done(stages, begun.id)
    assert sorted({e.id for e in first.got}) == list(range(1, 13))


async def test_a_new_sink_may_begin_with_a_snapshot_and_misses_nothing(stages: Stages) -> None:
    """S7: every entity that was there, then what is saved; registered twice, it begins once."""
    ranked(stages)
    await stages.install()
    stages.add(*range(1, 6), price=5)
    await stages.run()
    late = Sink()
    stages.app.kinds["listing"].sink("late", late, start="snapshot")
    await stages.install()
    await stages.install()
    async with stages.working():
        stages.query("update listing set price = 6 where id = 1")
        begun = "select 1 from mainspring.operation where kind = 'resend' and state = 'done'"
        await wait_until(lambda: stages.query(begun), 30)
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 30)
    assert len(stages.query("select 1 from mainspring.operation where kind = 'resend'")) == 1
    assert {e.id for e in late.got if e.what == "snapshot"} == set(range(1, 6))
    assert late.of(1)[-1][1] == 6
    assert late.numbers(1) == sorted(late.numbers(1))


async def test_the_snapshot_of_a_new_sink_waits_however_late_it_was_registered(
    stages: Stages,
) -> None:
    """S7: a worker may have read the catalogue just before the registration was committed."""
    ranked(stages)
    await stages.install()
    begun = "select created_at from mainspring.operation where kind = 'resend'"
    async with stages.working():
        with stages.transaction() as migration:
            migration.execute(
                "insert into mainspring.consumer (kind, name) values ('listing', 'late')"
            )
            migration.execute("select mainspring.resend_soon('listing', 'late')")
            migration.execute("select pg_sleep(3.5)")  # it waits for the lock of a table
        committed = stages.value("select now()")
        await wait_until(lambda: stages.query(begun), 30)
        await done(
            stages, stages.value("select id from mainspring.operation where kind = 'resend'")
        )
    assert stages.value(begun) - committed > timedelta(seconds=2)


async def test_a_replay_brings_kept_events_again_in_order(stages: Stages, monkeypatch) -> None:
    """S7: old numbers, in order per entity, with the operation's id; deletes and outside changes too."""
    monkeypatch.setattr(operation, "PAGE", 4)
    kind, first, second = ranked(stages, keep_events=timedelta(days=2))
    await stages.install()
    stages.add(1, 2, 3, price=1)
    async with stages.working() as worker:
        for price in (2, 3, 4):
            await stages.rest(worker)
            stages.query("update listing set price = %s", price)
        await stages.rest(worker)
        _, version = await kind.state("Rank", 1)
        assert await kind.set_state("Rank", 1, {"seen": -1}, version)
        await stages.rest(worker)
        stages.query("delete from listing where id = 3")
        await stages.rest(worker)
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 20)
        wanted = [(e.id, e.number, e.what, e.body, e.created_at) for e in first.got]
        told = len(second.got)
        first.got.clear()
        begun = await kind.replay("first", since=0)
        assert begun.total == len(wanted)
        await done(stages, begun.id)
        again = [(e.id, e.number, e.what, e.body, e.created_at) for e in first.got]
        for id in (1, 2, 3):
            assert [e for e in again if e[0] == id] == [e for e in wanted if e[0] == id]
        assert {e.replay for e in first.got} == {begun.id}
        assert {"state", "deleted"} <= {e.what for e in first.got}
        assert len(second.got) == told

        middle = sorted(number for _, number, *_ in wanted)[len(wanted) // 2]
        first.got.clear()
        begun = await kind.replay("first", since=middle)
        await done(stages, begun.id)
        assert sorted(e.number for e in first.got) == sorted(
            n for _, n, *_ in wanted if n >= middle
        )

        at = sorted(e[4] for e in wanted)[-1]
        begun = await kind.replay("first", since=at, dry_run=True)
        assert 1 <= (begun.total or 0) < len(wanted)
    assert stages.query("select * from mainspring.violation") == []


async def test_a_replayed_event_that_somebody_still_waits_for_stays_for_both(
    stages: Stages,
) -> None:
    """S7: whoever acknowledges it last takes it out of the outbox."""
    kind, first, second = ranked(stages, keep_events=timedelta(days=2))
    await stages.install()
    stages.add(1, price=1)
    async with stages.working() as worker:
        await stages.rest(worker)
        await stages.app.operator.pause("listing!second")
        stages.change(price=2)
        await wait_until(lambda: len(first.got) == 2, 20)
        begun = await kind.replay("first", since=0)
        await wait_until(lambda: len(first.got) == 4, 20)
        await stages.app.operator.resume("listing!second")
        await done(stages, begun.id)
        assert len(second.got) == 2
    assert stages.query("select number from mainspring.event") == []
    assert stages.query("select * from mainspring.violation") == []


async def test_kept_events_are_dropped_with_their_day(stages: Stages) -> None:
    """S7, T7: by whole partitions, when no kind keeps them any more."""
    stages.kind(keep_events=timedelta(days=2))
    await stages.install()
    database, pool = await stages.app.database(), await stages.app.pool()
    async with pool.connection() as connection:
        await replay.keep_days(database, connection, days=30)
        days = (
            "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
            "where i.inhparent = 'mainspring.event_kept'::regclass"
        )
        assert len(stages.query(days)) == 9  # eight days, and the other one
        old = (datetime.now(UTC) - timedelta(days=4)).date()
        stages.query(
            f"create table mainspring.event_kept_{old:%Y_%m_%d} partition of mainspring.event_kept "
            f"for values from ('{old}') to ('{old + timedelta(days=1)}')"
        )
        insert = (
            "insert into mainspring.event_kept (day, shard, kind, key, number, what) "
            "values (%s, 1, 'listing', '1', 1, 'saved')"
        )
        stages.query(insert, old)
        stages.query(insert, old - timedelta(days=1))
        await replay.keep_days(database, connection, days=30)
    assert len(stages.query(days)) == 9
    assert stages.query("select 1 from mainspring.event_kept") == []


async def test_what_makes_no_sense_is_refused(stages: Stages) -> None:
    kind, *_ = ranked(stages)
    await stages.install()
    with pytest.raises(NotFound, match="has no consumer 'frist'; did you mean 'first'"):
        await kind.resend("frist")
    with pytest.raises(InvalidSetting, match="keeps no events: declare it with keep_events="):
        await kind.replay("first", since=0)
    with pytest.raises(
        InvalidKind, match="keep_events must be a timedelta of an hour to ten years"
    ):
        stages.kind("other", keep_events=7)
    with pytest.raises(InvalidStage, match="start of a sink must be one of now, snapshot"):
        kind.sink("third", Sink(), start="then")
    with pytest.raises(InvalidSetting, match="rate of a crawl must be"):
        await kind.resend("first", rate=0)
    stages.query("""update mainspring.kind set declared = declared || '{"keep_events": 86400}'""")
    for since in (-1, True, datetime(2026, 1, 1)):
        with pytest.raises(InvalidSetting, match="since must"):
            await kind.replay("first", since=since)


async def test_an_operator_orders_both_by_the_kind_s_name(stages: Stages) -> None:
    ranked(stages, keep_events=timedelta(days=2))
    await stages.install()
    found = stages.app.operator.entities
    begun = await found.resend("listing", "first", rate=None, source="test", dry_run=True)
    assert (begun.kind, begun.total, begun.state) == (resend.OPERATION, 0, "dry run")
    begun = await found.replay("listing", "first", since=0, rate=5, source="test", dry_run=True)
    assert (begun.kind, json.loads(json.dumps(begun.total))) == (replay.OPERATION, 0)


async def test_a_replay_waits_for_who_acknowledges_and_leaves_no_event_without_a_delivery(
    mainspring_url: str,
) -> None:
    """S7: the event is locked before it is seen whether its delivery still waits."""
    outbox = Outbox(mainspring_url, sinks=("first",))
    number = outbox.save("1")
    outbox.query(
        "insert into mainspring.event_kept (shard, kind, key, number, stage, what, body)"
        " select shard, kind, key, number, stage, what, body from mainspring.event"
    )
    replayed = "select mainspring.replay_events('box', 'first', array[%s::bigint], 7)"
    waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
    with psycopg.connect(mainspring_url) as relay:  # as acknowledge.sql, then forget_events.sql
        relay.execute("select from mainspring.event for update")
        replay = asyncio.create_task(asyncio.to_thread(outbox.query, replayed, number))
        await wait_until(lambda: outbox.query(waits, "%replay_events%"), 20)
        relay.execute("delete from mainspring.delivery")
        relay.execute("delete from mainspring.event")
    await replay
    left = "select number, d.replay from mainspring.event left join mainspring.delivery d using (number)"
    assert outbox.query(left) == [(number, 7)]
