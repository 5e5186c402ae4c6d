"""Plots as inline SVG, drawn by hand: bars and lines, nothing to load from anywhere.

Colours come from the page's style sheet, by class, so that dark and light both work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

Points = list[tuple[float, float]]
Bar = tuple[str, float, float, float, str]  # label, value, lowest, highest, class

WIDTH = 760
LABEL, RIGHT = 120, 120
ROW, THICK = 30, 18
HEIGHT, LEFT, TOP, BOTTOM = 300, 64, 16, 40


def bars(rows: list[Bar], unit: str, at: float | None = None) -> str:
    """Horizontal bars from best to worst, with a whisker over the runs; a line at a target."""
    longest = max((high for _, _, _, high, _ in rows), default=1.0) or 1.0
    scale = (WIDTH - LABEL - RIGHT) / longest
    parts = []
    for i, (label, value, low, high, kind) in enumerate(rows):
        y = i * ROW + (ROW - THICK) / 2
        middle = y + THICK / 2
        end = LABEL + value * scale
        parts += [
            text(LABEL - 10, middle + 4, label, "end", kind),
            f'<rect class="bar {kind}" x="{LABEL}" y="{y:.1f}" rx="3" '
            f'width="{max(value * scale, 1):.1f}" height="{THICK}"/>',
        ]
        if high > low:
            a, b = LABEL + low * scale, LABEL + high * scale
            parts.append(
                f'<path class="whisker" d="M{a:.1f} {middle}H{b:.1f}M{a:.1f} {middle - 4}v8'
                f'M{b:.1f} {middle - 4}v8"/>'
            )
        beside = max(end, LABEL + high * scale) + 8
        parts.append(text(beside, middle + 4, f"{short(value)} {unit}", "start", "value"))
    if at is not None:
        x = LABEL + at * scale
        parts.append(f'<path class="mark" d="M{x:.1f} 0V{len(rows) * ROW}"/>')
    return frame(parts, len(rows) * ROW)


def lines(
    series: dict[str, Points],
    *,
    x_label: str,
    y_label: str,
    log_y: bool = False,
    place: Callable[[float], float] | None = None,
    ticks: list[tuple[float, str]] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over one pair of axes; `place` maps x to where it stands between 0 and 1.

    `marks` are moments worth a vertical line with a word.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    span = (high_x - low_x) or 1.0
    place = place or (lambda x: (x - low_x) / span)
    values = [y for _, y in points]
    low, high = (max(min(values), 0.05), max(values)) if log_y else (0.0, max(values))
    rise = vertical(low, high or 1.0, log_y)
    wide = WIDTH - LEFT - RIGHT
    parts = []
    for value in heights(low, high or 1.0, log_y):
        y = rise(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + wide}"/>')
        parts.append(text(LEFT - 8, y + 4, short(value), "end", "tick"))
    for value, words in ticks or [(x, f"{x:.0f}") for x in spread(low_x, high_x)]:
        x = LEFT + place(value) * wide
        parts.append(text(x, HEIGHT - BOTTOM + 18, words, "middle", "tick"))
    for i, (value, words) in enumerate(marks):
        x = LEFT + place(value) * wide
        parts.append(f'<path class="mark" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(text(x + 3, TOP + 10 + 13 * (i % 3), words, "start", "tick"))
    ends = spaced({name: rise(line[-1][1]) for name, line in series.items() if line})
    for name, line in series.items():
        if not line:
            continue
        path = "L".join(f"{LEFT + place(x) * wide:.1f} {rise(y):.1f}" for x, y in line)
        parts.append(f'<path class="line {escape(name)}" d="M{path}"/>')
        parts.append(text(LEFT + wide + 8, ends[name] + 4, name, "start", name))
    parts.append(text(LEFT + wide / 2, HEIGHT - 4, x_label, "middle", "tick"))
    parts.append(text(4, TOP - 4, y_label, "start", "tick"))
    return frame(parts, HEIGHT)


def vertical(low: float, high: float, log_y: bool) -> Callable[[float], float]:
    tall = HEIGHT - TOP - BOTTOM

    def rise(value: float) -> float:
        if log_y:
            span = math.log(high / low) or 1.0
            return TOP + tall * (1 - math.log(max(value, low) / low) / span)
        return TOP + tall * (1 - value / high)

    return rise


def heights(low: float, high: float, log_y: bool) -> list[float]:
    if not log_y:
        return spread(0, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [m * 10.0**power for power in powers for m in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def spread(low: float, high: float) -> list[float]:
    """Round numbers between two values, about five of them."""
    span = (high - low) or 1.0
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if span / (size * m) <= 6)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def spaced(wanted: dict[str, float], apart: float = 14) -> dict[str, float]:
    """Labels at the ends of lines, moved down where they would cover each other."""
    placed: dict[str, float] = {}
    last = -apart
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        last = placed[name] = max(y, last + apart)
    return placed


def text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    inside = escape(words)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{inside}</text>'


def frame(parts: list[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'


def short(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1000:,.0f}k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
