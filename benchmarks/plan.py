"""The plan: workloads one after the other, systems interleaved, and the records they give.

System A run 1, system B run 1, ..., A run 2, ...: noise of the machine hits all alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks import install
from benchmarks.catalog import System, tuned
from benchmarks.install import NotInstallable
from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.workloads import Figure, Trial, Workload

Record = dict[str, Any]
KEEP_FILLED = 150_000  # templates above this are dropped as soon as no run needs them

ABILITIES = {
    "latency": "has no wake-up to measure",
    "retry": "has no retry that this adapter can set to happen at once",
    "groups": "has no limit per group",
    "priorities": "has no priorities",
    "long": "has no limit of slots to set",
    "survives": "does not promise to reconnect",
    "workflows": "has no workflows: durable steps that depend on one another",
}


class Book:
    """Figures as they come in, and the records made of them."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], list[Figure]] = {}
        self.errors: dict[tuple[str, str], str] = {}
        self.versions: dict[str, str] = {}

    def add(self, system: System, figures: list[Figure]) -> None:
        for figure in figures:
            self.figures.setdefault((figure.workload, system.name), []).append(figure)

    def fail(self, system: System, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            self.errors.setdefault((name, system.name), reason)

    def records(self) -> list[Record]:
        made = [self.record(key) for key in self.figures]
        lost = [key for key in self.errors if key not in self.figures]
        return made + [self.failure(key) for key in lost]

    def record(self, key: tuple[str, str]) -> Record:
        figures = self.figures[key]
        runs = [round(figure.value, 3) for figure in figures]
        first = figures[0]
        record: Record = {
            "workload": key[0],
            "system": key[1],
            "unit": first.unit,
            "runs": runs,
            "median": round(statistics.median(runs), 3),
            "higher_is_better": first.higher_is_better,
            "version": self.versions.get(key[1], ""),
            **first.extra,
        }
        notes = sorted({figure.extra.get("note", "") for figure in figures} - {""})
        if key in self.errors:
            notes.append(f"a run failed: {self.errors[key]}")
        record.pop("note", None)
        return {**record, "note": "; ".join(notes)} if notes else record

    def failure(self, key: tuple[str, str]) -> Record:
        return {
            "workload": key[0],
            "system": key[1],
            "unit": "",
            "runs": [],
            "median": None,
            "version": self.versions.get(key[1], ""),
            "error": self.errors[key],
        }


def carry_out(
    lab: Lab,
    systems: list[System],
    workloads: list[Workload],
    *,
    runs: int,
    quick: bool,
    say: Callable[[str], None],
) -> Book:
    book = Book()
    ready = installed(systems, workloads, book, say)
    rates: dict[str, float] = {}
    for workload in workloads:
        able = [system for system in ready if takes_part(system, workload, quick, book)]
        lost: set[str] = set()
        times = min(runs, workload.most_runs or runs, (quick and workload.quick_runs) or runs)
        for run in range(1, times + 1):
            for system in able:
                if system.name in lost:
                    continue
                trial = Trial(lab, system, tuned(system), quick, rates)
                begin = time.monotonic()
                error = attempt(trial, workload, book)
                if error:
                    lost.add(system.name)
                if run == times or error:
                    lab.forget(system, above=KEEP_FILLED)
                took = time.monotonic() - begin
                outcome = error or shown(book, workload, system)
                say(f"{workload.name:14} {system.name:14} run {run}: {outcome}  ({took:.1f} s)")
    return book


def installed(
    systems: list[System], workloads: list[Workload], book: Book, say: Callable[[str], None]
) -> list[System]:
    ready = []
    names = tuple(name for workload in workloads for name in workload.records)
    for system in systems:
        try:
            install.command(system)
        except NotInstallable as error:
            book.fail(system, names, str(error))
            say(f"{system.name}: {error}")
        else:
            book.versions[system.name] = install.version(system)
            ready.append(system)
    return ready


def takes_part(system: System, workload: Workload, quick: bool, book: Book) -> bool:
    if workload.needs and workload.needs not in system.can:
        book.fail(system, workload.records, f"not measured: {ABILITIES[workload.needs]}")
        return False
    only = workload.quick_systems if quick and workload.quick_systems else workload.systems
    return only is None or system.name in only


def attempt(trial: Trial, workload: Workload, book: Book) -> str:
    """Measure once; the reason when it cannot be done."""
    try:
        book.add(trial.system, workload.measure(trial))
    except (Failed, NotInstallable, psycopg.Error, OSError, ArithmeticError) as error:
        reason = f"{error}".strip() or type(error).__name__
        book.fail(trial.system, workload.records, reason)
        return f"failed: {reason}"
    return ""


def shown(book: Book, workload: Workload, system: System) -> str:
    figures = [
        book.figures[(name, system.name)][-1]
        for name in workload.records[:2]
        if (name, system.name) in book.figures
    ]
    return ", ".join(f"{figure.workload} {figure.value:,.1f} {figure.unit}" for figure in figures)
