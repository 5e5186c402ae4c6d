"""Releases: the first one, a changed trigger, two at once, a roll-back, tasks that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tables import FAST_SETTINGS, Base, day, history, working

from mainspring import Mainspring
from mainspring.reactive import runtime
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.declare.register import LIVING_SECONDS, release_fingerprint
from mainspring.reactive.model.triggers import Delay, Delta, all_of, any_of
from mainspring.reactive.model.values import Param, micros
from mainspring.reactive.operate.why import why
from mainspring.reactive.schedule.audit import retire
from mainspring.testing import Clock, wait_until

Release = Callable[..., Mainspring]


@pytest.fixture
def release(mainspring_url: str) -> Release:
    """An application as one release has it: tasks by name."""

    def make(notes: list[Any] | None = None, **tasks: Any) -> Mainspring:
        app = Mainspring(mainspring_url)
        for name, settings in tasks.items():
            given = settings if isinstance(settings, dict) else {"when": settings}

            async def note(run: ReactiveRun) -> None:
                if notes is not None:
                    notes.append((run.task, {p.key: v for p, v in run.current.items()}))

            app.task(name=name, **given)(note)
        return app

    return make


async def run_release(app: Mainspring, **settings: Any) -> None:
    async with app, working(app, **settings):
        pass


async def test_at_the_first_release_a_delta_is_true_if_there_is_a_value(
    app: Mainspring, release: Release, orders: Param, rates: Param
) -> None:
    """R11: that leaf, not the tree; what needs current values only is computed as usual."""
    notes: list[Any] = []
    await app.advance(orders, day(1))

    await run_release(
        release(
            notes,
            alone=Delta(orders),
            both=all_of(Delta(orders), Delta(rates)),
            old=dict(when=all_of(Delta(orders), Delay(orders, "1h")), expect_within="1d"),
        )
    )

    assert [task for task, _ in notes] == ["alone"]


async def test_a_baseline_takes_what_is_there_as_seen(
    app: Mainspring, release: Release, base: Base, orders: Param
) -> None:
    """R11: first_run="baseline": only later data is new."""
    notes: list[Any] = []
    await app.advance(orders, day(1))
    await run_release(release(notes, daily=dict(when=Delta(orders), first_run="baseline")))
    assert notes == []

    await app.advance(orders, day(2))
    await run_release(release(notes, daily=dict(when=Delta(orders), first_run="baseline")))

    assert notes == [("daily", {orders.key: day(2)})]


async def test_a_delta_on_a_new_param_is_true_at_once_and_on_a_known_one_as_usual(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """R12: a changed trigger; last seen values are replaced as a whole."""
    notes: list[Any] = []
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    await run_release(release(notes, daily=Delta(orders)))
    await run_release(release(notes, daily=all_of(Delta(orders), Delta(rates))))
    assert len(notes) == 1  # orders is known and has not moved

    await run_release(release(notes, daily=any_of(Delta(orders), Delta(rates))))
    assert len(notes) == 2
    assert base.state("daily")["seen"].keys() == {orders.key, rates.key}

    await run_release(release(notes, daily=Delta(rates)))
    assert base.state("daily")["seen"].keys() == {orders.key, rates.key}  # the last success's
    await app.advance(rates, day(2))
    await run_release(release(notes, daily=Delta(rates)))
    assert base.state("daily")["seen"].keys() == {rates.key}

    await run_release(release(notes, daily=any_of(Delta(orders), Delta(rates))))
    assert len(notes) == 4  # orders was dropped meanwhile, so it is new again


async def test_a_firing_keeps_the_trigger_and_the_values_of_its_check(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """R12: a param that the new trigger adds is still new after the run of the old one's firing."""
    opened, started = asyncio.Event(), asyncio.Event()
    first = release()
    captured = []

    async def daily(run: ReactiveRun) -> None:
        captured.append(sorted(base.state("daily")["captured"]))
        started.set()
        await opened.wait()

    first.task(name="daily", when=Delta(orders))(daily)
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    second = release(daily=any_of(Delta(orders), Delta(rates)))
    async with first, second, first.worker(**FAST_SETTINGS | {"lease": 5.0}):
        await started.wait()
        await second.reactive_apply()
        opened.set()
        await wait_until(lambda: is_left(base))
        assert base.state("daily")["seen"].keys() == {orders.key}
        told = await why(app.reactive, "daily")

    assert captured == [[orders.key]]
    assert (
        "not started by the worker that has it: a newer release declares task 'daily': left to a "
        "worker that has it, and none lives: start one; else the older release is declared again in "
        "some minutes, and the trigger checked afresh"
    ) in told.notes


