"""Stages: entity changes through the system stage and five stages, of which one updates.

Three ways in one run (see `benchmarks/listings.py`): Mainspring, a psycopg loop with the same guarantees
that takes one entity at a time, and the bare batched statements.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

CHANGES = 100_000
QUICK_CHANGES = 5_000
# The loop does some hundred changes a second: its rate needs no more of them.
LOOP_CHANGES = 2_000
SLOTS = 200
MOST_SECONDS = 600


def stages(trial: Trial) -> list[Figure]:
    changes = QUICK_CHANGES if trial.quick else CHANGES
    rates = {
        "engine": measure(trial, "engine", changes),
        "bare": measure(trial, "bare", changes),
        "loop": measure(trial, "loop", min(changes, LOOP_CHANGES)),
    }
    extra = {
        "changes": changes,
        "times_the_loop": round(rates["engine"] / rates["loop"], 1),
        "percent_of_bare": round(100 * rates["engine"] / rates["bare"]),
    }
    return [
        Figure("stages", rates["engine"], "changes/s", extra=extra),
        Figure("stages-loop", rates["loop"], "changes/s"),
        Figure("stages-bare", rates["bare"], "changes/s"),
    ]


def measure(trial: Trial, contender: str, changes: int) -> float:
    """Changes a second of one contender on a database of its own."""
    name = f"stages_{contender}"
    trial.lab.drop(name)
    trial.lab.run(f"create database {name}")
    url = trial.lab.server.url(name)
    try:
        call("prepare", url, changes)
        answer = json.loads(call(contender, url, changes))
    finally:
        trial.lab.drop(name)
    if answer["done"] != changes or answer["left"]:
        raise Failed(
            f"{contender}: {answer['done']:,} of {changes:,} done, {answer['left']:,} left"
        )
    return float(changes / answer["seconds"])


def call(what: str, url: str, changes: int) -> str:
    command = [sys.executable, "-m", "benchmarks.listings", what, url, str(changes), str(SLOTS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
    )
    if done.returncode:
        raise Failed(f"{what}: {done.stderr.strip().splitlines()[-1][:300]}")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


STAGES = Workload(
    "stages",
    stages,
    gives=("stages", "stages-loop", "stages-bare"),
    systems=("mainspring",),
    quick_systems=("mainspring",),
    quick=True,
    most_runs=1,
)
