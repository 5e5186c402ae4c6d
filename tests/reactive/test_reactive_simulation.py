"""The simulation kit: rules of reactive tasks on a fake clock, without a database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, InvalidValue, UnknownReactiveTask, WentBack
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.gates import cron
from mainspring.reactive.model.plain import caught_up, fresh, in_this_chunk, new_data, new_day
from mainspring.reactive.model.triggers import Trigger, all_of
from mainspring.reactive.model.values import Param
from mainspring.testing import ParamSet, ReactiveSimulation, replay

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Declare = Callable[..., Any]


@pytest.fixture
def app() -> Mainspring:
    """An application that never connects."""
    return Mainspring("postgresql://nobody@localhost:1/nowhere")


@pytest.fixture
def orders(app: Mainspring) -> Param:
    return app.data("dwh.orders").param("loaded_to", external=True)


@pytest.fixture
def fx(app: Mainspring) -> Param:
    return app.data("ext.fx").param("loaded_to", external=True)


@pytest.fixture
def built(app: Mainspring) -> Param:
    return app.data("mart.daily").param("built_to")


@pytest.fixture
def declare(app: Mainspring) -> Declare:
    def declare(when: Trigger, name: str = "daily", **settings: Any) -> None:
        app.task(when=when, name=name, **settings)(lambda: None)

    return declare


def outcomes(sim: ReactiveSimulation, task: str = "daily") -> list[tuple[datetime, str]]:
    return [(ran.started_at, ran.outcome) for ran in sim.timeline.of(task)]


def test_a_task_waits_for_all_its_data(
    app: Mainspring, orders: Param, fx: Param, declare: Declare
) -> None:
    """R2: the sketch that everybody writes first."""
    declare(all_of(new_day(orders), caught_up(fx, with_=orders, chunk="day")), expect_within="26h")
    sim = ReactiveSimulation(app, start=START)

    sim.set(orders, START + 9 * DAY + HOUR)
    assert sim.fires("daily") is None
    assert [fact.text for fact in sim.why("daily").next] == [
        "ext.fx.loaded_to >= 2026-03-10 00:00:00Z"
    ]
    sim.set(fx, START + 9 * DAY)
    fires = sim.fires("daily")
    assert fires is not None
    assert fires.chunks(orders, "day") == ["2026-03-10"]
    assert fires.cause == "dwh.orders.loaded_to nothing -> 2026-03-10"


def test_a_run_gets_its_values_and_brings_its_product(
    app: Mainspring, orders: Param, built: Param, declare: Declare
) -> None:
    """R10: seen := what the check saw; the product comes with the success."""
    told: list[Any] = []

    @app.task(when=new_day(orders), produces=[built])
    async def daily(run: ReactiveRun) -> None:
        told.append([start.day for start in run.chunks(orders)])
        value = run.current[orders]
        run.advance(built, value)

    declare(new_data(built), "report")
    sim = ReactiveSimulation(app, start=START, takes={"daily": "1h", "report": "5m"})
    sim.plan([ParamSet(START + n * DAY, orders, START + n * DAY) for n in (1, 2)])
    sim.plan([ParamSet(START + 2 * DAY + HOUR / 2, orders, START + 5 * DAY)])
    sim.run_until(START + 9 * DAY)

    assert told == [[2], [3], [4, 5, 6]], "what came during a run is done by the next"
    assert [ran.started_at for ran in sim.timeline.of("report")] == [
        START + DAY + HOUR,
        START + 2 * DAY + HOUR,
        START + 2 * DAY + 2 * HOUR,
    ]
    assert sim.value(built) == START + 5 * DAY


def test_a_failed_run_records_nothing_and_is_checked_afresh(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R10: after a backoff, not before; the failure consumes nothing."""
    declare(new_day(orders))
    sim = ReactiveSimulation(app, start=START, takes={"daily": "1m"})
    sim.fail_next("daily", 2)
    sim.set(orders, START)
    sim.advance("1h")

    assert [outcome for _, outcome in outcomes(sim)] == ["failed", "failed", "done"]
    starts = [at for at, _ in outcomes(sim)]
    assert starts[1] - starts[0] == timedelta(minutes=1, seconds=1)
    assert starts[2] - starts[1] == timedelta(minutes=1, seconds=2)
    assert "failed, as the simulation was told" in sim.timeline.lines()[0]


