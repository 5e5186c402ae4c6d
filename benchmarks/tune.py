"""Tune: a short pass over each system's settings; the best goes into tuning.json.

Drains of one process on about a second of work, the settings in turns so that noise hits all alike. The
setting with the best run wins: a neighbour only ever takes away, and a wrong choice would flatter us. The
file is checked in, so that a run needs no tuning and everybody sees what was tried, when, on how busy a
machine, and what it cost in CPU, which a neighbour changes least.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
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
    load = meter.machine()["load_before"]
    tried = [Tried(settings) for settings in system.variants]
    for _ in range(runs):
        for one in tried:
            if one.failed:
                continue
            trial = Trial(lab, system, Tuned(one.settings, system.guess * SHARE), quick=True)
            try:
                one.add({figure.workload: figure.value for figure in drain(trial, 1)})
            except Failed as error:
                one.failed = True
                console.print(f"{system.name} {one.settings}: failed: {error}")
                continue
            console.print(f"{system.name} {one.settings}: {one.rates[-1]:,.0f} jobs/s")
    able = [one for one in tried if not one.failed]
    if not able:
        return None
    best = max(able, key=lambda one: one.best)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "load_before": load,
        "version": install.version(system),
        "settings": best.settings,
        "rate": round(best.best),
        "tried": [one.entry() for one in able],
    }


@dataclass(slots=True)
class Tried:
    """One setting and what its drains gave."""

    settings: Settings
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # microseconds a job, of worker and server
    failed: bool = False

    def add(self, figures: dict[str, float]) -> None:
        self.rates.append(figures["drain-1"])
        self.cpu.append(figures["cpu-worker-us"] + figures["cpu-server-us"])

    @property
    def best(self) -> float:
        return max(self.rates)

    def entry(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "rate": round(self.best),
            "runs": [round(rate) for rate in self.rates],
            "cpu_us": [round(cpu, 1) for cpu in self.cpu],
        }
