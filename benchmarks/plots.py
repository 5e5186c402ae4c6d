"""Plots of the report that have axes: latency curves, rates over time, rates over a long queue."""

from __future__ import annotations

import math
from typing import Any

from benchmarks import bars, svg
from benchmarks.targets import OURS

Record = dict[str, Any]

PERCENTS = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9")]
BACK_PERCENT = 95.0  # of the rate before a fault: what counts as having come back
LEAST_PERCENT = 10.0  # the curve's left end


def section(name: str, words: str, plot: str, *, broad: bool = False) -> str:
    kind = ' class="broad"' if broad else ""
    return f'<section{kind}><h3>{name}</h3><p class="soft">{words}</p>{plot}</section>'


def measured(records: list[Record], workload: str) -> list[Record]:
    return [r for r in records if r["workload"] == workload and r["median"] is not None]


def idle(records: list[Record]) -> str:
    words = "20 jobs/s, from the return of the enqueue call to the start of the handler."
    return curve(records, "latency-p50", "Latency on an idle worker", words)


def half(records: list[Record]) -> str:
    words = "The same at half of what each system can do, in small batches."
    return curve(records, "latency-half", "Latency at half of capacity", words)


def triggers(records: list[Record]) -> str:
    words = "From the commit of an advance to the start of the task: 10,000 tasks, 1,000 advances a second."
    return curve(records, "triggers", "Reactive tasks", words)


def timers(records: list[Record]) -> str:
    words = "How late a timer starts that comes due while a million others wait."
    return curve(records, "timers-1m", "Timers among a million", words)


def curve(records: list[Record], workload: str, name: str, words: str) -> str:
    """Milliseconds over the share of jobs that started sooner; each further nine takes the same room."""
    rows = [r for r in measured(records, workload) if r.get("curve")]
    series = {
        r["system"]: [(p, ms) for p, ms in r["curve"] if LEAST_PERCENT <= p <= 99.9] for r in rows
    }
    if not any(series.values()):
        return ""
    farthest = max(percent for line in series.values() for percent, _ in line)
    nearest, deepest = tail(LEAST_PERCENT), tail(farthest)
    plot = svg.lines(
        series,
        x_label="share of jobs that started sooner",
        y_label="ms",
        log_y=True,
        place=lambda percent: (tail(percent) - nearest) / (deepest - nearest or 1.0),
        ticks=[(percent, text) for percent, text in PERCENTS if percent <= farthest],
    )
    return section(name, words, legend(series) + plot)


def tail(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def legend(series: dict[str, svg.Points]) -> str:
    """Ours first."""
    return svg.legend(sorted(series, key=lambda name: name != OURS)) if len(series) > 1 else ""


def backlog(records: list[Record]) -> str:
    """The rate of the first jobs over how many wait behind them."""
    sizes = {"backlog-10k": 4.0, "backlog-100k": 5.0, "backlog-1m": 6.0}
    series: dict[str, svg.Points] = {}
    for workload, power in sizes.items():
        for record in measured(records, workload):
            series.setdefault(record["system"], []).append((power, record["median"]))
    series = {name: line for name, line in series.items() if len(line) > 1}
    if not series:
        return ""
    plot = svg.lines(
        series,
        x_label="jobs waiting",
        y_label="jobs/s",
        ticks=[(4.0, "10,000"), (5.0, "100,000"), (6.0, "1,000,000")],
    )
    words = "The rate of the first 10,000 jobs: whether a long queue makes each of them dearer."
    return section("With a long queue", words, legend(series) + plot)


def held(records: list[Record]) -> str:
    rows = [r for r in measured(records, "held-first") if r.get("series")]
    if not rows:
        return ""
    series = {r["system"]: [(x, y) for x, y in r["series"]] for r in rows}
    plot = svg.lines(
        series,
        x_label="seconds since another transaction began and stayed open",
        y_label="jobs/s",
        marks=[(0.0, "begins")],
    )
    words = "Steady load; dead rows pile up because the open snapshot keeps vacuum from them."
    return section("Under a held transaction", words, legend(series) + plot)


def recovery(records: list[Record]) -> list[str]:
    """The rate over time through all faults, and what came back after each."""
    rows = [r for r in records if r["workload"].startswith("recovery-") and r["median"]]
    ours = [r for r in rows if r["system"] == OURS]
    made = []
    for record in ours:
        if len(record.get("marks", ())) > 1:
            plot = svg.lines(
                {OURS: [(x, y) for x, y in record["series"]]},
                x_label="seconds",
                y_label="jobs/s",
                marks=[(at, name) for at, name in record["marks"]],
                broad=True,
            )
            words = "Two workers under steady load meet one fault after the other."
            made.append(section("Through faults", words, plot, broad=True))
    if ours:
        drawn = [bars.of(r, r["workload"].removeprefix("recovery-")) for r in ours]
        words = "In percent of the rate just before the fault; the line is at 95 %."
        made.append(section("After each fault", words, bars.drawn(drawn, "%", at=BACK_PERCENT)))
    peers = [r for r in rows if r["workload"] == "recovery-restart"]
    if len(peers) > 1:
        plot = bars.drawn(bars.of_systems(peers), "%", at=BACK_PERCENT)
        words = "The server away for four seconds; in percent of the rate before."
        made.append(section("After a restart of the server", words, plot))
    return made
