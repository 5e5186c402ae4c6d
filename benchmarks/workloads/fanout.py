"""Fan-out: one workflow that runs thousands of steps side by side and goes on when all are done.

Time runs from before the start call to the run of the step that takes all results. A peer that needs
minutes for 10,000 runs fewer, and its record says how many: the unit is steps a second.

Memory is the worker's peak over what it had after a small fan-out. The first of 10,000 makes it grow to
its usual size under load (pages, batches and results on their way, whose number is bounded); flat means
that four more leave it there, so a system that can run 10,000 does: `grew_again_mb`.
"""

from __future__ import annotations

from benchmarks import meter
from benchmarks.catalog import WORKFLOWS
from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

WIDTH = 10_000
WARM_WIDTH = 20
MOST_SECONDS = 120.0
AGAIN = 4  # more fan-outs, for their memory


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
        for n in range(AGAIN if width == WIDTH else 0):
            client.ask("fan", width=width, number=3 + n, timeout=60)
            stage.wait_for(WARM_WIDTH + (width + 1) * (2 + n) + 1, seconds=MOST_SECONDS)
        last_peak = meter.memory_mb(stage.worker_pids(), "VmHWM")
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
        **({"grew_again_mb": round(last_peak - peak, 1)} if width == WIDTH else {}),
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
