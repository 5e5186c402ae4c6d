"""Failing: one job in ten fails once and is tried again at once."""

from __future__ import annotations

from benchmarks.catalog import RETRY
from benchmarks.workloads.workload import Figure, Trial, Workload

EVERY = 10


def failing(trial: Trial) -> list[Figure]:
    n = max(1_000, trial.drain_jobs // 2)
    settings = {**trial.settings, "retry": True}
    with trial.lab.stage(trial.system, settings, jobs=n, failing=EVERY) as stage:
        stage.start_workers()
        stage.wait_for(n, seconds=90)
        sight = stage.look()
        note = stage.wait_until_stored()
    rate = n / ((sight.last - sight.first) / 1e9)
    return [Figure("failing", rate, extra={"n": n, "note": note})]


FAILING = Workload("failing", failing, needs=RETRY)
