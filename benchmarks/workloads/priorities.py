"""Priorities: urgent jobs arrive while far more ordinary ones wait than the worker can do.

The figure is how long an urgent job waits; beside it how long the ordinary ones waited that
ran while urgent ones arrived.
"""

from __future__ import annotations

from benchmarks.catalog import PRIORITIES as ABILITY
from benchmarks.probe import STAMP
from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload, percentile

URGENT = 60
GAP_SECONDS = 0.03
FIRST = 10_000_000  # numbers of urgent jobs start here
HIGH = 9


def priorities(trial: Trial) -> list[Figure]:
    waiting = trial.drain_jobs
    with trial.lab.stage(trial.system, trial.settings, jobs=waiting, act=STAMP) as stage:
        client = stage.client()
        stage.start_workers()
        began = stage.wait_for(1, seconds=60).first
        sent = client.ask("paced", n=URGENT, gap=GAP_SECONDS, priority=HIGH, first=FIRST)
        stage.wait_for(waiting, seconds=90)
        started = stage.stamps()
    urgent = [number for number in started if number >= FIRST]
    if len(urgent) < URGENT * 0.9:
        raise Failed(f"only {len(urgent)} of {URGENT} urgent jobs ran while others waited")
    high = [(started[i][0] - sent["after"][i - FIRST]) / 1e6 for i in urgent]
    low = [(start - began) / 1e6 for number, (start, _) in started.items() if number < FIRST]
    overloaded = max(start for start, _ in started.values()) > sent["after"][-1]
    extra = {
        "n": waiting,
        "high_p99": round(percentile(high, 99), 2),
        "low_p50": round(percentile(low, 50), 1),
        "note": "" if overloaded else "the ordinary jobs ran out before the urgent ones",
    }
    return [Figure("priorities", percentile(high, 50), "ms", False, extra)]


PRIORITIES = Workload("priorities", priorities, needs=ABILITY)