def test_a_function_that_raises_fails_the_run(app: Mainspring, orders: Param, built: Param) -> None:
    """R10: products of a failed run are dropped."""

    @app.task(when=new_day(orders), produces=[built])
    def daily(run: ReactiveRun) -> None:
        run.advance(built, START)
        raise RuntimeError("no disk")

    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START)
    sim.advance("61s")

    assert sim.timeline.of("daily")[0].error == "RuntimeError: no disk"
    assert sim.value(built) is None


def test_a_product_that_goes_back_fails_the_run_by_name(
    app: Mainspring, orders: Param, built: Param
) -> None:
    """R10: normal after a rewind upstream; both ways out are named."""

    @app.task(when=new_data(orders), produces=[built], on_rewind="rerun")
    def daily(run: ReactiveRun) -> None:
        run.advance(built, run.current[orders])

    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START + 9 * DAY)
    sim.advance("1h")
    sim.rewind(orders, START + 5 * DAY)
    sim.set(orders, START + 6 * DAY)
    sim.advance("10m")

    error = sim.timeline.of("daily")[-1].error
    assert error is not None
    assert "would go back" in error
    assert "rewind" in error
    assert "if_greater" in error


def test_a_first_release_runs_on_what_is_there_or_takes_it_as_seen(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R11: first_run="now" is the rule, "baseline" the choice."""
    declare(new_day(orders), "now")
    declare(new_day(orders), "later", first_run="baseline")
    sim = ReactiveSimulation([], start=START)
    sim.set(orders, START)
    for task in app.reactive_tasks.values():
        sim.release(task)
    sim.advance("1h")

    assert len(sim.timeline.of("now")) == 1
    assert sim.timeline.of("later") == []
    sim.set(orders, START + DAY)
    sim.advance("1h")
    assert len(sim.timeline.of("later")) == 1


def test_a_changed_trigger_fires_on_a_new_param_only(
    app: Mainspring, orders: Param, fx: Param, declare: Declare
) -> None:
    """R12: a Delta on a known param is computed as usual, on a new one it is true at once."""
    declare(new_day(orders))
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START)
    sim.set(fx, START)
    sim.advance("1h")
    sim.change("daily", in_this_chunk(orders, "month"))
    sim.change("daily", new_data(orders))
    sim.advance("1h")
    assert len(sim.timeline.runs) == 1

    sim.change("daily", all_of(new_data(orders), new_data(fx)))
    sim.advance("1h")
    assert len(sim.timeline.runs) == 1, "that leaf, not the tree"
    sim.set(orders, START + HOUR)
    sim.advance("1h")
    assert len(sim.timeline.runs) == 2


@pytest.mark.parametrize(("policy", "runs"), [("report", 1), ("rerun", 2), ("hold", 1)])
def test_a_rewind_is_reported_done_again_or_held(
    app: Mainspring, orders: Param, declare: Declare, policy: str, runs: int
) -> None:
    """R13: the affected tasks are listed; what happens is the task's policy."""
    declare(new_day(orders), on_rewind=policy)
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START + 9 * DAY)
    sim.advance("1h")

    assert sim.rewind(orders, START + 5 * DAY) == ["daily"]
    sim.set(orders, START + 7 * DAY)
    sim.advance("1h")
    assert len(sim.timeline.of("daily")) == runs
    if policy == "hold":
        waits = sim.why("daily").waits_for
        assert waits is not None
        assert "was rewound" in waits


def test_repairs_are_one_command_each(app: Mainspring, orders: Param, declare: Declare) -> None:
    """R13: for Delta moving or deleting what was seen, for the rest a manual run that records."""
    declare(new_day(orders), on_rewind="hold")
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START + 9 * DAY)
    sim.advance("1h")
    sim.rewind(orders, START + 5 * DAY)
    sim.run("daily", record=True)
    sim.advance("1h")
    assert [ran.kind for ran in sim.timeline.of("daily")] == ["regular", "manual"]
    sim.set(orders, START + 6 * DAY)
    sim.advance("1h")
    assert len(sim.timeline.of("daily")) == 3, "the recorded run took the rewind up"

    sim.move_seen("daily", orders, START)
    assert sim.fires("daily") is not None
    sim.advance("1h")
    sim.delete_seen("daily", orders)
    sim.advance("1h")
    assert len(sim.timeline.of("daily")) == 5


