"""Traps of the reactive protocol, each forced by calling the steps one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.reactive.audit import end_orphans
from mainspring.reactive.check import Check, Checked, Definitions
from mainspring.reactive.spread import Spread
from mainspring.reactive.store import ask
from mainspring.reactive.triggers import Delta, all_of
from mainspring.reactive.values import Param, micros


class Steps:
    """A scheduler taken apart."""

    def __init__(self, database: Any, connection: Any) -> None:
        self.database = database
        self.connection = connection
        self.definitions = Definitions(database)
        self.check = Check(database, self.definitions)

    async def look(self, task: str) -> Checked | None:
        """Read and decide; nothing is written yet."""
        rows = await ask(self.database, self.connection, "read_checks", tasks=[task])
        await self.definitions.load(self.connection, [row["fingerprint"] for row in rows])
        found = self.check.look(rows[0])
        return found if isinstance(found, Checked) else None

    async def write(self, looked: Checked) -> bool:
        return bool(await self.check.write(self.connection, [looked]))

    async def spread(self, *params: Param) -> None:
        await Spread(self.database)(self.connection, [p.key for p in params])


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


async def test_a_spread_walks_its_whole_list_page_by_page(
    app: Mainspring, base: Base, steps: Steps, orders: Param, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: a list that is begun anew at every change never reaches its tail."""
    monkeypatch.setattr("mainspring.reactive.spread.PAGE", 7)
    for n in range(30):
        app.task(name=f"task{n:02}", when=Delta(orders))(nothing)
    await app.reactive_apply()
    base.rows("delete from mainspring.visit")

    await steps.spread(orders)

    assert len(base.visits("mainspring.check")) == 30


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
