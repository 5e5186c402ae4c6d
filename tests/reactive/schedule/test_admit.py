"""Ready tasks wait in a queue with priorities; the number running at once is limited (R8, R9)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gates import Gate, declare, working_until_started
from tables import FAST_SETTINGS, Base, Worker, day, working

from mainspring import Mainspring
from mainspring.errors import InvalidSetting
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta, all_of
from mainspring.reactive.model.values import Param
from mainspring.reactive.schedule.reserve import Awaited, PoolFiring, admit
from mainspring.testing import Clock, wait_until

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class TestRules:
    """The pure decision."""

    def decide(self, cap: int, firings: list[PoolFiring], awaited: list[Awaited]) -> Any:
        return admit(cap, firings, awaited, now=NOW, reserve_max=MINUTE)

    def test_the_most_important_go_first_up_to_the_cap(self) -> None:
        """R8: in the order given, which is priority, age, name."""
        waiting = [PoolFiring(name, 9 - n, n, False) for n, name in enumerate("abc")]

        found = self.decide(2, waiting, [])

        assert [f.task for f in found.admitted] == ["a", "b"]

    def test_of_the_tasks_that_wait_for_a_producer_one_needs_no_slot(self) -> None:
        """R9: the producer's own slot counts."""
        firings = [PoolFiring("load", 5, 1, True), PoolFiring("low", 1, 2, False)]
        one = [Awaited("x", 8, "load", None)]
        two = [*one, Awaited("y", 8, "load", None)]

        assert [f.task for f in self.decide(2, firings, one).admitted] == ["low"]
        kept = self.decide(2, firings, two)
        assert (kept.admitted, kept.kept_by) == ((), ("load",))
        assert kept.again_at == NOW + MINUTE

    def test_nothing_as_important_as_the_awaited_is_kept_back(self) -> None:
        """R9, I13: no wait is circular."""
        firings = [PoolFiring("load", 5, 1, True), PoolFiring("peer", 8, 2, False)]
        awaited = [Awaited("x", 8, "load", None), Awaited("y", 8, "load", None)]

        assert [f.task for f in self.decide(2, firings, awaited).admitted] == ["peer"]

    def test_a_reservation_ends_a_bounded_time_after_it_first_kept_somebody_back(self) -> None:
        """R9, I13: one bound per pool, reserve_max."""
        since = NOW - MINUTE
        firings = [PoolFiring("load", 5, 1, True, since), PoolFiring("low", 1, 2, False)]
        awaited = [Awaited("x", 8, "load", None), Awaited("y", 8, "load", None)]

        assert [f.task for f in self.decide(2, firings, awaited).admitted] == ["low"]

    def test_a_producer_that_has_just_ended_keeps_its_own_slot_too(self) -> None:
        """R9: until its consumers were checked, for two seconds at most."""
        low = [PoolFiring("low", 1, 2, False)]

        kept = self.decide(2, low, [Awaited("x", 8, "load", NOW - timedelta(seconds=1))])
        assert [f.task for f in kept.admitted] == ["low"]  # of two slots one is left for x
        kept = self.decide(1, low, [Awaited("x", 8, "load", NOW)])
        assert [f.task for f in kept.admitted] == ["low"]  # at most cap - 1 slots are reserved
        running = [PoolFiring("other", 5, 3, True), *low]
        kept = self.decide(2, running, [Awaited("x", 8, "load", NOW)])
        assert (kept.admitted, kept.again_at) == ((), NOW + timedelta(seconds=2))
        old = [Awaited("x", 8, "load", NOW - timedelta(seconds=2))]
        assert [f.task for f in self.decide(2, running, old).admitted] == ["low"]

    def test_a_task_that_two_producers_serve_counts_once(self) -> None:
        firings = [
            PoolFiring("a", 5, 1, True),
            PoolFiring("b", 5, 2, True),
            PoolFiring("low", 1, 3, False),
        ]
        both = [Awaited(x, 8, p, None) for p in "ab" for x in "xy"]

        found = self.decide(4, firings, both)

        assert [f.task for f in found.admitted] == ["low"]

    @pytest.mark.parametrize("cap", [0, -1, True, 1.5, "2"])
    def test_a_cap_that_cannot_be_is_refused(self, app: Mainspring, cap: Any) -> None:
        with pytest.raises(InvalidSetting, match="cap of pool 'default' must be 1 or more"):
            app.reactive_pool(cap=cap)


