"""Stages: entity changes through the system stage and five stages, of which one updates.

Three ways in one run (see `benchmarks/listings.py`): Mainspring, the bare batched statements, and a
psycopg loop with the same guarantees that takes one entity at a time (`stages-loop`).
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

CHANGES = 20_000
QUICK_CHANGES = 5_000
# The loop does a hundred changes a second at best: its rate needs no more of them.
LOOP_CHANGES = 300
QUICK_LOOP_CHANGES = 200
SLOTS = 1000
MOST_SECONDS = 600


def stages(trial: Trial) -> list[Figure]:
    changes = QUICK_CHANGES if trial.quick else CHANGES
    if trial.system.name == "mainspring":
        rate = measure(trial, "engine", changes)
        return [Figure("stages", rate, "changes/s", extra={"changes": changes})]
    some = QUICK_LOOP_CHANGES if trial.quick else LOOP_CHANGES
    return [
        Figure("stages", measure(trial, "bare", changes), "changes/s", extra={"changes": changes}),
        Figure("stages-loop", measure(trial, "loop", some), "changes/s", extra={"changes": some}),
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
    gives=("stages", "stages-loop"),
    systems=("mainspring", "bare"),
    quick=True,
    quick_runs=1,
    most_seconds=600,
)
