"""Counters and histograms of runs: kept in a worker's memory, and shared through files by its processes.

A number only grows, also over the processes that come after each other in one place: the next one begins
with what the last one has written. What a killed process counted after its last write (a second at most) is
not counted.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from mainspring.kernel import Run

# Upper bounds of the buckets, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class Histogram(msgspec.Struct):
    """How many values lie in each bucket, the last one without a bound, and their sum."""

    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        self.buckets[bisect_left(BOUNDS, value)] += 1
        self.total += value

    def join(self, other: Histogram) -> None:
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total


class QueueCount(msgspec.Struct):
    """The runs of one queue."""

    outcomes: dict[str, int] = {}
    took: Histogram = msgspec.field(default_factory=Histogram)
    waited: Histogram = msgspec.field(default_factory=Histogram)

    def join(self, other: QueueCount) -> None:
        for outcome, n in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + n
        self.took.join(other.took)
        self.waited.join(other.waited)


class RunCounters:
    """Of one process. Used in its event loop."""

    def __init__(self, queues: dict[str, QueueCount] | None = None) -> None:
        self.queues = {} if queues is None else queues
        self.changed = False

    def count(self, runs: Sequence[Run]) -> None:
        """These have ended."""
        self.changed = True
        for run in runs:
            found = self.queues.get(run.visit.queue)
            if found is None:
                found = self.queues[run.visit.queue] = QueueCount()
            outcome = type(run.outcome).__name__.lower()
            found.outcomes[outcome] = found.outcomes.get(outcome, 0) + 1
            found.took.add(run.seconds)
            found.waited.add(max(0.0, run.started - run.visit.due))

    def render(self) -> str:
        """As OpenMetrics text."""
        return "\n".join([*lines_of([self.queues]), "# EOF"]) + "\n"

    def write(self, file: Path) -> None:
        """Where others of the machine read it: the whole of it, or what was there."""
        if not self.changed:
            return
        self.changed = False
        new = file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.queues))
        os.replace(new, file)


def read_counts(file: Path) -> dict[str, QueueCount]:
    """What a process has written; nothing, if none has."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, QueueCount])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def lines_of(counts: Iterable[dict[str, QueueCount]]) -> list[str]:
    """The sum of what processes have counted, as OpenMetrics."""
    queues: dict[str, QueueCount] = {}
    for each in counts:
        for name, found in each.items():
            queues.setdefault(name, QueueCount()).join(found)
    ordered = sorted(queues.items())
    return [
        "# TYPE mainspring_runs counter",
        "# HELP mainspring_runs Runs that have ended in these workers.",
        *(
            f'mainspring_runs_total{{queue="{_escaped(name)}",outcome="{outcome}"}} {n}'
            for name, found in ordered
            for outcome, n in sorted(found.outcomes.items())
        ),
        "# TYPE mainspring_run_seconds histogram",
        "# UNIT mainspring_run_seconds seconds",
        "# HELP mainspring_run_seconds How long runs took.",
        *(line for name, found in ordered for line in _histogram("run", name, found.took)),
        "# TYPE mainspring_wait_seconds histogram",
        "# UNIT mainspring_wait_seconds seconds",
        "# HELP mainspring_wait_seconds How long visits were due before they were run.",
        *(line for name, found in ordered for line in _histogram("wait", name, found.waited)),
    ]


def _histogram(what: str, queue: str, found: Histogram) -> Iterator[str]:
    name, label, seen = f"mainspring_{what}_seconds", f'queue="{_escaped(queue)}"', 0
    for bound, n in zip((*map(str, BOUNDS), "+Inf"), found.buckets, strict=True):
        seen += n
        yield f'{name}_bucket{{{label},le="{bound}"}} {seen}'
    yield f"{name}_count{{{label}}} {seen}"
    yield f"{name}_sum{{{label}}} {found.total:.6f}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
