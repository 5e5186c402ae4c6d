"""Runs of each minute as bars, failures on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.operate.status import MinuteRuns

WIDTH, HEIGHT, AXIS = 960, 160, 18


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """A minute: where its bar stands, how high it is, and its part that failed."""

    x: float
    width: float
    height: float
    failed: float
    title: str
    label: str  # below it; only of some


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars with the number that the highest stands for."""

    bars: list[MinuteBar]
    top: int
    width: int = WIDTH
    height: int = HEIGHT
    axis: int = AXIS


def draw(minutes: Sequence[MinuteRuns]) -> Chart:
    """A bar for each minute."""
    top = max((m.count for m in minutes), default=0)
    step = WIDTH / max(1, len(minutes))
    bars = []
    for n, m in enumerate(minutes):
        height = HEIGHT * m.count / top if top else 0.0
        failed = height * m.failed / m.count if m.count else 0.0
        title = (
            f"{m.minute:%H:%M}Z: {m.count:,} ended, {m.failed:,} failed, {m.mean_ms:.0f} ms each"
        )
        label = f"{m.minute:%H:%M}" if m.minute.minute % 15 == 0 else ""
        bars.append(MinuteBar(n * step, step * 0.8, height, failed, title, label))
    return Chart(bars, top)
