"""Group rates: jobs spread over 1,000 groups.

They are drained with a rate for each that none of them reaches, in turns with the same jobs without a rate:
what counting the starts of each group costs. Then with rates that allow half of that: how much is used.
"""

from __future__ import annotations

from statistics import median

from benchmarks.catalog import GROUPS as ABILITY
from benchmarks.workloads.groups import COUNT
from benchmarks.workloads.workload import Figure, Trial, Workload

# Starts a second of each group: the sum is far above what is drained.
PLENTY = 10_000.0
TURNS = 3


def drained(trial: Trial, n: int, group_rate: float | None) -> float:
    """Jobs a second."""
    settings = {**trial.settings, **trial.system.grouped, "group_rate": group_rate}
    with trial.lab.stage(trial.system, settings, jobs=n, groups=COUNT) as stage:
        stage.start_workers()
        stage.wait_for(n, seconds=90)
        sight = stage.look()
        stage.wait_until_stored()
    return n / ((sight.last - sight.first) / 1e9)


def group_rates(trial: Trial) -> list[Figure]:
    n = max(COUNT, trial.drain_jobs // 2)
    pairs = [(drained(trial, n, None), drained(trial, n, PLENTY)) for _ in range(TURNS)]
    free, rated = (median(found) for found in zip(*pairs, strict=True))
    half = free / 2 / COUNT
    used = 100 * drained(trial, n, half) / (half * COUNT)
    extra = {"n": n, "groups": COUNT, "free": round(free), "rated": round(rated)}
    return [
        Figure("group-rates", 100 * rated / free, "%", extra=extra),
        Figure("group-rates-used", used, "%", extra={"a_second": round(half, 1)}),
    ]


GROUP_RATES = Workload(
    "group-rates",
    group_rates,
    gives=("group-rates", "group-rates-used"),
    needs=ABILITY,
    systems=("mainspring",),
)
