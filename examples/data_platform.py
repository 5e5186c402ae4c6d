"""A small data platform over thirty days, simulated in seconds: what ran when, and why.

    python examples/data_platform.py

Raw tables (orders, rides), a reference dictionary (exchange rates), marts built from them. Nothing
has a cron line: every task runs when the state of its data says so. On the way the rates are late
once, three days of orders are restated, and a mart fails twice. No database is needed: the tasks run
on the simulation kit, whose decisions are those of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from mainspring import Mainspring, ReactiveRun
from mainspring.reactive import Chunk, all_arrived, all_of, caught_up, new_chunk, new_day, new_week
from mainspring.reactive.decide.explain import lines_of
from mainspring.testing import ParamSet, ReactiveSimulation

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
BERLIN = "Europe/Berlin"

app = Mainspring("postgresql://nobody@localhost/not-needed-here")

# What the outside world sets: the loaders of raw data and of the dictionary.
orders = app.data("raw.orders").param("loaded_to", external=True)
rides = app.data("raw.rides").param("loaded_to", external=True)
rates = app.data("ref.rates").param("loaded_to", external=True)
# What our own tasks produce.
cleaned = app.data("dwh.orders").param("cleaned_to")
revenue_to = app.data("mart.revenue").param("built_to")


@app.task(when=new_day(orders, BERLIN), produces=[cleaned], on_rewind="rerun")
def clean_orders(run: ReactiveRun) -> None:
    """Days that came, or came again; a rewind upstream is passed on."""
    days = run.chunks(orders)
    value = run.current[orders]
    if run.seen[orders] is not None and days and days[0] < run.seen[orders]:
        run.rewind(cleaned, days[0], chunks=days, why="orders were restated")
    run.advance(cleaned, value)


@app.task(when=new_chunk(rides, "6 hours"))
def count_rides(run: ReactiveRun) -> None:
    """Four times a day, as the rides come in."""


@app.task(
    when=all_of(
        new_day(cleaned, BERLIN), caught_up(rates, with_=cleaned, chunk=Chunk("day", BERLIN))
    ),
    produces=[revenue_to],
    expect_within="30h",
    on_rewind="rerun",
    priority=8,
)
def revenue(run: ReactiveRun) -> None:
    """Needs the rates of the very day, so it waits for whichever is later."""
    run.advance(revenue_to, run.current[cleaned], if_greater=True)


@app.task(when=all_arrived([cleaned, rides], "day"), expect_within="30h", debounce="10m")
def fleet(run: ReactiveRun) -> None:
    """Both of the day before, and neither late."""


@app.task(when=new_week(revenue_to, BERLIN), priority=2)
def weekly_report(run: ReactiveRun) -> None:
    """Once the revenue of a new week begins."""


def feed() -> Iterator[ParamSet]:
    """What the loaders set over thirty days."""
    luck = random.Random(7)
    for day in range(30):
        midnight = START + day * DAY
        yield ParamSet(midnight + 2 * HOUR + luck.randrange(60) * MINUTE, orders, midnight)
        for hour in range(24):
            at = midnight + hour * HOUR
            yield ParamSet(at + luck.randrange(5, 20) * MINUTE, rides, at)
        late = 30 if day == 11 else 5  # on the twelfth the rates come the next day
        yield ParamSet(midnight + late * HOUR + luck.randrange(30) * MINUTE, rates, midnight)
    restated = START + 17 * DAY
    yield ParamSet(restated + 9 * HOUR, orders, START + 14 * DAY, is_rewind=True)
    yield ParamSet(restated + 11 * HOUR, orders, restated)


STORIES = {
    12: "twelfth: the rates are late, so revenue waits, and is missed",
    13: "thirteenth: the rates come, and one run of revenue does both days",
    18: "eighteenth: three days of orders are restated, and only what hangs on them runs again",
    21: "twenty-first: fleet fails twice, and is checked afresh after a backoff each time",
}


def main() -> None:
    """Run the thirty days and show them."""
    takes = {"clean_orders": "12m", "count_rides": "3m", "revenue": "25m", "fleet": "8m"}
    sim = ReactiveSimulation(app, start=START, takes=takes, cap=2)
    sim.plan(feed())
    sim.run_until(START + 20 * DAY)
    sim.fail_next("fleet", 2)
    sim.run_until(START + 30 * DAY)

    print("March 2026, runs a day (x: a run failed, !: an expectation was missed, █: running)\n")
    print(sim.timeline.chart(tasks=app.reactive_tasks))
    for day, words in STORIES.items():
        print(f"\nThe {words}\n")
        print(sim.timeline.day_chart(START + (day - 1) * DAY, tasks=app.reactive_tasks))
        print()
        for line in sim.timeline.lines():
            if line[8:10] == f"{day:02}" and "count_rides" not in line:
                print(f"  {line}")
    print("\nAnd why revenue does not run now:\n")
    print("\n".join(f"  {line}" for line in lines_of(sim.why("revenue"))))


if __name__ == "__main__":
    main()
