"""Writers: 64 of them on 100 hot entities, with a value that must follow every change.

Changes a second until all is right, beside a bare optimistic-lock loop (see `benchmarks/hot.py`). The sum
of all changes is checked: an update that was lost is a failure, not a figure.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload

CHANGES = 10_000
QUICK_CHANGES = 5_000
WRITERS = 64
MOST_SECONDS = 300


def measure(trial: Trial) -> list[Figure]:
    changes = QUICK_CHANGES if trial.quick else CHANGES
    ways = {"writers-64": "edits", "writers-64-sql": "sql"}
    if trial.system.name == "bare":
        ways = {"writers-64": "bare"}
    return [
        Figure(workload, rate(trial, way, changes), "changes/s", extra={"changes": changes})
        for workload, way in ways.items()
    ]


def rate(trial: Trial, way: str, changes: int) -> float:
    """Changes a second of one way on a database of its own."""
    name = f"writers_{way}"
    trial.lab.drop(name)
    trial.lab.run(f"create database {name}")
    url = trial.lab.server.url(name)
    try:
        call("prepare", url, changes)
        answer = json.loads(call(way, url, changes))
    finally:
        trial.lab.drop(name)
    if answer["sum"] != changes:
        raise Failed(f"{way}: {changes - answer['sum']:,} of {changes:,} updates were lost")
    return float(changes / answer["seconds"])


def call(what: str, url: str, changes: int) -> str:
    command = [sys.executable, "-m", "benchmarks.hot", what, url, str(changes), str(WRITERS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
    )
    if done.returncode:
        raise Failed(f"{what}: {done.stderr.strip().splitlines()[-1][:300]}")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


WRITING = Workload(
    "writers-64",
    measure,
    gives=("writers-64", "writers-64-sql"),
    systems=("mainspring", "bare"),
)
