"""When each task of a process was made and when it ended, on one line of time. Pure.

A time in which nothing happened is folded, so that a repair next week does not flatten the first minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mainspring.console.words import span
from mainspring.processes.operate.graph import GraphTask

MOST = 100
WIDTH, ROW, LABEL = 900, 24, 190
FOLDED = 28  # how wide a folded gap is
GAP = 0.1  # of the whole: what is longer and idle is folded
ENDED = ("done", "failed", "cancelled", "superseded")


@dataclass(frozen=True, slots=True)
class Bar:
    """A task: its row, where it begins and how long it is."""

    y: int
    x: float
    width: float
    text: str
    status: str
    title: str


@dataclass(frozen=True, slots=True)
class Fold:
    """A gap that is folded: where, and how long it was."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Gantt:
    """Bars and folds, and how large the picture is."""

    bars: Sequence[Bar]
    folds: Sequence[Fold]
    width: int
    height: int
    left_out: int


def draw(tasks: Sequence[GraphTask], now: datetime) -> Gantt:
    """Tasks, oldest first, as bars from when they were made to their end, or to now."""
    shown = tasks[:MOST]
    spans = [(t.created_at.timestamp(), _end(t, now).timestamp()) for t in shown]
    scale = _Scale(spans)
    bars = []
    for n, (task, (begin, end)) in enumerate(zip(shown, spans, strict=True)):
        x = scale.x(begin)
        title = f"{task.actor}, {task.status}, {span(end - begin)}"
        bars.append(
            Bar(n * ROW, x, max(3.0, scale.x(end) - x), task.actor[:26], task.status, title)
        )
    return Gantt(
        bars, scale.folds, LABEL + WIDTH, ROW * len(shown) + ROW, max(0, len(tasks) - MOST)
    )


def _end(task: GraphTask, now: datetime) -> datetime:
    end = task.changed_at if task.status in ENDED else now
    return max(end, task.created_at)


class _Scale:
    """From moments to places, with long gaps folded."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        self._parts: list[tuple[float, float, float]] = []  # begin, end, x at its begin
        self.folds: list[Fold] = []
        self._per_second = 0.0
        busy = _united(spans)
        if not busy:
            return
        whole = busy[-1][1] - busy[0][0]
        joined = [busy[0]]
        gaps = []
        for begin, end in busy[1:]:
            if begin - joined[-1][1] > max(1.0, whole * GAP):
                gaps.append(begin - joined[-1][1])
                joined.append((begin, end))
            else:
                joined[-1] = (joined[-1][0], end)
        seconds = sum(end - begin for begin, end in joined)
        self._per_second = (WIDTH - FOLDED * len(gaps)) / max(seconds, 0.001)
        x = float(LABEL)
        for n, (begin, end) in enumerate(joined):
            self._parts.append((begin, end, x))
            x += (end - begin) * self._per_second
            if n < len(gaps):
                self.folds.append(Fold(x, span(gaps[n])))
                x += FOLDED

    def x(self, at: float) -> float:
        """Where a moment is."""
        for begin, end, x in reversed(self._parts):
            if at >= begin:
                return round(x + (min(at, end) - begin) * self._per_second, 1)
        return float(LABEL)


def _united(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
