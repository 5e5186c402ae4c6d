"""Drain: a filled queue of no-op jobs, from the first handler start to the last handler run.

The start of the worker process is not counted. Two processes have twice as many jobs, as many each: else
the moments in which the second one joins and the first one is through would weigh twice as much. Afterwards
the store itself must say that nothing is left. One process also gives the cost: CPU, write-ahead log, peak
memory. `drain-cli` starts the worker by the system's own command line, as its manual does, with what that
logs. `cores` is what worker and server had of the machine meanwhile: a second process can add no more
than is left of it.
"""

from __future__ import annotations

import time

from benchmarks import meter
from benchmarks.workloads.workload import Figure, Trial, Workload

MOST_SECONDS = 90.0
CLI_JOBS = 50_000


def drain(trial: Trial, processes: int) -> list[Figure]:
    n = trial.drain_jobs * processes
    with trial.lab.stage(trial.system, trial.settings, jobs=n) as stage:
        log_before = trial.lab.wal_bytes()
        stage.start_workers(processes)
        seen = stage.wait_for(1, seconds=60)
        began = time.monotonic()
        worker_cpu, server_cpu = stage.worker_cpu(), stage.server_cpu()
        stage.wait_for(n, seconds=MOST_SECONDS)
        time.sleep(0.05)
        end = stage.look()
        worker_cpu = stage.worker_cpu() - worker_cpu
        cores = (worker_cpu + stage.server_cpu() - server_cpu) / (time.monotonic() - began)
        note = stage.wait_until_stored()
        server_cpu = stage.server_cpu() - server_cpu
        log = trial.lab.wal_bytes() - log_before
        peak = meter.memory_mb(stage.worker_pids(), "VmHWM")
    rate = (end.count - 1) / ((end.last - end.first) / 1e9)
    extra = {"n": n, "settings": trial.settings, "note": note, "cores": round(cores, 2)}
    figures = [Figure(f"drain-{processes}", rate, extra=extra)]
    if processes == 1:
        counted = n - seen.count
        figures += [
            cost("cpu-worker-us", worker_cpu / counted * 1e6, "us/job"),
            cost("cpu-server-us", server_cpu / counted * 1e6, "us/job"),
            cost("rss-mb", peak, "MB"),
        ]
        if trial.system.store == "postgres":
            figures.append(cost("wal-bytes", log / n, "bytes/job"))
    return figures


def drain_cli(trial: Trial) -> list[Figure]:
    """The same with the worker that each system's own command line starts, its log in a file."""
    n = min(trial.drain_jobs, CLI_JOBS)
    settings = {**trial.settings, "cli": True}
    with trial.lab.stage(trial.system, settings, jobs=n) as stage:
        stage.start_workers(1)
        stage.wait_for(n, seconds=MOST_SECONDS)
        time.sleep(0.05)
        end = stage.look()
        note = stage.wait_until_stored()
        stage.end_workers()
    rate = (end.count - 1) / ((end.last - end.first) / 1e9)
    extra = {"n": n, "settings": settings, "note": note}
    return [Figure("drain-cli", rate, extra=extra)]


def cost(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, higher_is_better=False)


ONE = Workload(
    "drain-1",
    lambda trial: drain(trial, 1),
    gives=("drain-1", "cpu-worker-us", "cpu-server-us", "wal-bytes", "rss-mb"),
    quick=True,
)
TWO = Workload("drain-2", lambda trial: drain(trial, 2), quick=True)
CLI = Workload(
    "drain-cli",
    drain_cli,
    systems=("mainspring", "pgqueuer"),
    others="their workers have no command line of their own, or log nothing of a run",
)
