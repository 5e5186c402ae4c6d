"""Schedules: arguments, several lines, what is made up for, orders at run time, processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, InvalidTask, NotFound
from mainspring.testing import Clock, run_until_idle
from visits import Visits

HOUR = timedelta(hours=1)


async def report(region: str = "all", tick: datetime | None = None) -> None:
    """A task that schedules enqueue."""


def runs(visits: Visits, queue: str = "report") -> list[tuple[str, Any]]:
    rows = visits.query(
        "select key, payload from mainspring.history where queue = %s order by ended_at, key", queue
    )
    return [(row["key"], row["payload"]) for row in rows]


async def ticked(app: Mainspring, clock: Clock, name: str) -> datetime:
    """Move the clock just past the next tick of a schedule, and let everything run."""
    at = (await app.schedules.get(name)).next_at
    assert at is not None
    await clock.advance(at - await clock.now() + timedelta(milliseconds=10))
    await run_until_idle(app)
    return at


# -- declared


async def test_a_task_has_several_lines_and_arguments(app, clock, visits):
    """T13: several lines a task, arguments."""
    app.task(cron=["0 4 * * *", "*/20 * * * * *"], cron_args={"region": "eu"})(report)
    await run_until_idle(app)

    assert [s.name for s in await app.schedules.list()] == ["report", "report#2"]
    at = await ticked(app, clock, "report#2")
    ((key, payload),) = runs(visits)
    assert key == f"report#2@{at.isoformat()}"
    assert payload == {"region": "eu"}


async def test_schedules_are_declared_with_calls_of_their_own(app, clock, visits):
    """T13: `app.schedule(task.bind(...))`, with the group and priority of the call."""
    task = app.task(report)
    app.schedule(task.options(group="x", priority=8).bind(region="eu"), cron="0 * * * *", name="eu")
    app.schedule(task.bind(region="us"), cron="30 * * * *", name="us", zone="Asia/Kathmandu")
    await run_until_idle(app)
    row = visits.query("select grp, priority from mainspring.recurring where name = 'eu'")
    assert row == [{"grp": "x", "priority": 8}]

    eu, us = await ticked(app, clock, "eu"), await ticked(app, clock, "us")

    assert {f"eu@{eu.isoformat()}", f"us@{us.isoformat()}"} <= {key for key, _ in runs(visits)}
    assert (us.minute, eu.minute) == (45, 0)
    groups = visits.query("select distinct grp from mainspring.history where key ^@ 'eu@'")
    assert groups == [{"grp": "x"}]


async def test_an_argument_gets_the_time_of_the_tick(app, clock, visits):
    app.task(cron="0 * * * *", tick_argument="at")(needs_the_tick)
    await run_until_idle(app)

    at = await ticked(app, clock, "needs_the_tick")

    (row,) = visits.query("select result from mainspring.history where queue = 'needs_the_tick'")
    assert [at.isoformat(), "x"] == row["result"]


async def needs_the_tick(at: datetime, more: str = "x") -> list[str]:
    return [at.isoformat(), more]


async def test_a_process_starts_at_each_tick_once(app, clock, visits):
    """T13: for processes too; the tick's key is the process's own id."""
    task = app.task(report)

    @app.process
    def nightly(day: datetime | None, region: str = "all"):
        return task(region, day)

    app.schedule(
        nightly.options(attrs={"who": "cron"}).bind(None, region="eu"),
        cron="0 * * * *",
        tick_argument="day",
    )
    await run_until_idle(app)

    at = await ticked(app, clock, "nightly")
    visits.query("update mainspring.visit set due_at = mainspring.now() where key = 'nightly'")
    await run_until_idle(app)

    (row,) = visits.query("select key, state, start, attrs from mainspring.process")
    assert row["key"] == f"nightly@{at.isoformat()}"
    assert row["state"] == "finished"
    assert datetime.fromisoformat(row["start"]["day"]) == at
    assert (row["start"]["region"], row["attrs"]) == ("eu", {"who": "cron"})


async def test_a_schedule_that_is_no_longer_declared_goes_one_made_at_run_time_stays(app):
    task = app.task(report)
    app.schedule(task.bind(), cron="0 * * * *", name="declared")
    await run_until_idle(app)
    await app.schedules.add("made", task.bind(), cron="0 * * * *")
    del app.schedules._declared["declared"]

    await run_until_idle(app)

    assert [s.name for s in await app.schedules.list()] == ["made"]


# -- after a silence


@pytest.mark.parametrize(
    ("policy", "most", "expected"),
    [("skip", 100, 0), ("one", 100, 1), ("all", 100, 5), ("all", 3, 3)],
)
async def test_missed_ticks_are_made_by_the_policy(app, clock, visits, policy, most, expected):
    """T13: catch-up after downtime, with a bound; the latest are made, the oldest first."""
    task = app.task(report)
    app.schedule(
        task.bind(), cron="0 * * * *", catch_up=policy, catch_up_max=most, tick_argument="tick"
    )
    await run_until_idle(app)
    first = (await app.schedules.get("report")).next_at
    await clock.advance(first - await clock.now() + 4 * HOUR + timedelta(minutes=20))

    await run_until_idle(app)
    await run_until_idle(app)

    made = sorted(payload["tick"] for _, payload in runs(visits))
    ticks = [first + n * HOUR for n in range(5)]
    latest = ticks[-expected:] if expected else []
    assert latest == [datetime.fromisoformat(tick) for tick in made]
    assert await ticked(app, clock, "report") == first + 5 * HOUR
    assert len(runs(visits)) == expected + 1


async def test_a_tick_that_comes_in_time_is_made_though_missed_ones_are_skipped(app, clock, visits):
    task = app.task(report)
    app.schedule(task.bind(), cron="0 * * * *", catch_up="skip")
    await run_until_idle(app)
    first = (await app.schedules.get("report")).next_at
    await clock.advance(first - await clock.now() + 2 * HOUR + timedelta(seconds=30))

    await run_until_idle(app)

    assert [f"report@{(first + 2 * HOUR).isoformat()}"] == [key for key, _ in runs(visits)]


@pytest.mark.parametrize(("policy", "expected"), [("skip", 0), ("one", 1), ("all", 3)])
async def test_ticks_of_a_pause_are_made_up_for_if_one_asks(app, clock, visits, policy, expected):
    """T13: catch-up after a pause; once, and then the schedule's own policy holds again."""
    app.task(cron="0 * * * *")(report)
    await run_until_idle(app)
    first = (await app.schedules.get("report")).next_at
    await app.schedules.pause("report", reason="month end", source="ann")
    await clock.advance(first - await clock.now() + 2 * HOUR + timedelta(minutes=20))
    await run_until_idle(app)
    assert runs(visits) == []

    await app.schedules.resume("report", catch_up=policy)
    await run_until_idle(app)

    assert len(runs(visits)) == expected
    await clock.advance(5 * HOUR)
    await run_until_idle(app)
    assert len(runs(visits)) == expected + 1


