"""Tune: a short pass over each system's settings; the best goes into tuning.json.

Drains of one process on about two seconds of work, the settings in turns so that noise hits all alike,
and the best median wins. The file is checked in, so that a run needs no tuning and everybody sees what was
tried and when.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from rich.console import Console

from benchmarks import install, meter
from benchmarks.catalog import TUNING, System, Tuned
from benchmarks.install import NotInstallable
from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.workloads import Trial
from benchmarks.workloads.drain import drain

SHARE = 0.5  # of the jobs of a real drain


def tune(systems: list[System], *, runs: int) -> None:
    console = Console(stderr=True, highlight=False)
    known: dict[str, Any] = json.loads(TUNING.read_text()) if TUNING.exists() else {"systems": {}}
    with Lab() as lab:
        known["server"] = lab.version()
        known["machine"] = meter.machine()
        for system in systems:
            try:
                entry = tune_one(lab, system, runs, console)
            except NotInstallable as error:
                console.print(f"{system.name}: {error}")
                continue
            if entry:
                known["systems"][system.name] = entry
                TUNING.write_text(json.dumps(known, indent=1) + "\n")


def tune_one(lab: Lab, system: System, runs: int, console: Console) -> dict[str, Any] | None:
    install.command(system, console.print)
    rates: list[list[float]] = [[] for _ in system.variants]
    failed: set[int] = set()
    for _ in range(runs):
        for i, settings in enumerate(system.variants):
            if i in failed:
                continue
            trial = Trial(lab, system, Tuned(settings, system.guess * SHARE), quick=True)
            try:
                rates[i].append(drain(trial, 1)[0].value)
            except Failed as error:
                failed.add(i)
                console.print(f"{system.name} {settings}: failed: {error}")
                continue
            console.print(f"{system.name} {settings}: {rates[i][-1]:,.0f} jobs/s")
    tried: list[dict[str, Any]] = [
        {
            "settings": settings,
            "rate": round(statistics.median(rates[i])),
            "runs": [round(rate) for rate in rates[i]],
        }
        for i, settings in enumerate(system.variants)
        if i not in failed
    ]
    if not tried:
        return None
    best = max(tried, key=lambda one: one["rate"])
    return {
        "date": time.strftime("%Y-%m-%d"),
        "version": install.version(system),
        "settings": best["settings"],
        "rate": best["rate"],
        "tried": tried,
    }
