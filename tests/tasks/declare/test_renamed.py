"""`was=`: what was enqueued, parked or scheduled under a former name goes on under the new one."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Mainspring, Promise, RetryPolicy
from mainspring.errors import DuplicateTask, InvalidProcess, InvalidSetting
from mainspring.jobs import sync_recurring
from mainspring.operate import HistoryFilter
from mainspring.testing import Clock, run_until_idle, wait_until


def bill(n: int) -> int:
    return n * 10


def order(n: int) -> int:
    return n


@pytest.fixture
async def old(database_url: str) -> Any:
    async with Mainspring(database_url) as found:
        yield found


@pytest.fixture
async def new(database_url: str) -> Any:
    async with Mainspring(database_url) as found:
        yield found


async def test_calls_that_wait_and_that_are_parked_are_run(old: Mainspring, new: Mainspring):
    @old.task(retry=RetryPolicy(attempts=1), name="charge")
    def charge(n: int) -> int:
        raise ValueError("the old code is broken")

    parked = await charge.enqueue(1)
    await run_until_idle(old)
    waiting = await charge.enqueue(2)
    new.task(was=["charge"])(bill)

    await run_until_idle(new)
    await new.operator.restart("charge", parked.id)
    await run_until_idle(new)

    assert await new.task_handle("charge", waiting.id).result(1) == 20
    assert await new.task_handle("charge", parked.id).result(1) == 10
    assert new.find_task("charge").name == "bill"
    past = await new.operator.history(HistoryFilter(queue="bill"))
    assert [(run.queue, run.outcome) for run in past] == [
        ("charge", "done"),
        ("charge", "done"),
        ("charge", "parked"),
    ]
    assert await new.operator.history(HistoryFilter(queue="bill"), limit=1) == past[:1]


async def test_steps_that_were_recorded_are_run(old: Mainspring, new: Mainspring):
    """P1, versions"""
    charge = old.task(name="charge")(bill)

    @old.process
    def order(n: int) -> Promise[int]:
        return charge(n)

    handle = await order.start(3)
    del old.tasks["charge"]  # this worker knows only the first step
    await run_until_idle(old)
    new.task(was=["charge"])(bill)
    new.process(name="purchase", was=["order"])(_never)
    await run_until_idle(new)

    assert await handle.result(5) == 30
    assert await new.process_handle("order", handle.id).result(1) == 30


async def test_schedules_go_along_as_they_stand(
    old: Mainspring, new: Mainspring, clock: Clock
) -> None:
    """A paused one stays paused, and no tick is made by both."""
    old.task(name="charge", cron=["0 * * * *", "30 * * * *"], cron_args={"n": 1})(bill)
    old.process(name="buy")(order)
    old.schedule(old.processes["buy"].bind(5), cron="0 0 * * *")
    await run_until_idle(old)
    await old.schedules.pause("charge#2", reason="unpaid")
    await old.schedules.add("tenant", old.tasks["charge"].bind(7), cron="0 0 1 1 *")
    before = await new.schedules.get("charge")
    new.task(was=["charge"], cron=["0 * * * *", "30 * * * *"], cron_args={"n": 1})(bill)
    new.process(was=["buy"])(order)
    new.schedule(new.processes["order"].bind(5), cron="0 0 * * *")

    await run_until_idle(new)
    await clock.advance(3600)
    await run_until_idle(new)

    found = {one.name: one for one in await new.schedules.list()}
    assert set(found) == {"bill", "bill#2", "order", "tenant"}
    assert found["bill"].created_at == before.created_at
    assert found["bill#2"].pause_reason == "unpaid"
    assert {(one.target, one.queue) for one in found.values()} == {
        ("bill", "bill"),
        ("order", "mainspring.start"),
    }
    runs = await new.operator.history(HistoryFilter())
    assert {run.queue for run in runs if run.queue in ("charge", "bill")} == {"bill"}
    await clock.advance(86_400)
    await run_until_idle(new)
    assert {one.type for one in await new.operator.processes.search()} == {"order"}


async def test_what_an_old_worker_declares_again_is_taken_along_at_its_tick(
    old: Mainspring, new: Mainspring, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixed pool: the old release starts again, and yet each tick is made once, and none is lost."""
    monkeypatch.setattr("mainspring.jobs.chores.GLANCE_EVERY", 3600)
    old.task(name="charge", cron="0 * * * *", cron_args={"n": 1})(bill)
    await run_until_idle(old)
    new.task(was=["charge"], cron="0 * * * *", cron_args={"n": 1})(bill)
    async with new.worker(poll=0.1):  # it renames, and makes all ticks from now on
        await wait_until(lambda: _names(new, {"bill"}))
        await old.migrate()
        await _declare_again(old)
        await old.schedules.add("tenant", old.tasks["charge"].bind(7), cron="0 * * * *")
        assert await _names(old, {"bill", "charge", "tenant"})
        await clock.advance(3600)
        await wait_until(lambda: _names(new, {"bill", "tenant"}))
        await wait_until(lambda: _are_done(new, 2))
        await clock.advance(3600)
        await wait_until(lambda: _are_done(new, 4))

    runs = await new.operator.history(HistoryFilter())
    ticks = [(run.queue, run.key.partition("@")[0]) for run in runs if "@" in run.key]
    assert sorted(ticks) == [("bill", "bill")] * 2 + [("bill", "tenant")] * 2