async def test_a_burst_respects_the_cap_and_the_priorities(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R8, I5: at most cap at once, the most important first; I12: evaluations are bounded."""
    running, most, order = 0, 0, []
    app.reactive_pool(cap=3)

    def make(n: int) -> None:
        async def work(run: ReactiveRun) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            order.append(n % 10)
            await asyncio.sleep(0.001)
            running -= 1

        app.task(name=f"task{n:02}", when=Delta(orders), priority=n % 10)(work)

    for n in range(40):
        make(n)
    async with working(app) as worker:
        await app.advance(orders, day(1))
        await worker.idle()

    assert most <= 3
    assert len(order) == 40
    # The first three are admitted before all have fired; from then on strictly by priority.
    assert order[6:] == sorted(order[6:], reverse=True)
    assert base.value("select count(*) from mainspring.evaluation") <= 40 * 3


async def test_slots_are_kept_for_a_more_important_task_whose_data_is_being_brought(
    app: Mainspring, base: Base, orders: Param, rates: Param, built: Param, gate: Gate
) -> None:
    """R9: a running producer reserves; less important ones wait, and start when it has ended."""
    raw = app.data("raw.orders").param("at")
    order: list[str] = []
    other = Gate()
    app.reactive_pool(cap=3)
    declare(app, other, name="other", when=Delta(raw))

    @app.task(when=Delta(raw), produces=[orders], priority=5)
    async def load(run: ReactiveRun) -> None:
        run.advance(orders, day(2))
        await gate(run)

    def consumer(name: str, when: Any, priority: int) -> None:
        async def work(run: ReactiveRun) -> None:
            order.append(name)

        app.task(name=name, when=when, priority=priority)(work)

    consumer("x", Delta(orders), 8)
    consumer("y", all_of(Delta(orders), Delta(rates)), 8)
    consumer("low", Delta(rates), 1)
    await app.advance(raw, day(1))
    async with working_until_started(app, gate) as worker:
        await app.advance(rates, day(1))
        await wait_until(lambda: base.state("load")["kept_back_at"] is not None)
        assert base.state("low")["admitted_at"] is None
        assert order == []
        gate.open.set()
        await wait_until(lambda: len(order) == 3)
        other.open.set()
        await worker.idle()

    assert order[2:] == ["low"]
    assert set(order) == {"x", "y", "low"}


async def test_a_reservation_is_bounded(
    app: Mainspring, base: Base, clock: Clock, orders: Param, rates: Param, gate: Gate
) -> None:
    """R9, I13: after reserve_max the slot is given away although the producer still runs."""
    raw = app.data("raw.orders").param("at")
    done = []
    app.reactive_pool(cap=2, reserve_max=timedelta(minutes=5))

    @app.task(when=Delta(raw), produces=[orders])
    async def load(run: ReactiveRun) -> None:
        await gate(run)

    for name in ("x", "y"):
        app.task(name=name, when=Delta(orders), priority=8)(lambda: None)

    @app.task(when=Delta(rates), priority=1)
    async def low() -> None:
        done.append(1)

    await app.advance(raw, day(1))
    async with working_until_started(app, gate) as worker:
        await app.advance(rates, day(1))
        await wait_until(lambda: base.state("load")["kept_back_at"] is not None)
        assert done == []
        await clock.advance(timedelta(minutes=6))
        await wait_until(lambda: bool(done))
        gate.open.set()
        await worker.idle()


async def test_a_cap_is_changed_by_an_operator_until_the_code_changes_it(
    app: Mainspring, base: Base, orders: Param, rates: Param, gate: Gate
) -> None:
    """R8: a raised cap lets waiting tasks start at once."""
    second = Gate()
    app.reactive_pool(cap=1)
    declare(app, gate, name="one", when=Delta(orders), priority=9)
    declare(app, second, name="two", when=Delta(orders))
    await app.advance(orders, day(1))
    async with working_until_started(app, gate) as worker:
        assert not second.runs
        await app.reactive.set_cap("default", 2)
        async with asyncio.timeout(10):
            await second.started.wait()
        second.open.set()
        gate.open.set()
        await worker.idle()
    async with working(app):
        pass

    assert base.value("select cap from mainspring.reactive_pool") == 2


async def test_a_paused_task_is_not_checked_until_it_is_resumed(
    app: Mainspring, orders: Param, gate: Gate
) -> None:
    gate.open.set()
    declare(app, gate, when=Delta(orders))
    async with working(app) as worker:
        await app.reactive.pause("daily")
        await app.advance(orders, day(1))
        await worker.idle()
        assert gate.runs == []
        with pytest.raises(InvalidSetting, match="'daily' is paused: nothing was changed"):
            await app.reactive.pause("daily")
        await app.reactive.resume("daily")
        await worker.idle()

    assert len(gate.runs) == 1


async def test_an_idle_worker_sends_no_statement_for_any_task(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R7, I11: 10,000 idle triggers cost nothing: nobody asks for them."""
    for n in range(20):
        app.task(name=f"task{n}", when=Delta(orders))(lambda: None)
    async with app.worker(**FAST_SETTINGS | {"lease": 5.0}) as kernel:
        await Worker(kernel).idle()
        before = reads(base)
        for _ in range(10):
            await asyncio.sleep(0.02)
        assert reads(base) == before


def reads(base: Base) -> int:
    base.rows("select pg_stat_force_next_flush()")
    return base.value(
        "select coalesce(sum(seq_scan + idx_scan), 0) from pg_stat_all_tables"
        " where schemaname = 'mainspring' and relname in ('reactive_task', 'uses', 'param',"
        " 'definition')"
    )
