"""Traps of the reactive protocol, each forced by calling the steps one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.reactive.model.triggers import Delta, all_of
from mainspring.reactive.model.values import Param, micros
from mainspring.reactive.schedule.admit import Admit
from mainspring.reactive.schedule.audit import end_orphans
from mainspring.reactive.schedule.change import Spread
from mainspring.reactive.schedule.check import Check, Checked, Definitions, read_tasks


class Steps:
    """A scheduler taken apart."""

    def __init__(self, database: Any, connection: Any) -> None:
        self.database = database
        self.connection = connection
        self.definitions = Definitions()
        self.check = Check(self.definitions)

    async def look(self, task: str) -> Checked | None:
        """Read and decide; nothing is written yet."""
        rows = await read_tasks(self.connection, [task])
        await self.definitions.load(self.connection, [row.fingerprint for row in rows])
        found = self.check.look(rows[0])
        return found if isinstance(found, Checked) else None

    async def write(self, looked: Checked) -> bool:
        return bool(await self.check.write(self.connection, [looked]))

    async def spread(self, *params: Param, judged: int = 500) -> None:
        spread = Spread(self.database, self.check, judged=judged)
        await spread(self.connection, [p.key for p in params])


@pytest.fixture
async def steps(app: Mainspring) -> AsyncIterator[Steps]:
    database = await app.database()
    connection = await database.connect("test")
    yield Steps(database, connection)
    await connection.close()


async def nothing() -> None: ...


async def test_a_verdict_on_an_old_state_starts_nothing(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """R10: two schedulers judge the same state; the second comes after the first's run has ended."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    late = await steps.look("daily")
    assert late is not None
    async with working(app):
        pass
    assert base.state("daily")["seen"] != {}

    assert not await steps.write(late)
    assert base.state("daily")["firing"] is None