def test_a_manual_run_records_only_if_told_to(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R10: and manual and regular exclude each other."""
    declare(new_day(orders), not_before=cron("0 6 * * *"))
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START)
    sim.run("daily")
    sim.run_until(START + 5 * HOUR)
    assert [ran.kind for ran in sim.timeline.runs] == ["manual"]
    sim.run_until(START + 7 * HOUR)
    assert [ran.kind for ran in sim.timeline.runs] == ["manual", "regular"]


def test_a_repair_made_while_a_task_runs_outlives_its_success(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R10."""
    declare(new_day(orders))
    sim = ReactiveSimulation(app, start=START, takes={"daily": "1h"})
    sim.set(orders, START)
    sim.advance("30m")
    sim.delete_seen("daily", orders)
    sim.advance("45m")

    assert len(sim.timeline.runs) == 1
    assert sim.find("daily").firing is not None


def test_a_waiting_run_whose_param_was_rewound_is_void(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R10: it does not start, it is checked afresh."""
    declare(new_day(orders), "first", priority=9)
    declare(new_day(orders), "second", on_rewind="rerun")
    sim = ReactiveSimulation(app, start=START, cap=1, takes={"first": "1h"})
    sim.set(orders, START + 9 * DAY)
    sim.advance("30m")
    sim.rewind(orders, START)
    sim.advance("2h")

    assert [ran.outcome for ran in sim.timeline.of("second")] == ["void", "done"]


def test_the_more_important_goes_first_and_the_cap_holds(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R8."""
    for name, priority in (("low", 1), ("mid", 5), ("high", 9), ("also_high", 9)):
        declare(new_day(orders), name, priority=priority)
    sim = ReactiveSimulation(app, start=START, cap=2, takes=dict.fromkeys(("low", "high"), "1h"))
    sim.set(orders, START)
    sim.advance("1d")

    assert [ran.task for ran in sorted(sim.timeline.runs, key=lambda ran: ran.started_at)] == [
        "also_high",
        "high",
        "mid",
        "low",
    ]
    running = [(r.started_at, 1) for r in sim.timeline.runs] + [
        (r.ended_at, -1) for r in sim.timeline.runs
    ]
    level = most = 0
    for _, step in sorted(running):
        level += step
        most = max(most, level)
    assert most == 2


def test_a_missed_expectation_is_reported_once(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R14: no recorded success within the time it says."""
    declare(all_of(new_day(orders), in_this_chunk(orders, "day", 1)), expect_within="26h")
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START)
    sim.advance("5d")
    assert [missed.at for missed in sim.timeline.missed] == [START + timedelta(minutes=1, hours=26)]

    sim.set(orders, START + 5 * DAY)
    sim.advance("5d")
    assert len(sim.timeline.missed) == 2


def test_a_task_that_nothing_paces_is_stopped_by_name(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R15: found at declaration, and by the simulation at the latest."""
    declare(fresh(orders, "1000d"))
    sim = ReactiveSimulation(app, start=START, takes={"daily": "0s"}, most_runs=50)
    sim.set(orders, START)

    with pytest.raises(InvalidSetting, match="50 runs and no end, the last of 'daily'"):
        sim.advance("1d")


def test_debounce_gathers_a_burst(app: Mainspring, orders: Param, declare: Declare) -> None:
    """R16: one run for a burst, after it is quiet."""
    declare(new_data(orders), debounce="5m")
    sim = ReactiveSimulation(app, start=START)
    minutes = [
        ParamSet(START + timedelta(minutes=n), orders, START + timedelta(minutes=n))
        for n in range(9)
    ]
    sim.plan(minutes)
    sim.advance("1d")

    assert outcomes(sim) == [(START + timedelta(minutes=13), "done")]


def test_a_value_ahead_of_the_clock_is_looked_at_in_time(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R7: the one verdict that time alone turns true."""
    declare(all_of(in_this_chunk(orders, "day"), new_data(orders)))
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START + 3 * DAY + HOUR)
    sim.advance("9d")

    assert outcomes(sim) == [(START + 3 * DAY, "done")]


def test_a_history_is_replayed_through_changed_triggers(
    app: Mainspring, orders: Param, fx: Param, declare: Declare
) -> None:
    """What would have run last month."""
    history = [ParamSet(START + n * DAY + HOUR, orders, START + n * DAY) for n in range(10)]
    history += [ParamSet(START + n * DAY + 2 * HOUR, fx, START + n * DAY) for n in range(0, 10, 2)]
    declare(new_day(orders), "before")
    declare(all_of(new_day(orders), caught_up(fx, with_=orders, chunk="day")), "after")

    timeline = replay(app, history, until=START + 10 * DAY)
    assert len(timeline.of("before")) == 10
    assert [ran.started_at for ran in timeline.of("after")] == [
        START + n * DAY + 2 * HOUR for n in range(0, 10, 2)
    ]
    later = replay(app, history, start=START + 5 * DAY, until=START + 10 * DAY)
    assert len(later.of("before")) == 5, "what was set before counts as seen"
    assert replay(app, []).runs == []


def test_a_timeline_is_drawn(app: Mainspring, orders: Param, declare: Declare) -> None:
    declare(new_day(orders), expect_within="30h")
    sim = ReactiveSimulation(app, start=START)
    sim.plan([ParamSet(START + n * DAY, orders, START + n * DAY) for n in (0, 1, 4)])
    sim.run_until(START + DAY - HOUR)
    sim.fail_next("daily")
    sim.run_until(START + 5 * DAY)

    assert sim.timeline.chart() == "\n".join(
        [
            f"{'':24} 01 02 03 04 05",
            f"{'daily':24}  1 x1 !·  ·  1",
        ]
    )
    assert sim.timeline.lines()[0] == (
        "2026-03-01 00:00:00Z  daily  done in 1m  because dwh.orders.loaded_to nothing -> 2026-03-01"
    )


def test_a_day_is_drawn_with_what_waited_and_failed(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R8: with one slot the less important waits for it, and the chart shows that."""
    declare(new_day(orders), name="first", priority=9)
    declare(new_day(orders), name="second", expect_within="5h")
    sim = ReactiveSimulation(app, start=START, takes={"first": "1h", "second": "30m"}, cap=1)
    sim.set(orders, START)
    sim.run_until(START + 20 * HOUR)

    assert sim.timeline.day_chart(START) == "\n".join(
        [
            f"{'':24} 00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
            f"{'first':24} ███{69 * '·'}",
            f"{'second':24} ░░░██{14 * '·'}!{52 * '·'}",
        ]
    )
    assert sim.timeline.usual_duration("second") == timedelta(minutes=30)
    assert sim.timeline.usual_duration("third") is None


def test_why_names_the_producer_and_how_long_it_usually_takes(
    app: Mainspring, orders: Param, declare: Declare
) -> None:
    """R17: the next fact comes with who brings it, without a database too."""
    built = app.data("mart.revenue").param("built_to")
    declare(new_day(orders), name="build", produces=[built])
    declare(new_day(built), name="report")
    sim = ReactiveSimulation(app, start=START, takes={"build": "25m"}, calls=False)
    sim.set(orders, START)
    sim.run_until(START + HOUR)
    sim.set(orders, START + DAY)
    sim.run_until(START + HOUR + timedelta(minutes=10))

    assert sim.why("report").next[0].producers == (
        "build brings it, running for 10m, usually takes 25m",
    )


def test_what_cannot_be_is_refused(app: Mainspring, orders: Param, declare: Declare) -> None:
    declare(new_day(orders))
    with pytest.raises(InvalidValue, match="got the naive"):
        ReactiveSimulation(app, start=datetime(2026, 3, 1))
    sim = ReactiveSimulation(app, start=START)
    sim.set(orders, START)
    with pytest.raises(WentBack, match="would go back"):
        sim.set(orders, START - DAY)
    assert not sim.set(orders, START - DAY, if_greater=True)
    assert not sim.set(orders, START)
    with pytest.raises(InvalidSetting, match="is not back; use set"):
        sim.rewind(orders, START + DAY)
    with pytest.raises(UnknownReactiveTask, match="did you mean 'daily'"):
        sim.why("dayly")
    with pytest.raises(InvalidSetting, match="time does not go back"):
        sim.run_until(START - DAY)
