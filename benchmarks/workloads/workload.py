"""What a workload is made of, and arithmetic that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.catalog import Settings, System, Tuned
from benchmarks.lab import Lab


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value of one run."""

    workload: str
    value: float
    unit: str = "jobs/s"
    higher_is_better: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """One system in one workload, one run."""

    lab: Lab
    system: System
    tuned: Tuned
    quick: bool
    drained: float | None = None  # jobs/s of drain-1, once this very run has measured it

    @property
    def settings(self) -> Settings:
        return self.tuned.settings

    @property
    def idle_settings(self) -> Settings:
        return {**self.tuned.settings, **self.system.idle}

    @property
    def drain_jobs(self) -> int:
        return self.tuned.drain_jobs

    @property
    def rate(self) -> float:
        return self.drained or self.tuned.rate


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    measure: Callable[[Trial], list[Figure]]
    gives: tuple[str, ...] = ()  # names of its records where they differ from its own
    needs: str | None = None  # ability that a system must have
    quick: bool = False
    quick_systems: tuple[str, ...] | None = None
    systems: tuple[str, ...] | None = None  # the only ones it is worth the time for
    others: str = ""  # why the other peers are left out, where they could take part
    most_runs: int | None = None
    peer_runs: int | None = None  # of the others in a full run, where three would take too long
    quick_runs: int | None = None
    most_seconds: float = 240.0  # after which one run counts as hung

    @property
    def records(self) -> tuple[str, ...]:
        return self.gives or (self.name,)

    def times(self, runs: int, *, ours: bool, quick: bool) -> int:
        """How often it is run."""
        bounds = [runs, self.most_runs, self.quick_runs if quick else None]
        bounds.append(None if ours else self.peer_runs)
        return min(bound for bound in bounds if bound)


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


CURVE = (1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9)


def curve(values: Sequence[float]) -> list[tuple[float, float]]:
    """Percentiles for the plot, as far out as so many values can tell."""
    known = [percent for percent in CURVE if (100 - percent) / 100 * len(values) >= 1]
    return [(percent, round(percentile(values, percent), 3)) for percent in known]
