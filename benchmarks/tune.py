"""Tune: a short pass over each system's settings; the best goes into tuning.json.

One drain of one process per setting, on about three seconds of work. The file is checked in,
so that a run needs no tuning and everybody sees what was tried and when.
"""

from __future__ import annotations

import json
import time
from typing import Any

from rich.console import Console

from benchmarks import install, meter
from benchmarks.catalog import TUNING, Settings, System, Tuned
from benchmarks.install import NotInstallable
from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.workloads import Trial
from benchmarks.workloads.drain import drain

SHARE = 0.5  # of the jobs of a real drain


def tune(systems: list[System]) -> None:
    console = Console(stderr=True, highlight=False)
    known: dict[str, Any] = json.loads(TUNING.read_text()) if TUNING.exists() else {"systems": {}}
    with Lab() as lab:
        known["server"] = lab.version()
        known["machine"] = meter.machine()
        for system in systems:
            try:
                entry = tune_one(lab, system, console)
            except NotInstallable as error:
                console.print(f"{system.name}: {error}")
                continue
            if entry:
                known["systems"][system.name] = entry
                TUNING.write_text(json.dumps(known, indent=1) + "\n")


def tune_one(lab: Lab, system: System, console: Console) -> dict[str, Any] | None:
    install.command(system)
    tried: list[tuple[float, Settings]] = []
    for settings in system.variants:
        trial = Trial(lab, system, Tuned(settings, system.guess * SHARE), quick=True)
        try:
            rate = drain(trial, 1)[0].value
        except Failed as error:
            console.print(f"{system.name} {settings}: failed: {error}")
            continue
        tried.append((rate, settings))
        console.print(f"{system.name} {settings}: {rate:,.0f} jobs/s")
    if not tried:
        return None
    best, settings = max(tried, key=lambda pair: pair[0])
    return {
        "date": time.strftime("%Y-%m-%d"),
        "version": install.version(system),
        "settings": settings,
        "rate": round(best),
        "tried": [{"settings": kind, "rate": round(value)} for value, kind in tried],
    }