async def test_a_pause_ends_by_itself_though_no_worker_lived_then(app, clock, visits):
    """T13: paused with a reason and a time; its ticks are skipped."""
    app.task(cron="0 * * * *")(report)
    await run_until_idle(app)
    first = (await app.schedules.get("report")).next_at
    until = first + 3 * HOUR
    await app.schedules.pause("report", reason="month end", until=until)
    paused = await app.schedules.get("report")
    assert (paused.pause_reason, paused.paused_until, paused.next_at) == ("month end", until, until)
    await clock.advance(HOUR + HOUR / 2)
    await run_until_idle(app)
    assert (await app.schedules.get("report")).paused_at is not None
    await clock.advance(until - await clock.now() + HOUR / 2)

    await run_until_idle(app)
    await run_until_idle(app)

    resumed = await app.schedules.get("report")
    assert (resumed.paused_at, resumed.pause_reason, resumed.paused_until) == (None, None, None)
    assert [f"report@{until.isoformat()}"] == [key for key, _ in runs(visits)]


# -- once


async def test_a_clock_that_steps_back_makes_no_tick_twice(app, clock, visits):
    """T13: never twice for one tick, though an operator pauses and resumes meanwhile."""
    app.task(cron="*/10 * * * *")(report)
    await run_until_idle(app)
    for _ in range(3):
        await ticked(app, clock, "report")
    await clock.advance(timedelta(minutes=-25))
    await run_until_idle(app)
    await app.schedules.pause("report")
    await app.schedules.resume("report", catch_up="all")
    for _ in range(6):
        await clock.advance(timedelta(minutes=5))
        await run_until_idle(app)

    keys = [key for key, _ in runs(visits)]
    assert len(keys) == len(set(keys)) == 3
    await ticked(app, clock, "report")
    assert len(runs(visits)) == 4


