"""Many processes: a mass restart beside live work, search, and what sleepers cost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

MOST_SECONDS = 900


def measure(trial: Trial, name: str, count: int) -> dict[str, Any]:
    """The figures of benchmarks/crowd.py on a database of its own."""
    database = f"crowd_{name}"
    trial.lab.drop(database)
    trial.lab.run(f"create database {database}")
    command = [sys.executable, "-m", "benchmarks.crowd", name, trial.lab.server.url(database)]
    try:
        done = subprocess.run(
            [*command, str(count)],
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    finally:
        trial.lab.drop(database)
    if done.returncode:
        raise Failed(f"{name}: {done.stderr.strip().splitlines()[-1][:300]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def restart(trial: Trial) -> list[Figure]:
    found = measure(trial, "restart", 5_000 if trial.quick else 100_000)
    alone, beside = found["live_p95_alone_ms"], found["live_p95_beside_ms"]
    rounded = {name: round(value, 1) for name, value in found.items()}
    extra = {**rounded, "times_the_live_p95": round(beside / alone, 1)}
    return [Figure("restart-100k", found["restarts_per_second"], "restarts/s", extra=extra)]


def search(trial: Trial) -> list[Figure]:
    found = measure(trial, "search", 50_000 if trial.quick else 1_000_000)
    return [
        Figure(
            "search-1m", found["worst_p95_ms"], "ms", higher_is_better=False, extra=found["p95_ms"]
        )
    ]


def sleepers(trial: Trial) -> list[Figure]:
    """Beside the same worker with nobody asleep."""
    count = 10_000 if trial.quick else 100_000
    with_them = measure(trial, "sleepers", count)
    without = measure(trial, "sleepers", 0)
    extra = {
        "without": round(without["worker_cpu_percent"], 2),
        "rows_read_per_second": round(with_them["rows_read_per_second"]),
        "rows_read_per_second_without": round(without["rows_read_per_second"]),
    }
    return [
        Figure(
            "sleepers-100k",
            with_them["worker_cpu_percent"],
            "% of a core",
            higher_is_better=False,
            extra=extra,
        )
    ]


RESTART = Workload("restart-100k", restart, systems=("mainspring",), most_seconds=400)
SEARCH = Workload("search-1m", search, systems=("mainspring",), most_runs=1, most_seconds=400)
SLEEPERS = Workload("sleepers-100k", sleepers, systems=("mainspring",), most_runs=1)
