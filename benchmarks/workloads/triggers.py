"""Reactive tasks: a steady stream of advances over many triggers, and a burst that makes many ready.

Mainspring alone: its peers have none. `triggers` is the time from the loader's commit to the first
line of the task, of 10,000 tasks over 5,000 params, two a param: every advance costs two checks, and
every tenth task fires on each advance of its param. `triggers-idle` is the worker's CPU before that,
when nothing changes. `triggers-pages` is what one advance makes the server touch, from the loader's
statement to the settled run, with 10,000 tasks and with 100. `burst` makes 5,000 tasks ready at once in
a pool with a cap.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from benchmarks import meter
from benchmarks.pages import REPORTED_SECONDS, touched
from benchmarks.stage import Failed
from benchmarks.triggers import Plan, left, load, worker
from benchmarks.workloads.workload import Figure, Trial, Workload, curve, percentile

STEADY = Plan(tasks=10_000, params=5_000)
RATE = 1_000  # advances a second
SECONDS = 30.0  # as long as the target says
QUICK_SECONDS = 10.0
WARM_SECONDS = 4.0
IDLE_SECONDS = 8.0
FEW = Plan(tasks=100, params=50)
PACE = 20  # advances a second, each in a transaction of its own
PACED_SECONDS = 5.0
# The kernel's: a worker beats and looks which visits are due whether anything is advanced or not (a
# look is one statement for however many advances came since the last, and costs by the number of
# queues). What a visit costs depends on those that wait beside it, not on the number of tasks:
# timers-offer and timers-settle tell that.
KERNEL = frozenset(["visit", "worker", "lease", "queue", "reach"])
BURST = Plan(tasks=5_000, params=50, cap=100, run_seconds=0.01)
BURST_MOST_SECONDS = 300.0


def triggers(trial: Trial) -> list[Figure]:
    seconds = QUICK_SECONDS if trial.quick else SECONDS
    server = [trial.lab.server.pid or 0]
    with database(trial, "triggers") as url, worker(url, STEADY) as (process, app, params):
        mine = [process.pid]
        time.sleep(WARM_SECONDS)
        before = meter.cpu_seconds(mine)
        time.sleep(IDLE_SECONDS)
        idle = 100 * (meter.cpu_seconds(mine) - before) / IDLE_SECONDS
        before, before_server = meter.cpu_seconds(mine), meter.cpu_seconds(server)
        committed, rate = load(url, app, params, rate=RATE, seconds=seconds)
        advances = len(committed)
        busy = meter.cpu_seconds(mine) - before
        busy_server = meter.cpu_seconds(server) - before_server
        process.finish()
        if lost := left(url, STEADY):
            raise Failed(f"{lost:,} tasks did not run on what they should have")
        started = ((task % STEADY.params, value, at) for task, value, at, _ in process.starts)
        delays = [1000 * (at - committed[p, v]) for p, v, at in started if (p, v) in committed]
    extra = {
        "advances_per_second": round(rate, 1),
        "evaluations_per_advance": round(process.evaluations / advances, 2),
        "worker_us_per_advance": round(1e6 * busy / advances, 1),
        "server_us_per_advance": round(1e6 * busy_server / advances, 1),
        "started": len(delays),
        "p50_ms": round(percentile(delays, 50), 1),
        "p90_ms": round(percentile(delays, 90), 1),
        "max_ms": round(max(delays), 1),
        "curve": curve(delays),
    }
    p99 = percentile(delays, 99)
    return [
        Figure("triggers", p99, "ms", higher_is_better=False, extra=extra),
        Figure("triggers-idle", idle, "% of a core", higher_is_better=False),
    ]


def pages(trial: Trial) -> list[Figure]:
    few, many = (pages_an_advance(trial, plan) for plan in (FEW, STEADY))
    extra = {"few": round(few, 1), "percent_more_than_few": round(100 * (many / few - 1), 1)}
    return [Figure("triggers-pages", many, "pages", higher_is_better=False, extra=extra)]


def pages_an_advance(trial: Trial, plan: Plan) -> float:
    """Pages an advance: of the setter, the checks of two consumers, and in one of ten of their runs.

    Of the tables of params, tasks and their stories, history included. Vacuumed first, as autovacuum
    does within a minute. The lower of two counts: once a minute a worker looks at all tasks for such as
    nobody declares.
    """
    with database(trial, "pages") as url, worker(url, plan) as (process, app, params):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum (analyze)")
        step = max(1, plan.params // 100 - 1)  # all over the tables
        counts = []
        for above in (0, 1_000):
            time.sleep(REPORTED_SECONDS)
            before = touched(url)
            chosen = params[::step]
            advanced, _ = load(url, app, chosen, rate=PACE, seconds=PACED_SECONDS, above=above)
            time.sleep(REPORTED_SECONDS)
            found = touched(url) - before
            path = sum(count for table, count in found.items() if table not in KERNEL)
            counts.append(path / len(advanced))
        process.finish()
    return min(counts)


def burst(trial: Trial) -> list[Figure]:
    with database(trial, "burst") as url, worker(url, BURST) as (process, app, params):
        began = time.time()
        app.advance_many_sync((p, 1) for p in params)
        wait_for_all(url, BURST)
        process.finish()
        all_fired = fired_at(url)
    starts = process.starts
    if len(starts) != BURST.tasks:
        raise Failed(f"{len(starts):,} runs of {BURST.tasks:,} tasks")
    assert BURST.cap is not None
    if (most := at_once(starts)) > BURST.cap:
        raise Failed(f"{most} ran at once, the cap is {BURST.cap}")
    # One change and one end for each task: two evaluations.
    if process.evaluations > 2 * BURST.tasks:
        raise Failed(f"{process.evaluations:,} evaluations of {BURST.tasks:,} tasks")
    if passed := passed_over(starts, all_fired, BURST):
        raise Failed(f"{passed} tasks started before a more important one that waited")
    seconds = max(ended for *_, ended in starts) - began
    extra = {
        "seconds": round(seconds, 2),
        "at_once": most,
        "evaluations_per_task": process.evaluations / BURST.tasks,
    }
    return [Figure("burst", BURST.tasks / seconds, "runs/s", extra=extra)]


def wait_for_all(url: str, plan: Plan) -> None:
    deadline = time.monotonic() + BURST_MOST_SECONDS
    while left(url, plan):
        if time.monotonic() > deadline:
            raise Failed(f"the burst was not drained in {BURST_MOST_SECONDS:.0f} s")
        time.sleep(0.25)


def at_once(starts: Sequence[tuple[int, int, float, float]]) -> int:
    """How many ran at the same time, at most."""
    steps = sorted([(b, 1) for *_, b, _ in starts] + [(e, -1) for *_, e in starts])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def fired_at(url: str) -> float:
    """When the last task of the burst became ready."""
    with psycopg.connect(url) as connection:
        text = "select extract(epoch from max(at)) from mainspring.evaluation where fired"
        row = connection.execute(text).fetchone()
    assert row is not None
    return float(row[0])


def passed_over(
    starts: Sequence[tuple[int, int, float, float]], all_fired: float, plan: Plan
) -> int:
    """Starts that a more important task had to wait for, though both were ready.

    Looked at from when all were ready. Starts of firings that were admitted together come in any
    order, so a task that starts within a capful of another was not passed.
    """
    ready = sorted((start for start in starts if start[2] > all_fired), key=lambda s: s[2])
    order = [plan.priority(task) for task, *_ in ready]
    cap = plan.cap or 0
    best = [-1] * (len(order) + cap + 1)  # the highest priority from a place on
    for n in range(len(order) - 1, -1, -1):
        best[n] = max(order[n], best[n + 1])
    return sum(best[n + cap] > order[n] for n in range(cap, len(order)))


@contextmanager
def database(trial: Trial, name: str) -> Iterator[str]:
    """An empty database of its own."""
    trial.lab.drop(name)
    trial.lab.run(f"create database {name}")
    try:
        yield trial.lab.server.url(name)
    finally:
        trial.lab.drop(name)


TRIGGERS = Workload(
    "triggers",
    triggers,
    gives=("triggers", "triggers-idle"),
    systems=("mainspring",),
    quick_systems=("mainspring",),
)
TRIGGERS_PAGES = Workload("triggers-pages", pages, systems=("mainspring",), most_runs=1)
TRIGGERS_BURST = Workload(
    "burst",
    burst,
    systems=("mainspring",),
    quick_systems=("mainspring",),
)
