"""Chains: workflows of ten dependent steps, drained by one worker process; and how soon one starts.

Time runs from the first step's run to the last one's. A chain is what each system's own guide writes
for steps that follow one another: in Mainspring a decider and ten tasks, elsewhere ten steps of one
workflow. The start latency is the time from the return of the start call to the workflow's first line.
"""

from __future__ import annotations

import time

from benchmarks import meter
from benchmarks.adapter import STEPS
from benchmarks.catalog import WORKFLOWS
from benchmarks.workloads import latency
from benchmarks.workloads.workload import Figure, Trial, Workload, percentile

FILL_SECONDS = 240
MOST_SECONDS = 120.0
QUICK_PART = 2
STARTS = 80


def chains(trial: Trial) -> list[Figure]:
    n = trial.system.chains // (QUICK_PART if trial.quick else 1)
    with trial.lab.stage(trial.system, trial.settings) as stage:
        stage.client().ask("chains", n=n, timeout=FILL_SECONDS)
        trial.lab.tidy(stage.url, filled=True)
        log_before = trial.lab.wal_bytes()
        stage.start_workers(1)
        seen = stage.wait_for(1, seconds=60)
        worker_cpu, server_cpu = stage.worker_cpu(), stage.server_cpu()
        stage.wait_for(n * STEPS, seconds=MOST_SECONDS)
        time.sleep(0.05)
        end = stage.look()
        worker_cpu = stage.worker_cpu() - worker_cpu
        note = stage.wait_until_stored()
        server_cpu = stage.server_cpu() - server_cpu
        log = trial.lab.wal_bytes() - log_before
        peak = meter.memory_mb(stage.worker_pids(), "VmHWM")
    rate = (end.count - 1) / STEPS / ((end.last - end.first) / 1e9)
    steps = n * STEPS - seen.count
    extra = {
        "n": n,
        "settings": trial.settings,
        "note": note,
        "server_us_per_step": round(server_cpu / steps * 1e6, 1),
        "wal_bytes_per_step": round(log / (n * STEPS)),
        "rss_mb": round(peak),
    }
    if trial.drained:
        extra["percent_of_10_tasks"] = round(100 * rate * STEPS / trial.drained)
    return [
        Figure("chain-10", rate, "chains/s", extra=extra),
        Figure("chain-cpu-us", worker_cpu / steps * 1e6, "us/step", False),
    ]


def start(trial: Trial) -> list[Figure]:
    with trial.lab.stage(trial.system, trial.idle_settings) as stage:
        waits, whole = latency.measure(
            stage, n=STARTS, gap=latency.GAP_SECONDS, batch=1, chains=True
        )
    extra = {
        "n": STARTS,
        "p99": round(percentile(waits, 99), 3),
        "before_call_p50": round(percentile(whole, 50), 3),
    }
    return [Figure("start-p50", percentile(waits, 50), "ms", False, extra)]


CHAINS = Workload(
    "chain-10",
    chains,
    gives=("chain-10", "chain-cpu-us"),
    needs=WORKFLOWS,
    quick=True,
    quick_systems=("mainspring",),
    quick_runs=1,
)
START = Workload("start-p50", start, needs=WORKFLOWS)
