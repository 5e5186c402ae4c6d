"""Held: steady load while another transaction keeps its snapshot open.

A producer keeps the queue from running empty, so the figure is the completion rate of worker
and producer together. What falls between the first and the last ten seconds is the cost of
dead rows that no vacuum may take away.
"""

from __future__ import annotations

import time

import psycopg

from benchmarks.workloads.feeder import Feeder
from benchmarks.workloads.workload import Figure, Trial, Workload

HELD_SECONDS = 60.0
QUICK_SECONDS = 20.0
WINDOW_SECONDS = 10.0
# Caches are filled, and the host has taken back what it lends to who was idle: seen for up to 40 s, in
# which even a mere loop in Python became slower by two thirds.
WARM_SECONDS = 40.0


def held(trial: Trial) -> list[Figure]:
    seconds = QUICK_SECONDS if trial.quick else HELD_SECONDS
    with trial.lab.stage(trial.system, trial.settings) as stage:
        feeder = Feeder(stage, stage.client(), trial.rate)
        stage.start_workers()
        feeder.begin()
        feeder.feed(WARM_SECONDS)
        with psycopg.connect(stage.url) as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select pg_current_snapshot()")
            begin = time.monotonic()
            feeder.feed(seconds)
            end = time.monotonic()
            holder.rollback()
        feeder.settle()
    dry = feeder.dry / len(feeder.samples)
    first = feeder.rate(begin, begin + WINDOW_SECONDS)
    last = feeder.rate(end - WINDOW_SECONDS, end)
    extra = {
        "held_seconds": seconds,
        "series": feeder.series(begin - WARM_SECONDS, end, zero=begin),
        "note": f"the queue was empty {dry:.0%} of the time" if dry > 0.05 else "",
    }
    return [
        Figure("held-first", first, extra=extra),
        Figure("held-last", last, extra={"percent_of_first": round(100 * last / first, 1)}),
    ]


HELD = Workload(
    "held",
    held,
    gives=("held-first", "held-last"),
    quick=True,
    quick_systems=("mainspring",),
    systems=("mainspring", "pgqueuer", "chancy", "awa", "graphile"),
    others="takes a minute each: of the peers only the four fastest",
    peer_runs=1,
    quick_runs=1,
)