async def test_a_second_worker_with_the_same_tick_in_hand_makes_none(app, visits):
    """T13: the one that was slow, or thought dead, finds the tick made; a change drops it too."""
    app.task(cron="0 * * * *")(report)
    await run_until_idle(app)
    tick = datetime(2040, 1, 1, tzinfo=UTC)

    def make(revision: int, at: datetime) -> int:
        id = uuid4()
        visits.call(
            "tick_recurring",
            name="report",
            revision=revision,
            first=at,
            last=at,
            last_id=id,
            keys=[f"report@{id}"],
            shards=[1],
            ids=[id],
            versions=[id.int >> 66],
            payloads=["{}"],
        )
        return visits.value("select count(*) from mainspring.visit where queue = 'report'")

    assert make(0, tick) == 1
    assert make(0, tick) == 1
    assert make(0, tick - HOUR) == 1
    assert make(1, tick + HOUR) == 1
    assert make(0, tick + HOUR) == 2


# -- at run time


async def test_schedules_are_made_changed_and_removed_at_run_time(app, clock, visits):
    """T13: at run time, kept in the database, each order with who gave it."""
    task = app.task(report)
    await run_until_idle(app)

    await app.schedules.add("tenant", task.bind(region="7"), cron="0 * * * *", source="ann")
    await ticked(app, clock, "tenant")
    await app.schedules.change(
        "tenant", task.bind(region="8"), cron="*/10 * * * * *", catch_up="all", source="bob"
    )
    soon = await app.schedules.ticks("tenant", 3)
    assert [soon[0] + n * timedelta(seconds=10) for n in range(3)] == soon
    await ticked(app, clock, "tenant")
    await app.schedules.remove("tenant", source="eve")
    await clock.advance(2 * HOUR)
    await run_until_idle(app)

    assert [payload["region"] for _, payload in runs(visits)] == ["7", "8"]
    changes = visits.query(
        "select source, before, after from mainspring.setting_change"
        " where subject = 'schedule tenant' order by id"
    )
    assert [change["source"] for change in changes] == ["ann", "bob", "eve"]
    assert changes[1]["before"]["cron"] == "0 * * * *"
    assert changes[1]["after"]["cron"] == "*/10 * * * * *"
    assert changes[1]["after"]["arguments"] == "changed"
    assert "payload" not in changes[1]["before"]
    assert changes[2]["after"] == {}


async def test_a_change_by_an_operator_stands_until_the_declaration_changes(app, clock):
    app.task(cron="0 * * * *")(report)
    await run_until_idle(app)
    await app.schedules.change("report", cron="5 * * * *", source="ann")

    await run_until_idle(app)
    changed = await app.schedules.get("report")
    app.tasks.clear()
    app.task(cron="10 * * * *")(report)
    await run_until_idle(app)
    declared = await app.schedules.get("report")

    assert (changed.cron, changed.changed_by) == ("5 * * * *", "ann")
    assert (declared.cron, declared.changed_by) == ("10 * * * *", None)


async def test_a_worker_of_the_release_before_that_wrote_its_line_is_put_right(app, visits):
    """A rollback, and forward again: the same declaration, another line in the row."""
    app.task(cron="0 * * * *")(report)
    await run_until_idle(app)
    visits.query("update mainspring.recurring set cron = '7 * * * *'")

    await run_until_idle(app)

    assert (await app.schedules.get("report")).cron == "0 * * * *"


