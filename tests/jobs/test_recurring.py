"""Recurring visits: each tick once, the latest missed one made up for, zones and lines checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, InvalidTask, NotFound
from mainspring.jobs.cron import last_tick, next_tick
from mainspring.testing import run_until_idle
from visits import Visits


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# -- ticks


def test_a_tick_in_the_hour_that_is_skipped_comes_right_after_it():
    """Clocks go from 02:00 to 03:00 in Berlin on 29 March 2026."""
    assert at("2026-03-29T01:00") == next_tick(
        "30 2 * * *", "Europe/Berlin", at("2026-03-28T12:00")
    )


def test_a_tick_in_the_hour_that_comes_twice_comes_once():
    """Clocks go from 03:00 back to 02:00 in Berlin on 25 October 2026."""
    line, zone = "30 2 * * *", "Europe/Berlin"
    first = next_tick(line, zone, at("2026-10-24T12:00"))

    assert at("2026-10-25T00:30") == first
    # 01:10 UTC is 02:10 for the second time: 02:30 has been.
    assert at("2026-10-26T01:30") == next_tick(line, zone, at("2026-10-25T01:10"))
    seen = last_tick(line, zone, since=at("2026-10-24T12:00"), until=at("2026-10-25T01:10"))
    assert first == seen


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
@pytest.mark.parametrize("line", ["*/7 * * * *", "0 4 * * MON", "15 2 29 2 *", "30 1,2 * 3,10 *"])
def test_the_last_tick_until_the_next_one_is_the_next_one(line, zone):
    moment = at("2026-03-27T21:13:05")
    for _ in range(12):
        tick = next_tick(line, zone, moment)
        assert tick == last_tick(line, zone, since=moment, until=tick)
        assert last_tick(line, zone, since=moment, until=tick - timedelta(seconds=1)) is None
        moment = tick


@pytest.mark.parametrize(
    ("line", "zone", "message"),
    [
        ("0 0 30 2 *", "UTC", "never comes"),
        ("0 0 31 4,6 *", "UTC", "never comes"),
        ("61 * * * *", "UTC", "'61 [*] [*] [*] [*]' has a bad minute"),
        ("0 0 99 2 *", "UTC", "bad day-of-month"),
        ("* * *", "UTC", "wrong number of fields"),
        ("@daily", "UTC", "wrong number of fields"),
        ("0 0 * * *", "Europe/Berln", "'Europe/Berln'; did you mean 'Europe/Berlin'"),
        ("0 0 * * *", "../etc/passwd", "no time zone is named"),
    ],
)
def test_a_bad_line_or_zone_is_refused_where_it_is_declared(line, zone, message):
    app = Mainspring("postgresql://nowhere/x")

    with pytest.raises(InvalidSetting, match=message):
        app.task(cron=line, zone=zone)(tick)


async def tick() -> None:
    """A task that a cron line calls."""


async def test_a_task_that_needs_arguments_cannot_recur():
    async def greet(name: str) -> None: ...

    with pytest.raises(InvalidTask, match="calls it without arguments, but name must be given"):
        Mainspring("postgresql://nowhere/x").task(cron="* * * * *")(greet)


# -- running


@pytest.fixture
def hourly(app: Mainspring) -> Mainspring:
    app.task(cron="0 * * * *")(tick)
    return app


def ticks(visits: Visits) -> list[str]:
    rows = visits.query("select key from mainspring.history where queue = 'tick' order by key")
    return [row["key"] for row in rows]


async def to_the_next_tick(app: Mainspring, clock: Any) -> datetime:
    """Move the clock just past the next tick; answers the tick."""
    (schedule,) = await app.operator.recurring()
    assert schedule.next_at is not None
    await clock.advance(schedule.next_at - await clock.now() + timedelta(seconds=1))
    return schedule.next_at


async def test_each_tick_runs_the_task_once_under_a_key_of_its_own(hourly, clock, visits):
    """T13: cron."""
    await run_until_idle(hourly)

    expected = []
    for _ in range(2):
        due = await to_the_next_tick(hourly, clock)
        expected.append(f"tick@{due.isoformat()}")
        await run_until_idle(hourly)
        await run_until_idle(hourly)

    assert expected == ticks(visits)


async def test_after_a_long_silence_only_the_latest_missed_tick_runs(hourly, clock, visits):
    await run_until_idle(hourly)
    await to_the_next_tick(hourly, clock)
    await clock.advance(timedelta(hours=50))

    await run_until_idle(hourly)

    now = await clock.now()
    latest = now.replace(minute=0, second=0, microsecond=0)
    assert [f"tick@{latest.isoformat()}"] == ticks(visits)


async def test_a_pause_skips_ticks_and_resuming_goes_on_with_the_next(hourly, clock, visits):
    await run_until_idle(hourly)
    await hourly.operator.pause_recurring("tick")
    await clock.advance(timedelta(hours=3))
    await run_until_idle(hourly)
    (paused,) = await hourly.operator.recurring()

    await hourly.operator.resume_recurring("tick")
    await run_until_idle(hourly)
    skipped = ticks(visits)
    await to_the_next_tick(hourly, clock)
    await run_until_idle(hourly)

    assert paused.next_at is None
    assert paused.paused_at is not None
    assert skipped == []
    assert len(ticks(visits)) == 1


async def test_a_changed_line_holds_from_the_next_start_of_a_worker(app, clock, visits):
    app.task(cron="0 0 1 1 *")(tick)
    await run_until_idle(app)
    far = (await app.operator.recurring())[0].next_at

    app.tasks.clear()
    app.task(cron="*/5 * * * *")(tick)
    await run_until_idle(app)

    near = (await app.operator.recurring())[0].next_at
    assert near < far
    assert ticks(visits) == []
    await to_the_next_tick(app, clock)
    await run_until_idle(app)
    assert len(ticks(visits)) == 1


async def test_a_line_that_is_no_longer_declared_is_removed(hourly, clock, visits):
    await run_until_idle(hourly)
    hourly.tasks.clear()
    hourly.task(tick)

    await run_until_idle(hourly)
    await clock.advance(timedelta(hours=3))
    await run_until_idle(hourly)

    assert await hourly.operator.recurring() == []
    assert ticks(visits) == []


async def test_resuming_heals_a_schedule_that_a_clock_far_ahead_has_ticked(hourly, clock, visits):
    """The clock was a year ahead for a moment: no tick would come for a year, and nobody could help."""
    await run_until_idle(hourly)
    await clock.advance(timedelta(days=365))
    await run_until_idle(hourly)
    await clock.advance(timedelta(days=-365))
    before = ticks(visits)
    assert len(before) == 1

    await hourly.operator.pause_recurring("tick")
    await hourly.operator.resume_recurring("tick")
    due = await to_the_next_tick(hourly, clock)
    await run_until_idle(hourly)

    assert set(ticks(visits)) - set(before) == {f"tick@{due.isoformat()}"}


async def test_a_schedule_is_not_parked_for_what_killed_workers_beside_it(hourly, visits):
    """It is held when it is a suspect, so three deaths of others would have ended it in silence."""
    await run_until_idle(hourly)
    worker_id = visits.join(queues=["mainspring.recurring"])
    for _ in range(5):
        run = visits.start(visits.visit("tick", "mainspring.recurring"))
        assert visits.hold(worker_id, run)
        visits.declare_dead(worker_id)
        assert [row["crashes"] for row in visits.recover()]
        worker_id = visits.join(queues=["mainspring.recurring"])
    visits.declare_dead(worker_id)

    row = visits.row("tick", "mainspring.recurring")
    assert row is not None
    assert (row["crashes"], row["parked_at"]) == (5, None)


async def test_the_workers_of_the_task_s_pool_make_its_ticks(app, clock, visits):
    """T13: no worker of the default pool is needed."""
    app.task(cron="0 * * * *", pool="billing")(tick)
    await run_until_idle(app, pool="billing")
    await app.operator.pause_recurring("tick")
    await app.operator.resume_recurring("tick")
    due = await to_the_next_tick(app, clock)

    await run_until_idle(app, pool="billing")

    assert [f"tick@{due.isoformat()}"] == ticks(visits)


async def test_a_schedule_moves_with_its_task_to_another_pool(hourly, clock, visits):
    await run_until_idle(hourly)
    hourly.tasks.clear()
    hourly.task(cron="0 * * * *", pool="billing")(tick)
    await run_until_idle(hourly, pool="billing")
    due = await to_the_next_tick(hourly, clock)

    for pool in ("default", "billing", "default", "billing"):
        await run_until_idle(hourly, pool=pool)

    assert [f"tick@{due.isoformat()}"] == ticks(visits)
    recurring = visits.query("select queue from mainspring.visit where key = 'tick'")
    assert recurring == [{"queue": "mainspring.recurring@billing"}]


async def test_schedules_of_another_application_are_left_alone(hourly, database_url):
    await run_until_idle(hourly)
    async with Mainspring(database_url) as other:
        other.task(name="something")(tick)
        await run_until_idle(other)

    assert [r.name for r in await hourly.operator.recurring()] == ["tick"]


async def test_an_unknown_name_is_answered_with_the_nearest(hourly):
    await run_until_idle(hourly)

    with pytest.raises(NotFound, match="did you mean 'tick'"):
        await hourly.operator.pause_recurring("tik")
    await hourly.operator.remove_recurring("tick")
    assert await hourly.operator.recurring() == []
