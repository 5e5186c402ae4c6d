"""Bars of the report, as plain elements of the page: text stays readable on a narrow screen."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from benchmarks.style import title
from benchmarks.targets import OURS

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    system: str  # whose colour it has
    value: float
    low: float
    high: float
    ratio: str = ""


def of_systems(rows: list[Record]) -> list[Bar]:
    """One bar a system, the best first, with how far each is from ours."""
    better = rows[0]["higher_is_better"] if rows else True
    rows = sorted(rows, key=lambda r: -r["median"] if better else r["median"])
    ours = next((r["median"] for r in rows if r["system"] == OURS), None)
    return [of(r, title(r["system"]), behind(r["median"], ours, better)) for r in rows]


def of(record: Record, label: str, ratio: str = "") -> Bar:
    runs = record["runs"]
    return Bar(label, record["system"], record["median"], min(runs), max(runs), ratio)


def behind(value: float, ours: float | None, higher_is_better: bool) -> str:
    """How a peer stands to ours, in words that hold for rates and for times."""
    if ours is None or min(ours, value) <= 0 or value == ours:
        return ""  # a wait that ended before it began has no ratio
    times = ours / value if higher_is_better else value / ours
    if times >= 1:
        return f"{factor(times)} behind"
    return f"{factor(1 / times)} ahead"


def factor(times: float) -> str:
    return f"{times:,.0f}×" if times >= 20 else f"{times:.1f}×" if times >= 2 else f"{times:.2f}×"  # noqa: RUF001


def drawn(bars: list[Bar], unit: str, at: float | None = None) -> str:
    """From left to right; a whisker from the worst run to the best; a line at a target."""
    longest = max((bar.high for bar in bars), default=1.0) or 1.0
    return "".join(row(bar, unit, longest, at) for bar in bars)


def row(bar: Bar, unit: str, longest: float, at: float | None) -> str:
    def percent(value: float) -> str:
        return f"{100 * max(value, 0.0) / longest:.2f}%"

    track = f'<i style="width:{percent(bar.value)}"></i>'
    if bar.high > bar.low:
        track += f'<u style="left:{percent(bar.low)};width:{percent(bar.high - bar.low)}"></u>'
    if at is not None:
        track += f'<s style="left:{percent(at)}"></s>'
    told = f"{bar.label}: {bar.low:,.6g} to {bar.high:,.6g} {unit}"
    return (
        f'<div class="row {escape(bar.system)}" title="{escape(told)}">'
        f'<span class="who">{escape(bar.label)}</span><span class="track">{track}</span>'
        f'<span class="value">{short(bar.value)} <small>{escape(unit)}</small></span>'
        f'<span class="ratio">{escape(bar.ratio)}</span></div>'
    )


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