async def test_a_schedule_is_made_by_the_name_of_its_task_or_process(app, clock, visits):
    """As the command line does it, without the code."""
    app.task(report)

    @app.process
    def nightly(region: str):
        return region

    await run_until_idle(app)
    operator = app.operator
    await operator.schedule_by_name("a", "report", {"region": "eu"}, cron="0 * * * *")
    await operator.schedule_by_name("b", "nightly", {"region": "us"}, cron="0 * * * *")

    await ticked(app, clock, "a")

    assert [payload["region"] for _, payload in runs(visits)] == ["eu"]
    assert visits.value("select start->>'region' from mainspring.process") == "us"
    with pytest.raises(NotFound, match=r"no task or process type is named 'mainspring\.process'"):
        await operator.schedule_by_name("c", "mainspring.process", {}, cron="0 * * * *")


# -- what is refused


def at_nowhere() -> Mainspring:
    return Mainspring("postgresql://nowhere/x")


MISTAKES: list[tuple[Callable[[Mainspring], object], type[Exception], str]] = [
    (
        lambda app: app.task(cron=5)(report),
        InvalidTask,
        "cron must be a cron line or several, got 5",
    ),
    (lambda app: app.task(catch_up="all")(report), InvalidTask, "catch_up='all' is that of a cron"),
    (
        lambda app: app.task(cron="* * * * *", cron_args=["x"])(report),
        InvalidTask,
        "cron_args must be a dict of arguments by name, got ['x']",
    ),
    (
        lambda app: app.task(cron="* * * * *", catch_up="some")(report),
        InvalidSetting,
        "catch_up must be 'skip', 'one' or 'all', got 'some'",
    ),
    (
        lambda app: app.task(cron="* * * * *", tick_argument="when")(report),
        InvalidTask,
        "tick_argument of task 'report' names 'when', which is not one of its arguments (region, tick)",
    ),
    (
        lambda app: app.task(cron="* * * * *", cron_args={"tick": None})(needs_both),
        InvalidTask,
        "which calls it, but region must be given: give it in cron_args=, or a default",
    ),
    (
        lambda app: app.schedule(app.task(report), cron="* * * * *"),
        InvalidSetting,
        "a schedule takes a call made with task.bind(...) or process.bind(...), got <task report>",
    ),
    (
        lambda app: app.schedule(app.task(report).options(key="k").bind(), cron="* * * * *"),
        InvalidSetting,
        "a schedule keeps priority, group of a call's options; key= is no part of one",
    ),
    (
        lambda app: app.schedule(app.task(report).bind(), cron="* * * * *", name="a@b"),
        InvalidSetting,
        "a schedule's name must be printable, without '@', got 'a@b'",
    ),
    (
        lambda app: app.schedule(app.task(cron="* * * * *")(report).bind(), cron="* * * * *"),
        InvalidSetting,
        "a schedule is named 'report' already; give this one another name=",
    ),
]


async def needs_both(region: str, tick: datetime | None) -> None: ...


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES)
def test_a_mistake_is_told_where_it_is_made(mistake, error, text):
    with pytest.raises(error, match=re.escape(text)):
        mistake(at_nowhere())


async def test_orders_that_cannot_be_are_refused(app, clock):
    task = app.task(report)
    other = app.task(needs_both)
    await run_until_idle(app)
    await app.schedules.add("mine", task.bind(), cron="0 * * * *")

    with pytest.raises(InvalidSetting, match="a schedule is named 'mine' already; change it"):
        await app.schedules.add("mine", task.bind(), cron="0 * * * *")
    with pytest.raises(InvalidSetting, match="starts 'report', not 'needs_both'; remove it"):
        await app.schedules.change("mine", other.bind("x", None))
    with pytest.raises(InvalidSetting, match="name something to change"):
        await app.schedules.change("mine")
    with pytest.raises(InvalidSetting, match="schedule 'mine' has no setting 'crn'; did you mean"):
        await app.schedules.change("mine", crn="0 * * * *")
    with pytest.raises(InvalidSetting, match="a pause must end in the future"):
        await app.schedules.pause("mine", until=await clock.now())
    with pytest.raises(InvalidSetting, match="catch_up must be 'skip', 'one' or 'all'"):
        await app.schedules.resume("mine", catch_up="never")
    with pytest.raises(NotFound, match="no schedule is named 'min'; did you mean 'mine'"):
        await app.schedules.get("min")
