"""Long: eight tasks that sleep, on two workers with four slots each.

A system that leaves no slot idle needs one round; the figure is the time from the enqueue to
the last end, counted in task lengths.
"""

from __future__ import annotations

import time

from benchmarks.catalog import LONG
from benchmarks.probe import SLEEP
from benchmarks.workloads.workload import Figure, Trial, Workload

TASKS, WORKERS = 8, 2
SHARE_SECONDS = 3.0  # for the two workers to find each other


def long(trial: Trial) -> list[Figure]:
    # The figure counts in task lengths, so a full run has the target's ten seconds for us alone.
    nap = 10.0 if trial.system.name == "mainspring" and not trial.quick else 3.0
    settings = {**trial.settings, **trial.system.four_slots}
    with trial.lab.stage(trial.system, settings) as stage:
        client = stage.client()
        stage.start_workers(WORKERS, BENCH_NAP=nap)
        time.sleep(SHARE_SECONDS)
        sent = client.ask("bulk", n=TASKS, act=SLEEP)
        stage.wait_for(TASKS, seconds=TASKS * nap + 30)
        last = max(end for _, end in stage.stamps().values())
    rounds = (last - sent["returned"]) / 1e9 / nap
    extra = {"n": TASKS, "task_seconds": nap, "workers": WORKERS, "slots": 4}
    return [Figure("long", rounds, "rounds", False, extra)]


LONG_TASKS = Workload(
    "long", long, needs=LONG, quick=True, quick_systems=("mainspring",), peer_runs=1, quick_runs=1
)