async def test_one_of_two_checks_of_one_state_fires(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """R7: never two firings for one state."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    first, second = await steps.look("daily"), await steps.look("daily")
    assert first is not None
    assert second is not None

    assert await steps.write(first)
    assert not await steps.write(second)
    assert len(base.visits("mainspring.run.")) == 1
    async with working(app):
        pass


async def test_params_set_together_are_seen_together(
    app: Mainspring, base: Base, steps: Steps, orders: Param, rates: Param
) -> None:
    """I6: all values of a check come from one snapshot; a setter's open transaction shows nothing."""
    app.task(name="daily", when=all_of(Delta(orders), Delta(rates)))(nothing)
    await app.reactive_apply()
    with psycopg.connect(base.url) as loader:
        app.advance_many_sync([(orders, day(1)), (rates, day(1))], on=loader)
        looked = await steps.look("daily")
        assert looked is not None
        assert looked.verdict is not None
        assert [leaf.fact.value for leaf in looked.verdict.leaves()] == [None, None]
    async with working(app):
        pass

    value = [micros(day(1)), 0]
    assert base.state("daily")["seen"] == {orders.key: value, rates.key: value}


async def test_a_change_while_a_firing_waits_is_looked_at_when_it_ends(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """R7: a task in flight is skipped by the spread; the end of its run offers the check."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    looked = await steps.look("daily")
    assert looked is not None
    await steps.write(looked)
    base.rows("delete from mainspring.visit where queue = 'mainspring.check'")
    await app.advance(orders, day(2))
    await steps.spread(orders)
    assert base.visits("mainspring.check") == []
    async with working(app):
        pass

    assert base.state("daily")["seen"] == {orders.key: [micros(day(2)), 0]}


async def test_a_state_that_somebody_has_locked_is_looked_at_again(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """The engine never waits for a row: skip locked, and the check comes again."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    looked = await steps.look("daily")
    assert looked is not None
    with psycopg.connect(base.url) as other:
        other.execute("select from mainspring.reactive_task where task = 'daily' for update")
        assert not await steps.write(looked)

    assert await steps.write(looked)
    async with working(app):
        pass


async def test_verdicts_wait_for_an_admission_that_takes_long(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """I12: a pool's row that is locked for longer than the engine waits costs no second evaluation."""
    app.reactive_pool(cap=1)
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    looked = await steps.look("daily")
    assert looked is not None
    await steps.connection.execute("set lock_timeout = '20ms'")
    with psycopg.connect(base.url) as admission:
        admission.execute("select from mainspring.reactive_pool for update")
        writing = asyncio.create_task(steps.write(looked))
        while not base.value("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0)
        base.rows("select pg_sleep(0.03)")  # longer than one wait

    assert await writing
    async with working(app):
        pass


async def test_an_admission_sees_the_firings_that_it_waited_for(
    app: Mainspring, base: Base, steps: Steps, orders: Param, rates: Param
) -> None:
    """R8: a lock and a read in one statement would read what was there before the lock was had."""
    app.reactive_pool(cap=1)
    app.task(name="first", when=Delta(orders), priority=8)(nothing)
    app.task(name="low", when=Delta(rates), priority=1)(nothing)
    await app.reactive_apply()
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    low, first = await steps.look("low"), await steps.look("first")
    assert low is not None
    assert first is not None
    await steps.write(low)
    admit = Admit(steps.definitions)
    admitting = await steps.database.connect("test")
    async with steps.connection.transaction():
        await steps.write(first)
        under_way = asyncio.create_task(admit(admitting, ["default"]))
        while not base.value("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0)
    await under_way
    await admitting.close()

    assert base.state("first")["admitted_at"] is not None
    assert base.state("low")["admitted_at"] is None
    async with working(app):
        pass


async def test_a_producer_that_has_just_ended_keeps_the_slot_until_its_consumer_was_checked(
    app: Mainspring, base: Base, steps: Steps, orders: Param, rates: Param
) -> None:
    """R9, I13: for two seconds at most, and not at all when its news has come to nothing."""
    app.reactive_pool(cap=2)
    app.task(name="important", when=Delta(orders), priority=8)(nothing)
    app.task(name="other", when=Delta(rates), priority=5)(nothing)
    app.task(name="low", when=Delta(rates), priority=1)(nothing)
    await app.reactive_apply()
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    base.rows("delete from mainspring.visit where queue = 'mainspring.check'")
    for name in ("other", "low"):
        looked = await steps.look(name)
        assert looked is not None
        await steps.write(looked)
    base.rows(
        "insert into mainspring.reactive_ended (pool, task, params, at)"
        " values ('default', 'load', array[%s], now() + interval '1 hour')",
        orders.key,
    )
    admit = Admit(steps.definitions)

    async def admitted() -> bool:
        await admit(steps.connection, ["default"])
        assert base.state("other")["admitted_at"] is not None, "there is a slot for one"
        found = base.state("low")["admitted_at"] is not None
        base.rows("update mainspring.reactive_task set admitted_at = null")
        return found

    assert not await admitted(), "the change of orders is still due"
    base.rows("delete from mainspring.visit where queue = 'mainspring.change'")
    assert await admitted(), "its news was looked at, and nobody fired"
    await app.advance(orders, day(2))
    assert not await admitted(), "there is news again"
    base.rows("update mainspring.reactive_ended set at = now() - interval '2 seconds'")
    assert await admitted(), "two seconds have passed"
    async with working(app):
        pass


async def test_a_spread_walks_its_whole_list_page_by_page(
    app: Mainspring, base: Base, steps: Steps, orders: Param, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: a list that is begun anew at every change never reaches its tail."""
    monkeypatch.setattr("mainspring.reactive.schedule.change.PAGE", 7)
    for n in range(30):
        app.task(name=f"task{n:02}", when=Delta(orders))(nothing)
    await app.reactive_apply()
    base.rows("delete from mainspring.visit")

    await steps.spread(orders, judged=29)

    assert len(base.visits("mainspring.check")) == 30


async def test_consumers_are_judged_where_the_change_is_served(
    app: Mainspring, base: Base, steps: Steps, orders: Param, rates: Param
) -> None:
    """R7: many changes, one read, one write, no visit for a check; only affected tasks are looked at."""
    app.task(name="daily", when=Delta(orders))(nothing)
    app.task(name="joined", when=all_of(Delta(orders), Delta(rates)))(nothing)
    app.task(name="monthly", when=Delta(orders, "30d"), first_run="baseline")(nothing)
    app.task(name="other", when=Delta(rates))(nothing)
    await app.advance(orders, day(1))
    await app.reactive_apply()
    await app.advance(orders, day(2))
    base.rows("delete from mainspring.visit")

    await steps.spread(orders)

    assert base.visits() == [("mainspring.run.default", "daily")]
    checked = base.rows("select task from mainspring.reactive_task where checked_at is not null")
    assert {row["task"] for row in checked} == {"daily", "joined", "monthly"}


async def test_consumers_of_many_params_are_judged_by_halves_when_they_are_too_many(
    app: Mainspring, base: Base, steps: Steps, orders: Param, rates: Param
) -> None:
    """R7: only a param that alone has too many consumers is spread."""
    for n in range(3):
        app.task(name=f"orders{n}", when=Delta(orders))(nothing)
    for n in range(2):
        app.task(name=f"rates{n}", when=Delta(rates))(nothing)
    await app.advance_many([(orders, day(1)), (rates, day(1))], by="test")
    await app.reactive_apply()
    base.rows("delete from mainspring.visit")

    await steps.spread(orders, rates, judged=2)

    assert base.visits("mainspring.check") == [("mainspring.check", f"orders{n}") for n in range(3)]
    runs = [("mainspring.run.default", f"rates{n}") for n in range(2)]
    assert base.visits("mainspring.run.") == runs


async def test_a_consumer_whose_state_is_locked_is_left_to_a_check(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """I1: the change's visit may be settled only when every consumer was judged or will be."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.advance(orders, day(1))
    await app.reactive_apply()
    base.rows("delete from mainspring.visit")

    with psycopg.connect(base.url) as other:
        other.execute("select from mainspring.reactive_task where task = 'daily' for update")
        await steps.spread(orders)
    assert base.visits() == [("mainspring.check", "daily")]
    async with working(app):
        pass

    assert base.state("daily")["seen"] == {orders.key: [micros(day(1)), 0]}


async def test_a_gate_that_holds_a_change_back_leaves_a_timer(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """I1: judged on the spot and true, but too early: a check comes when the gate opens."""
    app.task(name="daily", when=Delta(orders), debounce="1h")(nothing)
    await app.advance(orders, day(1))
    await app.reactive_apply()
    base.rows("delete from mainspring.visit")

    await steps.spread(orders)

    assert base.visits() == [("mainspring.check", "daily")]
    waits = (
        "select due_at > now() + interval '50 minutes' from mainspring.visit where key = 'daily'"
    )
    assert base.value(waits)


async def test_of_two_verdicts_on_one_state_only_the_first_is_written(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """Trap: two changes judged at once; the older snapshot must not put its verdict over the newer."""
    app.task(name="daily", when=Delta(orders), debounce="1h")(nothing)
    await app.reactive_apply()
    old = await steps.look("daily")
    await app.advance(orders, day(1))
    new = await steps.look("daily")
    assert old is not None
    assert new is not None

    assert await steps.write(new)
    assert not await steps.write(old)
    assert base.state("daily")["verdict"] is True


async def test_a_state_that_moved_is_looked_at_again_though_its_turn_holds(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """R7: a verdict finds its state by address; one that is elsewhere by now is read anew, never missed."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    looked = await steps.look("daily")
    assert looked is not None
    base.rows("update mainspring.reactive_task set missing_since = null")

    assert not await steps.write(looked)
    await steps.spread(orders)
    assert base.state("daily")["firing"] is not None


async def test_a_firing_whose_run_visit_is_gone_is_ended_and_reported(
    app: Mainspring, base: Base, steps: Steps, orders: Param
) -> None:
    """A change made by hand, or a restore: found by the audit, checked afresh."""
    app.task(name="daily", when=Delta(orders))(nothing)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    looked = await steps.look("daily")
    assert looked is not None
    await steps.write(looked)
    base.rows("delete from mainspring.visit")

    assert await end_orphans(steps.database, steps.connection) == ["daily"]
    async with working(app):
        pass
    assert base.state("daily")["seen"] == {orders.key: [micros(day(1)), 0]}


async def test_unchanged_and_false_writes_nothing(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R17: evaluations are stored only when the outcome changed."""
    app.task(name="daily", when=Delta(orders, "5d"), first_run="baseline")(nothing)
    await app.advance(orders, day(1))
    async with working(app) as worker:
        before = base.value("select count(*) from mainspring.evaluation")
        row = base.value("select xmin::text from mainspring.reactive_task")
        for n in range(2, 5):
            await app.advance(orders, day(n))
            await worker.idle()

        assert base.value("select count(*) from mainspring.evaluation") == before
        assert base.value("select xmin::text from mainspring.reactive_task") == row
