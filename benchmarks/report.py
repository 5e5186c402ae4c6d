"""The report: one page that needs nothing from outside, for people who like to look at plots."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from benchmarks import svg
from benchmarks.style import PALETTE, STYLE
from benchmarks.table import HEAD, TARGET_HEAD, cells, described, gathered, target_cells
from benchmarks.targets import BARE, OURS, judged

Record = dict[str, Any]
Plot = tuple[str, str, str]  # workload, title, a sentence

FIRST_BARS: tuple[Plot, ...] = (
    ("drain-1", "Drain, one worker process", "No-op jobs per second from the first start on."),
    ("drain-2", "Drain, two worker processes", "The same queue, two processes, the same cores."),
)
TASK_BARS: tuple[Plot, ...] = (
    ("enqueue-bulk", "Enqueue, many at once", "By each system's fastest public call."),
    ("enqueue-one", "Enqueue, one by one", "Each call awaited until it is committed."),
    ("failing", "One job in ten fails once", "With the retry at once."),
    ("groups", "1,000 groups, one at a time each", "Where a system has such a limit."),
    (
        "priorities",
        "Urgent jobs under overload",
        "How long they wait while far more ordinary ones wait too; shorter is better.",
    ),
    (
        "long",
        "Eight long tasks, two workers, four slots each",
        "In task lengths; 1 leaves no slot idle.",
    ),
)
COST_BARS: tuple[Plot, ...] = (
    ("cpu-worker-us", "Worker CPU per job", "User and system time; shorter is better."),
    ("cpu-server-us", "Server CPU per job", "All server processes; shorter is better."),
    ("wal-bytes", "Write-ahead log per job", "Shorter is better."),
    ("rss-mb", "Peak memory of the worker", "Shorter is better."),
)
LAYER_BARS: tuple[Plot, ...] = (
    (
        "stages",
        "Entity changes through five stages",
        "One of them updates the entity; bare is the same statements in batches and nothing else.",
    ),
    (
        "writers-64",
        "64 writers on 100 hot entities",
        "And a value that must follow every change; no update may be lost.",
    ),
    (
        "capture",
        "What capturing a change adds to an update",
        "One update of many rows, beside a row-level audit trigger; shorter is better.",
    ),
    ("chain-10", "Workflows of ten dependent steps", "Each step durable before the next one runs."),
    ("start-p50", "From a workflow's start call to its first line", "Shorter is better."),
    ("fanout-10k", "One workflow, thousands of steps side by side", "And one that waits for all."),
)
PERCENTS = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9")]
BACK_PERCENT = 95.0  # of the rate before a fault: what counts as having come back


def page(records: list[Record]) -> str:
    about = records[0].get("about", {}) if records else {}
    parts = [
        "<h1>Mainspring and its peers</h1>",
        *[f'<p class="soft">{escape(line)}</p>' for line in described(records, about)],
        tiles(records),
        target_table(records),
        *[bar_plot(records, *plot) for plot in FIRST_BARS],
        curve_plot(records, "latency-p50", "Latency on an idle worker", OF_A_JOB),
        curve_plot(records, "latency-half", "Latency at half of capacity", OF_A_JOB),
        backlog_plot(records),
        held_plot(records),
        *recovery_plots(records),
        *[bar_plot(records, *plot) for plot in (*TASK_BARS, *COST_BARS, *LAYER_BARS)],
        curve_plot(records, "triggers", "Reactive tasks", OF_A_TRIGGER),
        curve_plot(records, "timers-1m", "Timers among a million", OF_A_TIMER),
        whole_table(records),
    ]
    head = f"<meta charset=utf-8><title>Benchmarks</title><style>{STYLE}{colours(records)}</style>"
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}{view}</head><body>{body}</body></html>'


def colours(records: list[Record]) -> str:
    peers = sorted({r["system"] for r in records} - {OURS, BARE})
    pairs = zip(peers, [PALETTE[i % len(PALETTE)] for i in range(len(peers))], strict=True)
    return "".join(
        f"svg text.{name}{{fill:{tint}}}.line.{name}{{stroke:{tint}}}" for name, tint in pairs
    )


def tiles(records: list[Record]) -> str:
    """The few ratios that people ask for first."""
    wanted = (
        ("drain-1", "drain, to the best peer", False),
        ("drain-1", "drain, to the bare loop", True),
        ("enqueue-bulk", "bulk enqueue, to COPY", True),
        ("latency-p50", "latency, to the best peer", False),
        ("chain-10", "workflows, to the best peer", False),
    )
    found = []
    for workload, words, to_bare in wanted:
        ours = [r for r in measured(records, workload) if r["system"] == OURS]
        if ours and (ratio := cells(ours[0], records)[5 if to_bare else 4]):
            found.append(f"<div><b>{ratio.replace(' x', '×')}</b>{words}</div>")  # noqa: RUF001
    return f'<div class="tiles">{"".join(found)}</div>' if found else ""


def target_table(records: list[Record]) -> str:
    rows = []
    for target, value, kept in judged(records):
        inside = "".join(f"<td>{escape(cell)}</td>" for cell in target_cells(target, value, kept))
        rows.append(f'<tr class="{"kept" if kept else "missed"}">{inside}</tr>')
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in TARGET_HEAD)
    return section(
        "Targets",
        "What the project promises of its speed, and what this run gave.",
        f'<table class="targets"><tr>{head}</tr>{"".join(rows)}</table>',
    )


def section(title: str, words: str, plot: str) -> str:
    return f'<section><h2>{title}</h2><p class="soft">{words}</p>{plot}</section>'


def bar_plot(records: list[Record], workload: str, title: str, words: str) -> str:
    rows = measured(records, workload)
    if not rows:
        return ""
    rows.sort(key=lambda r: -r["median"] if r["higher_is_better"] else r["median"])
    return section(title, words, svg.bars([bar(r, r["system"]) for r in rows], rows[0]["unit"]))


def bar(record: Record, label: str) -> svg.Bar:
    return label, record["median"], min(record["runs"]), max(record["runs"]), record["system"]


OF_A_JOB = "From the return of the enqueue call to the start of the handler; both axes by powers."
OF_A_TRIGGER = (
    "From the commit of an advance to the start of the task: 10,000 tasks, 1,000 advances a second."
)
OF_A_TIMER = "How late a timer starts that comes due while a million others wait."


def curve_plot(records: list[Record], workload: str, title: str, words: str) -> str:
    rows = [r for r in measured(records, workload) if r.get("curve")]
    series = {r["system"]: [(p, ms) for p, ms in r["curve"] if 1 <= p <= 99.9] for r in rows}
    if not series:
        return ""
    farthest = max(percent for line in series.values() for percent, _ in line)
    deepest = tail(farthest)
    plot = svg.lines(
        series,
        x_label="share that started sooner",
        y_label="ms",
        log_y=True,
        place=lambda percent: tail(percent) / deepest,
        ticks=[(percent, words) for percent, words in PERCENTS if percent <= farthest],
    )
    return section(title, words, plot)


def tail(percent: float) -> float:
    """Each further nine takes the same room."""
    return -math.log10(1 - percent / 100)


def backlog_plot(records: list[Record]) -> str:
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
    return section("With a long queue", words, plot)


def held_plot(records: list[Record]) -> str:
    rows = [r for r in measured(records, "held-first") if r.get("series")]
    if not rows:
        return ""
    plot = svg.lines(
        {r["system"]: [(x, y) for x, y in r["series"]] for r in rows},
        x_label="seconds since another transaction began and stayed open",
        y_label="jobs/s",
        marks=[(0.0, "begins")],
    )
    words = "Steady load; dead rows pile up because the open snapshot keeps vacuum from them."
    return section("Under a held transaction", words, plot)


def recovery_plots(records: list[Record]) -> list[str]:
    """The rate over time through all faults, and what came back after each."""
    rows = [r for r in records if r["workload"].startswith("recovery-") and r["median"]]
    ours = [r for r in rows if r["system"] == OURS]
    plots = []
    for record in ours:
        if "marks" in record and len(record["marks"]) > 1:
            plot = svg.lines(
                {OURS: [(x, y) for x, y in record["series"]]},
                x_label="seconds",
                y_label="jobs/s",
                marks=[(at, name) for at, name in record["marks"]],
            )
            words = "Two workers under steady load meet one fault after the other."
            plots.append(section("Through faults", words, plot))
    if ours:
        made = [bar(r, r["workload"].removeprefix("recovery-")) for r in ours]
        words = "In percent of the rate just before the fault; the line is at 95 %."
        plots.append(section("After each fault", words, svg.bars(made, "%", at=BACK_PERCENT)))
    peers = [r for r in rows if r["workload"] == "recovery-restart"]
    if len(peers) > 1:
        peers.sort(key=lambda r: -r["median"])
        plot = svg.bars([bar(r, r["system"]) for r in peers], "%", at=BACK_PERCENT)
        words = "The server away for four seconds; in percent of the rate before."
        plots.append(section("After a restart of the server", words, plot))
    return plots


def whole_table(records: list[Record]) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    rows = []
    for record in gathered(records):
        kind = "lost" if record["median"] is None else record["system"]
        inside = "".join(
            f"<td>{escape(cell)}</td>" for cell in (record["workload"], *cells(record, records))
        )
        rows.append(f'<tr class="{kind}">{inside}</tr>')
    return (
        f'<h2>All figures</h2><div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    )


def measured(records: list[Record], workload: str) -> list[Record]:
    return [r for r in records if r["workload"] == workload and r["median"] is not None]