async def test_what_an_old_worker_declares_again_is_taken_along_before_its_tick(
    old: Mainspring, new: Mainspring, clock: Clock
) -> None:
    """A mixed pool: the old worker might make the tick itself."""
    old.task(name="charge", cron="0 * * * *", cron_args={"n": 1})(bill)
    new.task(was=["charge"], cron="0 * * * *", cron_args={"n": 1})(bill)
    await old.migrate()
    async with new.worker():
        await wait_until(lambda: _names(new, {"bill"}))
        await _declare_again(old)
        await wait_until(lambda: _names(new, {"bill"}), 20)


async def test_one_made_at_run_time_goes_on_under_the_name_of_its_task(
    old: Mainspring, new: Mainspring, clock: Clock
) -> None:
    """Nothing declares it again, and its visit had the former name."""
    charge = old.task(name="charge")(bill)
    await old.migrate()
    await run_until_idle(old)
    await old.schedules.add("charge", charge.bind(7), cron="0 * * * *")
    new.task(was=["charge"])(bill)
    await run_until_idle(new)
    await clock.advance(3600)
    await run_until_idle(new)

    assert [one.name for one in await new.schedules.list()] == ["bill"]
    assert len(await new.operator.history(HistoryFilter(queue="bill"))) == 1


async def test_schedules_of_two_former_names_become_one(old: Mainspring, new: Mainspring) -> None:
    for name in ("charge", "fee"):
        old.task(name=name, cron="0 * * * *", cron_args={"n": 1})(bill)
    await run_until_idle(old)
    new.task(was=["charge", "fee"], cron="0 * * * *", cron_args={"n": 1})(bill)
    await run_until_idle(new)

    assert [one.name for one in await new.schedules.list()] == ["bill"]


async def _declare_again(app: Mainspring) -> None:
    """As the start of a worker does."""
    pool = await app.pool()
    declared = app.schedules.declared()
    async with pool.connection(transaction=True) as connection:
        await sync_recurring(
            pool.database, connection, declared.schedules, targets=declared.targets
        )


async def _names(app: Mainspring, names: set[str]) -> bool:
    return {one.name for one in await app.schedules.list()} == names


async def _are_done(app: Mainspring, count: int) -> bool:
    return len(await app.operator.history(HistoryFilter(queue="bill"))) >= count


async def _never(n: int) -> int:
    raise AssertionError("it was decided before")


class TestRefused:
    def test_a_name_that_is_declared(self, new: Mainspring) -> None:
        new.task(bill)

        with pytest.raises(DuplicateTask, match="was= of 'order' names 'bill', which is declared"):
            new.task(was=["bill"])(order)

    def test_a_name_that_two_had(self, new: Mainspring) -> None:
        new.task(was=["charge"])(bill)

        with pytest.raises(DuplicateTask, match="names 'charge', which was 'bill' before"):
            new.process(was=["charge"])(order)

    def test_the_words_of_the_release_before(self, new: Mainspring) -> None:
        with pytest.raises(InvalidProcess, match="aliases= is written was= now"):
            new.process(aliases=["buy"])(order)  # type: ignore[call-overload]
        with pytest.raises(InvalidSetting, match="renamed_from= is written was= now"):
            new.task(when=None, renamed_from="daily")(order)  # type: ignore[call-overload]
