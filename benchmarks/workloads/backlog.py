"""Backlog: how fast the first 10,000 jobs run with many waiting behind them."""

from __future__ import annotations

from benchmarks.workloads.workload import Figure, Trial, Workload

COUNTED = 10_000
FAST_FILL = ("mainspring", "bare", "pgqueuer", "awa", "graphile")  # a million within a minute
TOO_SLOW = "compares with a million waiting, which takes this one minutes to enqueue"


def backlog(trial: Trial, waiting: int, name: str) -> list[Figure]:
    counted = min(COUNTED, trial.drain_jobs)
    with trial.lab.stage(trial.system, trial.settings, jobs=waiting) as stage:
        stage.start_workers(BENCH_MARK=counted)
        stage.wait_for(counted, seconds=60)
        sight = stage.look()
    rate = (counted - 1) / ((sight.marked - sight.first) / 1e9)
    return [Figure(name, rate, extra={"n": counted, "waiting": waiting})]


SMALL = Workload(
    "backlog-10k",
    lambda trial: backlog(trial, COUNTED, "backlog-10k"),
    quick=True,
    systems=FAST_FILL,
    others=TOO_SLOW,
)
MIDDLE = Workload(
    "backlog-100k",
    lambda trial: backlog(trial, 100_000, "backlog-100k"),
    systems=FAST_FILL,
    others=TOO_SLOW,
)
LARGE = Workload(
    "backlog-1m",
    lambda trial: backlog(trial, 1_000_000, "backlog-1m"),
    quick=True,
    quick_systems=("mainspring",),
    systems=FAST_FILL,
    others=TOO_SLOW,
    most_seconds=400,
)
