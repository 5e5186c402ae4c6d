"""Lines over a pair of axes as inline SVG, drawn by hand: nothing to load from anywhere.

Colours come from the page's style sheet, by class, so that dark and light both work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from benchmarks.style import title
from benchmarks.targets import OURS

Points = list[tuple[float, float]]

WIDTH, BROAD = 620, 1180  # of a plot, and of one that takes the whole page
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 320, 52, 128, 24, 44


def lines(
    series: dict[str, Points],
    *,
    x_label: str,
    y_label: str,
    log_y: bool = False,
    place: Callable[[float], float] | None = None,
    ticks: list[tuple[float, str]] | None = None,
    marks: Sequence[tuple[float, str]] = (),
    broad: bool = False,
) -> str:
    """One line a system; `place` maps x to where it stands between 0 and 1.

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
    wide = (BROAD if broad else WIDTH) - LEFT - RIGHT
    floor = HEIGHT - BOTTOM
    parts = []
    for value in heights(low, high or 1.0, log_y):
        y = rise(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + wide}"/>')
        parts.append(text(LEFT - 8, y + 4, short(value), "end", "tick"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{floor}H{LEFT + wide}"/>')
    for value, words in ticks or [(x, f"{x:.0f}") for x in spread(low_x, high_x)]:
        x = LEFT + place(value) * wide
        parts.append(f'<path class="axis" d="M{x:.1f} {floor}v5"/>')
        parts.append(text(x, floor + 19, words, "middle", "tick"))
    for i, (value, words) in enumerate(marks):
        x = LEFT + place(value) * wide
        parts.append(f'<path class="mark" d="M{x:.1f} {TOP}V{floor}"/>')
        parts.append(text(x + 4, floor - 8 - 14 * (i % 2), words, "start", "tick"))
    ends = spaced({name: rise(line[-1][1]) for name, line in series.items() if line})
    for name in sorted(series, key=lambda name: name == OURS):  # ours over all others
        if not (line := series[name]):
            continue
        path = "L".join(f"{LEFT + place(x) * wide:.1f} {rise(y):.1f}" for x, y in line)
        words = escape(title(name))
        parts.append(f'<path class="line {escape(name)}" d="M{path}"><title>{words}</title></path>')
        # From the line's end to its name, where that had to move.
        last_x, last_y = LEFT + place(line[-1][0]) * wide, rise(line[-1][1])
        if abs(ends[name] - last_y) > 3 and last_x > LEFT + wide - 1:
            parts.append(
                f'<path class="grid" d="M{last_x + 2:.1f} {last_y:.1f}'
                f'L{LEFT + wide + 10} {ends[name]:.1f}"/>'
            )
        parts.append(text(LEFT + wide + 13, ends[name] + 4, title(name), "start", f"end {name}"))
    parts.append(text(LEFT + wide / 2, HEIGHT - 4, x_label, "middle", "tick"))
    parts.append(text(4, TOP - 10, y_label, "start", "tick"))
    inside = "".join(parts)
    return (
        f'<div class="scroll"><svg viewBox="0 0 {BROAD if broad else WIDTH} {HEIGHT}" role="img">'
        f"{inside}</svg></div>"
    )


def legend(names: Iterable[str]) -> str:
    chips = (f'<span class="chip {escape(name)}">{escape(title(name))}</span>' for name in names)
    return f'<div class="chips">{"".join(chips)}</div>'


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


def spaced(wanted: dict[str, float], apart: float = 15) -> dict[str, float]:
    """Labels at the ends of lines, moved apart where they would cover each other."""
    names = sorted(wanted, key=lambda name: wanted[name])
    lowest = float(HEIGHT - BOTTOM)
    for name in reversed(names):  # up from the floor, then down from the ceiling
        lowest = wanted[name] = min(wanted[name], lowest)
        lowest -= apart
    highest = float(TOP)
    for name in names:
        highest = wanted[name] = max(wanted[name], highest)
        highest += apart
    return wanted


def text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    inside = escape(words)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{inside}</text>'


def short(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1000:,.0f}k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
