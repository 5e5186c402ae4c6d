"""Groups: jobs spread over 1,000 groups, of each of which one may run at a time."""

from __future__ import annotations

from benchmarks.catalog import GROUPS as ABILITY
from benchmarks.workloads.workload import Figure, Trial, Workload

COUNT = 1_000


def groups(trial: Trial) -> list[Figure]:
    n = max(COUNT, trial.drain_jobs // 2)
    settings = {**trial.settings, **trial.system.grouped, "one_per_group": True}
    with trial.lab.stage(trial.system, settings, jobs=n, groups=COUNT) as stage:
        stage.start_workers()
        stage.wait_for(n, seconds=90)
        sight = stage.look()
        note = stage.wait_until_stored()
    rate = n / ((sight.last - sight.first) / 1e9)
    return [Figure("groups", rate, extra={"n": n, "groups": COUNT, "note": note})]


GROUPS = Workload("groups", groups, needs=ABILITY)
