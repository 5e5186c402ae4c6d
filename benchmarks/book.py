"""The book: records as they come in, kept in a file that an interrupted run can go on from.

A record is what the JSON holds: workload, system, unit, runs, median, and what belongs to them.
One without a figure has no runs, no median, and the reason in `error`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.workloads.workload import Figure

Record = dict[str, Any]
Key = tuple[str, str]  # workload, system

SHAPE = ("workload", "system", "unit", "runs", "median", "higher_is_better", "version")


class Book:
    def __init__(self, path: Path | None = None, about: dict[str, Any] | None = None) -> None:
        self.path = path
        self.about = about or {}
        self.versions: dict[str, str] = {}
        self.kept: dict[Key, Record] = {}
        # What belongs to each run, beside `runs`: the record shows that of its median.
        self.extras: dict[Key, list[dict[str, Any]]] = {}

    def resume(self, records: Iterable[Record]) -> None:
        """Go on from these: figures count, failures are tried again."""
        for record in records:
            if record["median"] is None:
                continue
            key = (record["workload"], record["system"])
            kept = {name: value for name, value in record.items() if name != "about"}
            extra = {name: value for name, value in kept.items() if name not in SHAPE}
            self.kept[key] = kept
            self.extras[key] = [extra] * len(record["runs"])

    def runs(self, names: Iterable[str], system: str) -> int:
        """How often this system has given all of these records, or any of them."""
        counts = [len(self.kept[name, system]["runs"]) for name in names if self.has(name, system)]
        return min(counts, default=0)

    def has(self, name: str, system: str) -> bool:
        return (name, system) in self.kept

    def add(self, system: str, figures: Iterable[Figure]) -> None:
        for figure in figures:
            key = (figure.workload, system)
            extras = self.extras.setdefault(key, [])
            before = self.kept.get(key, {}).get("runs", [])
            runs = [*before, round(figure.value, 3)]
            extras.append({name: value for name, value in figure.extra.items() if value != ""})
            median = statistics.median(runs)
            shown = min(range(len(runs)), key=lambda i: abs(runs[i] - median))
            self.kept[key] = {
                "workload": key[0],
                "system": key[1],
                "unit": figure.unit,
                "runs": runs,
                "median": round(median, 3),
                "higher_is_better": figure.higher_is_better,
                "version": self.versions.get(system, ""),
                **extras[shown],
                **noted(extra.get("note", "") for extra in extras),
            }

    def fail(self, system: str, names: Iterable[str], reason: str) -> None:
        """No figure, and why; figures of earlier runs stay, with a note."""
        for name in names:
            key = (name, system)
            if key in self.kept and self.kept[key]["median"] is not None:
                record = self.kept[key]
                record |= noted([record.get("note", ""), f"a run failed: {reason}"])
                continue
            self.extras.pop(key, None)
            self.kept[key] = {
                "workload": name,
                "system": system,
                "unit": "",
                "runs": [],
                "median": None,
                "version": self.versions.get(system, ""),
                "error": reason,
            }

    def median(self, name: str, system: str) -> float | None:
        return self.kept.get((name, system), {}).get("median")

    def records(self) -> list[Record]:
        return [{**record, "about": self.about} for record in self.kept.values()]

    def save(self) -> None:
        """Whole or not at all: who reads it meanwhile sees the one before."""
        if self.path:
            new = self.path.with_name(self.path.name + ".new")
            new.write_text(json.dumps(self.records(), indent=1) + "\n")
            new.replace(self.path)


def noted(notes: Iterable[str]) -> dict[str, str]:
    told = list(dict.fromkeys(note for note in notes if note))
    return {"note": "; ".join(told)} if told else {}
