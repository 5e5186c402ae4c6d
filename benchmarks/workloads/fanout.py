"""Fan-out: one workflow that runs thousands of steps side by side and goes on when all are done.

Time runs from before the start call to the run of the step that takes all results. A peer that needs
minutes for 10,000 runs fewer, and its record says how many: the unit is steps a second.
"""

from __future__ import annotations

from benchmarks import meter
from benchmarks.catalog import WORKFLOWS
from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

WIDTH = 10_000
WARM_WIDTH = 20
MOST_SECONDS = 120.0


def fanout(trial: Trial) -> list[Figure]:
    width = trial.system.fan
    settings = {**trial.settings, "fan": True}
    with trial.lab.stage(trial.system, settings) as stage:
        client = stage.client()
        client.ask("fan", width=WARM_WIDTH, number=1)
        stage.start_workers(1)
        stage.wait_for(WARM_WIDTH + 1, seconds=60)
        before = meter.memory_mb(stage.worker_pids())
        started = client.ask("fan", width=width, number=2, timeout=60)["before"]
        stage.wait_for(WARM_WIDTH + width + 2, seconds=MOST_SECONDS)
        joined = stage.stamps().get(2)
        peak = meter.memory_mb(stage.worker_pids(), "VmHWM")
        note = stage.wait_until_stored()
    if joined is None:
        raise Failed("all steps ran, and what waits for them did not")
    seconds = (joined[0] - started) / 1e9
    if width != WIDTH:
        note = "; ".join(filter(None, [note, f"{width:,} wide, not {WIDTH:,}"]))
    extra = {
        "n": width,
        "seconds": round(seconds, 2),
        "grew_mb": round(peak - before),
        "settings": settings,
        "note": note,
    }
    return [Figure("fanout-10k", width / seconds, "steps/s", extra=extra)]


FANOUT = Workload(
    "fanout-10k",
    fanout,
    needs=WORKFLOWS,
    quick=True,
    quick_systems=("mainspring",),
    quick_runs=1,
)