def is_left(base: Base) -> bool:
    """A worker has looked at the run of a firing and left it to a newer release."""
    found = "select count(*) from mainspring.visit where error like 'a newer release declares %%'"
    return bool(base.value(found))


async def test_code_that_names_fewer_params_leaves_a_newer_firing_to_the_release_that_made_it(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """R12, trap: the old code's success would mark the added param as seen, and the new code would
    never run for it."""
    old_notes: list[Any] = []
    new_notes: list[Any] = []
    old = release(old_notes, daily=Delta(orders))
    new = release(new_notes, daily=all_of(Delta(orders), Delta(rates)))
    async with old, new:
        async with old.worker(**FAST_SETTINGS | {"lease": 5.0}):
            await new.reactive_apply()
            await app.advance_many([(orders, day(1)), (rates, day(1))])
            await wait_until(lambda: is_left(base))
        assert (old_notes, base.state("daily")["seen"]) == ([], {})
        async with new.worker(**FAST_SETTINGS | {"lease": 5.0}):
            await wait_until(lambda: bool(base.state("daily")["seen"]))

    assert (old_notes, new_notes) == ([], [("daily", {orders.key: day(1), rates.key: day(1)})])


@pytest.mark.parametrize("kind", ["regular", "manual"])
async def test_after_a_roll_back_the_old_code_does_not_run_what_the_newer_release_fired(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param, kind: str
) -> None:
    """R12: it is checked afresh, by the trigger that the code has; what was asked for is not lost."""
    notes: list[Any] = []
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    new = release(daily=any_of(Delta(orders), Delta(rates)))
    await run_release(release(daily=Delta(orders)))
    async with new, new.worker(**FAST_SETTINGS | {"lease": 5.0}) as kernel:
        await kernel.drained()
        await app.operator.pause("mainspring.run.default")
        if kind == "manual":
            await app.reactive.run("daily", record=True, by="ann")
        else:
            await app.advance_many([(orders, day(2)), (rates, day(2))])
        await wait_until(lambda: base.state("daily")["firing"] is not None)
    await app.operator.resume("mainspring.run.default")
    old = release(notes, daily=Delta(orders))
    async with old, working(old):
        # Until the newer instance is seen to be gone, its firing is left to it, for a second at a time.
        await wait_until(lambda: bool(notes) and base.state("daily")["firing"] is None, 20)

    [(_, current)] = notes
    assert current.keys() == {orders.key}
    assert base.state("daily")["seen"].keys() == {orders.key}
    assert "other params than this release names" in (history(base, "daily")[-2][1] or "")
    assert (base.state("daily")["cause"] == "asked for by ann") == (kind == "manual")


async def test_a_release_that_came_and_went_leaves_no_task_behind(
    app: Mainspring,
    release: Release,
    orders: Param,
    rates: Param,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R12, trap: a worker that was there before it was never refused, so it never declared its tasks
    again, and may not start what the newer trigger fires."""
    monkeypatch.setattr(runtime, "LIVING_SECONDS", 0.6)  # it looks around some times a second
    notes: list[Any] = []
    old = release(notes, daily=Delta(orders))
    async with old, old.worker(**FAST_SETTINGS | {"lease": 5.0}):
        await run_release(release(daily=all_of(Delta(orders), Delta(rates))))
        await app.advance_many([(orders, day(1)), (rates, day(1))])
        await wait_until(lambda: len(notes) == 1)

    assert notes == [("daily", {orders.key: day(1)})]


async def test_a_process_that_was_silent_for_long_declares_its_newer_tasks_again(
    app: Mainspring,
    release: Release,
    base: Base,
    orders: Param,
    rates: Param,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R12, trap: the older release took it for dead; its code may not run what the old trigger fires,
    and would call it void for ever."""
    await run_release(release(daily=Delta(orders)))
    monkeypatch.setattr(runtime, "LIVING_SECONDS", 0.6)  # it looks around some times a second
    notes: list[Any] = []
    new = release(notes, daily=all_of(Delta(orders), Delta(rates)))
    async with new, new.worker(**FAST_SETTINGS | {"lease": 5.0}):
        newer = base.state("daily")["fingerprint"]
        base.rows("update mainspring.reactive_instance set seen_at = seen_at - interval '1 hour'")
        old = release(daily=Delta(orders))
        async with old:
            await old.reactive_apply()
        await wait_until(lambda: base.state("daily")["fingerprint"] == newer, 15)
        await app.advance_many([(orders, day(1)), (rates, day(1))])
        await wait_until(lambda: len(notes) == 1, 15)

    assert notes == [("daily", {orders.key: day(1), rates.key: day(1)})]


async def test_a_baseline_written_while_a_run_is_in_flight_outlives_its_success(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """R10, R12: trap: the success would undo the baseline of a release."""
    opened, started = asyncio.Event(), asyncio.Event()
    first = release()

    async def daily(run: ReactiveRun) -> None:
        started.set()
        await opened.wait()

    first.task(name="daily", when=Delta(orders))(daily)
    await app.advance_many([(orders, day(1)), (rates, day(1))])
    notes: list[Any] = []
    when = any_of(Delta(orders), Delta(rates))
    second = release(notes, daily=dict(when=when, first_run="baseline"))
    async with first, second, first.worker(**FAST_SETTINGS | {"lease": 5.0}) as kernel:
        await started.wait()
        await second.reactive_apply()
        opened.set()
        await kernel.drained()
    await run_release(second)

    assert notes == []
    assert base.state("daily")["seen"] == {
        orders.key: [micros(day(1)), 0],
        rates.key: [micros(day(1)), 0],
    }


async def test_an_old_worker_that_restarts_during_a_rollout_changes_nothing(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """Trap: flip-flop between two releases. A release's number is given when it is first seen."""
    old, new = release(daily=Delta(orders)), release(daily=Delta(rates))
    await run_release(old)
    async with new, working(new):
        trigger = base.state("daily")["fingerprint"]
        await run_release(release(daily=Delta(orders)))

        assert base.state("daily")["fingerprint"] == trigger
        assert base.value("select array_agg(param) from mainspring.uses") == [rates.key]


async def test_a_roll_back_takes_effect_when_nobody_carries_the_newer_release(
    app: Mainspring, release: Release, base: Base, clock: Clock, orders: Param, rates: Param
) -> None:
    """R12: after the last new worker is gone, by its leave or by its silence."""
    await run_release(release(daily=Delta(orders)))
    old = base.state("daily")["fingerprint"]
    new = release(daily=Delta(rates))
    async with new, working(new):
        await run_release(release(daily=Delta(orders)))
        assert base.state("daily")["fingerprint"] != old
    await run_release(release(daily=Delta(orders)))

    assert base.state("daily")["fingerprint"] == old


async def test_a_task_that_nobody_declares_is_retired_and_its_values_kept(
    app: Mainspring, release: Release, base: Base, clock: Clock, orders: Param, rates: Param
) -> None:
    """A removed task with seen values: kept and listed. Declared again it comes back."""
    notes: list[Any] = []
    await app.advance(orders, day(1))
    await run_release(release(notes, daily=Delta(orders), other=Delta(rates)))
    left = release(notes, other=Delta(rates))
    async with left, working(left) as worker:
        database = await left.database()
        pool = await left.pool()
        async with pool.connection() as connection:
            assert await retire(database, connection, living=LIVING_SECONDS) == []
            await clock.advance(timedelta(seconds=100))
            await left_alive(left, connection)
            await clock.advance(timedelta(minutes=10))
            await left_alive(left, connection)
            retired = await retire(database, connection, living=LIVING_SECONDS)
        await app.advance(orders, day(2))
        await worker.idle()
        assert base.state("daily")["firing"] is None, "a retired task is not checked"

    assert retired == ["daily"]
    listed = (await app.reactive.tasks(task="daily"))[0]
    assert (listed.state, listed.seen) == ("retired", {orders.key: [micros(day(1)), 0]})
    assert len(notes) == 1

    await run_release(release(notes, daily=Delta(orders), other=Delta(rates)))
    assert notes[1:] == [("daily", {orders.key: day(2)})]


async def left_alive(app: Mainspring, connection: Any) -> None:
    await connection.execute("update mainspring.reactive_instance set seen_at = mainspring.clock()")


async def test_a_renamed_task_takes_its_state_along(
    app: Mainspring, release: Release, base: Base, orders: Param
) -> None:
    notes: list[Any] = []
    await app.advance(orders, day(1))
    await run_release(release(notes, daily=Delta(orders)))

    await run_release(release(notes, nightly=dict(when=Delta(orders), was=["daily"])))

    assert [task for task, _ in notes] == ["daily"]
    assert base.value("select array_agg(task) from mainspring.reactive_task") == ["nightly"]
    assert base.state("nightly")["seen"] == {orders.key: [micros(day(1)), 0]}
    assert base.rows("select task from mainspring.uses") == [{"task": "nightly"}]


async def interrupted(app: Mainspring, base: Base, name: str, param: Param) -> None:
    """A release whose worker is stopped in an orderly way while it runs its task."""
    started = asyncio.Event()

    async def endless(run: ReactiveRun) -> None:
        started.set()
        await asyncio.Event().wait()

    app.task(name=name, when=Delta(param))(endless)
    async with app, app.worker(**FAST_SETTINGS | {"lease": 5.0, "grace": 0.0}):
        await started.wait()
    assert base.state(name)["run"] is not None


async def test_the_run_of_a_task_that_is_taken_out_ends_without_its_code(
    app: Mainspring, release: Release, base: Base, orders: Param, rates: Param
) -> None:
    """R10: else its firing would keep its slot for ever, and it could never be retired."""
    await app.advance(orders, day(1))
    await interrupted(release(), base, "daily", orders)

    left = release(other=Delta(rates))
    async with left, left.worker(**FAST_SETTINGS | {"lease": 5.0}):
        await wait_until(lambda: base.state("daily")["run"] is None)

    state = base.state("daily")
    assert (state["error"], state["failures"], state["seen"]) == (
        "the worker that ran it was stopped",
        0,
        {},
    )


async def test_a_renamed_task_waits_until_its_old_self_has_ended(
    app: Mainspring, release: Release, base: Base, orders: Param
) -> None:
    """R12: else what it has seen would be left behind, and all data be new to it."""
    notes: list[Any] = []
    await app.advance(orders, day(1))
    await run_release(release(notes, daily=Delta(orders)))
    await app.advance(orders, day(2))
    await interrupted(release(), base, "daily", orders)
    seen = base.state("daily")["seen"]

    later = release(notes, nightly=dict(when=Delta(orders), was=["daily"]))
    async with later:
        assert await later.reactive_apply() == ["nightly"]
        assert base.value("select array_agg(task) from mainspring.reactive_task") == ["daily"]
        async with later.worker(**FAST_SETTINGS | {"lease": 5.0}):
            await wait_until(lambda: base.state("daily")["run"] is None)
            assert await later.reactive_apply() == []
            assert base.state("nightly")["seen"] == seen == {orders.key: [micros(day(1)), 0]}
            await wait_until(lambda: len(notes) == 2)

    assert notes[1] == ("nightly", {orders.key: day(2)})
    assert base.value("select array_agg(task) from mainspring.reactive_task") == ["nightly"]


async def test_a_new_consumer_is_checked_although_the_change_was_spread_before(
    app: Mainspring, release: Release, orders: Param, rates: Param
) -> None:
    """Trap: registration offers the check itself, in its own transaction."""
    notes: list[Any] = []
    await app.advance(orders, day(1))
    await run_release(release(other=Delta(rates)))  # spreads the change to nobody

    await run_release(release(notes, daily=Delta(orders)))

    assert [task for task, _ in notes] == ["daily"]


async def test_a_trigger_of_a_newer_format_is_left_to_a_newer_worker(
    app: Mainspring, release: Release, base: Base, orders: Param
) -> None:
    """Whoever cannot read it waits, and says why."""
    notes: list[Any] = []
    await run_release(release(notes, daily=Delta(orders)))
    base.rows("update mainspring.definition set format = 99")
    await app.advance(orders, day(1))
    later = release(notes, daily=Delta(orders))
    async with later, later.worker(**FAST_SETTINGS | {"lease": 5.0}):
        await wait_error(base)

    assert notes == []


async def wait_error(base: Base) -> None:
    await wait_until(
        lambda: bool(
            base.rows(
                "select 1 from mainspring.visit where error like %s", "%written in format 99%"
            )
        )
    )


async def test_two_workers_of_a_new_release_may_start_at_the_same_moment(
    base: Base, release: Release, orders: Param
) -> None:
    """Trap: a release that another worker is just naming was found by neither half of the statement,
    and the worker ended with an error instead of starting."""
    app = release(alone=Delta(orders))
    naming = (
        "insert into mainspring.reactive_release (fingerprint, tasks) values (%s, '{alone}')"
        " returning number"
    )
    with psycopg.connect(base.url) as first:
        fingerprint = release_fingerprint(list(app.reactive_tasks.values()))
        [number] = first.execute(naming, (fingerprint,)).fetchall()[0]
        second = asyncio.create_task(run_release(app))
        while not base.value(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database() and strpos(query, 'reactive_release') > 0"
        ):
            await asyncio.sleep(0)
        first.commit()
        await second

    assert base.rows("select number from mainspring.reactive_release") == [{"number": number}]
    assert base.value("select count(*) from mainspring.reactive_task") == 1
