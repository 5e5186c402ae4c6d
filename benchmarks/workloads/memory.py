"""Memory: by how much a worker grows over a million jobs, after the first 50,000."""

from __future__ import annotations

from benchmarks import meter
from benchmarks.workloads.workload import Figure, Trial, Workload

JOBS = 1_000_000
SETTLED = 50_000


def memory(trial: Trial) -> list[Figure]:
    with trial.lab.stage(trial.system, trial.settings, jobs=JOBS) as stage:
        stage.start_workers()
        stage.wait_for(SETTLED, seconds=120)
        before = highest = meter.memory_mb(stage.worker_pids())
        for count in range(100_000, JOBS + 1, 50_000):
            stage.wait_for(count, seconds=240)
            highest = max(highest, meter.memory_mb(stage.worker_pids()))
    extra = {"n": JOBS, "before_mb": round(before, 1), "highest_mb": round(highest, 1)}
    return [Figure("memory", highest - before, "MB", False, extra)]


MEMORY = Workload(
    "memory", memory, quick=True, systems=("mainspring",), most_runs=1, most_seconds=400
)
