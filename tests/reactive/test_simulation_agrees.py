"""The simulation and the engine, side by side on the same random story: they run the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring, ReactiveRun
from mainspring.reactive import (
    all_of,
    any_of,
    caught_up,
    fresh,
    grown_by,
    in_this_chunk,
    new_data,
    new_day,
)
from mainspring.reactive.model.values import Param
from mainspring.testing import (
    Clock,
    ParamSet,
    ReactiveSimulation,
    read_changes,
    replay,
    run_until_idle,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# A worker that a busy machine fences would count its run as crashed, and a manual one is not repeated.
LEASE = 10.0


class Platform:
    """Tasks of every kind; each run notes what it was told, in whichever world it runs."""

    def __init__(self, app: Mainspring) -> None:
        self.app = app
        self.notes: list[Any] = []
        self.fail: set[str] = set()
        self.orders, self.rides, self.fx = (
            app.data("raw").param(name, external=True) for name in ("orders", "rides", "fx")
        )
        self.batch = app.data("raw").param("batch", kind="integer", external=True)
        self.schema = app.data("raw").param("schema", kind="version", external=True)
        self.built = app.data("mart").param("built")
        orders, rides, fx, built = self.orders, self.rides, self.fx, self.built
        self.declare("days", new_day(orders, "Europe/Berlin"), produces=[built], on_rewind="rerun")
        self.declare("held", all_of(new_day(orders), new_data(rides)), on_rewind="hold")
        self.declare("gate", all_of(new_data(orders), caught_up(fx, with_=orders, chunk="day")))
        self.declare("late", all_of(new_data(rides), fresh(rides, "36h")))
        self.declare("either", any_of(grown_by(self.batch, 3), new_data(self.schema)))
        self.declare("same", all_of(in_this_chunk(fx, "day"), new_data(fx)))
        self.declare("follows", new_data(built), min_interval="2h")

    def declare(self, name: str, when: Any, **settings: Any) -> None:
        def work(run: ReactiveRun) -> None:
            if name in self.fail:
                raise RuntimeError("told to")
            told = [(p.key, run.seen[p], run.current[p]) for p in run.current]
            chunks = run.chunks(self.orders) if name == "days" else []
            self.notes.append((name, run.kind, sorted(told, key=lambda t: t[0]), chunks))
            if name == "days":
                run.advance(self.built, run.current[self.orders], if_greater=True)

        self.app.task(when=when, name=name, expect_within="9d", **settings)(work)


def plan(luck: random.Random, platform: Platform, now: datetime) -> tuple[str, tuple[Any, ...]]:
    """One thing that happens."""
    instants: list[Param] = [platform.orders, platform.rides, platform.fx]
    match luck.choice(
        ["set", "set", "set", "set", "number", "version", "rewind", "manual", "time"]
    ):
        case "set":
            param = luck.choice(instants)
            value = now + luck.randrange(-40, 60) * HOUR
            return "set", (param, value.replace(minute=0, second=0, microsecond=0))
        case "number":
            return "set", (platform.batch, luck.randrange(20))
        case "version":
            return "set", (platform.schema, luck.choice("abc"))
        case "rewind":
            return "rewind", (luck.choice(instants), now - luck.randrange(24, 96) * HOUR)
        case "manual":
            return "manual", (luck.choice(["days", "held", "late"]), luck.random() < 0.5)
    return "time", (luck.choice([HOUR, 7 * HOUR, 26 * HOUR]),)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 6), *(pytest.param(seed, 18, marks=pytest.mark.slow) for seed in range(1, 9))],
)
async def test_the_simulation_runs_what_the_engine_runs(
    app: Mainspring, mainspring_clock: Clock, seed: int, steps: int
) -> None:
    """R2, R3, R4, R10, R13: the same runs, told the same values and chunks, after every step."""
    luck = random.Random(seed)
    platform = Platform(app)
    await run_until_idle(app, lease=LEASE)
    now = await app.operator.now()
    sim = ReactiveSimulation(app, start=now, takes=dict.fromkeys(app.reactive_tasks, "0s"))
    ran = 0
    for step in range(steps):
        what, about = plan(luck, platform, sim.now)
        # -- in the database
        platform.notes.clear()
        await in_the_engine(app, mainspring_clock, what, about)
        await run_until_idle(app, lease=LEASE)
        engine = sorted(platform.notes, key=repr)
        # -- and on the fake clock
        platform.notes.clear()
        in_the_simulation(sim, what, about)
        sim.advance("1s")
        simulated = sorted(platform.notes, key=repr)

        assert simulated == engine, (seed, step, what, about)
        ran += len(engine)
    assert ran > 1


async def in_the_engine(app: Mainspring, clock: Clock, what: str, about: tuple[Any, ...]) -> None:
    match what:
        case "set":
            await app.advance(*about, if_greater=True)
        case "rewind":
            value = (await app.reactive.params(name=about[0].key))[0].value
            if value is not None and about[1] < value:
                await app.rewind(*about)
        case "manual":
            await app.reactive.run(about[0], record=about[1])
        case "time":
            await clock.advance(about[0])


def in_the_simulation(sim: ReactiveSimulation, what: str, about: tuple[Any, ...]) -> None:
    match what:
        case "set":
            sim.set(*about, if_greater=True)
        case "rewind":
            value = sim.value(about[0])
            if isinstance(value, datetime) and about[1] < value:
                sim.rewind(*about)
        case "manual":
            sim.run(about[0], record=about[1])
        case "time":
            sim.advance(about[0])


async def test_a_history_that_was_read_back_replays_what_the_engine_ran(
    app: Mainspring, mainspring_clock: Clock
) -> None:
    """What would have run: the database's own history, rewinds and restated chunks with it."""
    orders = app.data("raw").param("orders", external=True)
    rates = app.data("raw").param("rates", external=True)
    ran: list[tuple[str, datetime | None]] = []

    def declare(name: str, **settings: Any) -> None:
        async def work(run: ReactiveRun) -> None:
            ran.append((name, run.current[orders]))

        app.task(when=new_day(orders), name=name, **settings)(work)

    declare("again", on_rewind="rerun", first_run="baseline")
    declare("plain", first_run="baseline")
    day = [datetime(2026, 3, n, tzinfo=UTC) for n in range(1, 20)]
    await app.advance(orders, day[1])
    await app.advance(rates, day[1])
    await run_until_idle(app, lease=LEASE)
    await mainspring_clock.advance(HOUR)
    since = await app.operator.now()
    for change in (
        app.advance(orders, day[3]),
        app.rewind(orders, day[2]),
        app.advance(orders, day[3]),
        app.rewind(orders, day[3], chunks=[day[1]]),
        app.advance(orders, day[5]),
    ):
        await mainspring_clock.advance(HOUR)
        await change
        await run_until_idle(app, lease=LEASE)

    found = await read_changes(app, since=since)
    timeline = replay(app, found, start=since, until=since + 10 * HOUR)

    assert [(c.value, c.is_rewind, c.chunks) for c in found] == [
        (day[1], False, ()),
        (day[3], False, ()),
        (day[2], True, ()),
        (day[3], False, ()),
        (day[3], True, (day[1],)),
        (day[5], False, ()),
    ]
    assert found[0] == ParamSet(since, orders, day[1])
    assert rates not in {change.param for change in found}, "no task waits for it"
    assert len(ran) == len(timeline.runs)
    for name in ("again", "plain"):
        assert len(timeline.of(name)) == len([n for n, _ in ran if n == name]), name
    early = await read_changes(app, since=since, until=since + HOUR + HOUR / 2)
    assert [change.value for change in early] == [day[1], day[3]]
