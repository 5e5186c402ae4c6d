"""The report: one page that needs nothing from outside, for people who like to look at plots."""

from __future__ import annotations

from html import escape
from typing import Any

from benchmarks import bars, plots
from benchmarks.style import STYLE, colours, title
from benchmarks.table import HEAD, TARGET_HEAD, cells, described, gathered, target_lines
from benchmarks.targets import BARE, OURS

Record = dict[str, Any]
Plot = tuple[str, str, str]  # workload, title, a sentence

THROUGHPUT: tuple[Plot, ...] = (
    ("drain-1", "Drain, one worker process", "No-op jobs a second, from the first start on."),
    ("drain-2", "Drain, two worker processes", "The same queue and the same cores."),
    ("drain-cli", "Drain, by the command line", "As each manual starts its worker, with its log."),
    ("enqueue-bulk", "Enqueue, many at once", "By each system's fastest public call."),
    ("enqueue-one", "Enqueue, one by one", "Each call awaited until it is committed."),
)
PROMPTNESS: tuple[Plot, ...] = (
    (
        "latency-p50",
        "Half of the jobs start within",
        "20 jobs/s on an idle worker; shorter is better.",
    ),
    (
        "priorities",
        "Urgent jobs under overload",
        "How long they wait while far more ordinary ones wait too; shorter is better.",
    ),
    (
        "long",
        "Eight long tasks, two workers, four slots each",
        "In task lengths: 1 leaves no slot idle; shorter is better.",
    ),
)
STRESS: tuple[Plot, ...] = (
    ("failing", "One job in ten fails once", "With the retry at once."),
    ("groups", "1,000 groups, one at a time each", "Where a system has such a limit."),
)
COST: tuple[Plot, ...] = (
    ("cpu-worker-us", "Worker CPU per job", "User and system time; shorter is better."),
    ("cpu-server-us", "Server CPU per job", "All server processes; shorter is better."),
    ("wal-bytes", "Write-ahead log per job", "Shorter is better."),
    ("rss-mb", "Peak memory of the worker", "Shorter is better."),
)
LAYERS: tuple[Plot, ...] = (
    ("chain-10", "Workflows of ten dependent steps", "Each step durable before the next one runs."),
    ("start-p50", "From a workflow's start call to its first line", "Shorter is better."),
    ("fanout-10k", "One workflow, thousands of steps side by side", "And one that waits for all."),
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
)


def page(records: list[Record]) -> str:
    about = records[0].get("about", {}) if records else {}
    chapters = [
        chapter(
            "Latency",
            plots.idle(records),
            plots.half(records),
            *bar_plots(records, PROMPTNESS),
        ),
        chapter(
            "Under stress",
            plots.held(records),
            plots.backlog(records),
            *bar_plots(records, STRESS),
            *plots.recovery(records),
        ),
        chapter("Throughput", *bar_plots(records, THROUGHPUT)),
        chapter("What a job costs", *bar_plots(records, COST)),
        chapter(
            "Workflows, stages, reactive tasks",
            *bar_plots(records, LAYERS),
            plots.triggers(records),
            plots.timers(records),
        ),
        chapter("Targets", target_table(records)),
    ]
    chapters.insert(0, chapters.pop(2))  # people ask for throughput first
    there = [(name, inside) for name, inside in chapters if inside]
    links = "".join(f'<a href="#{anchor(name)}">{name}</a>' for name, _ in there)
    parts = [
        "<header><h1><em>Mainspring</em> and its peers</h1>",
        f"<p>{escape(summary(about))}</p>",
        tiles(records),
        f'<nav>{links}<a href="#all">All figures</a></nav></header>',
        *[f'<h2 id="{anchor(name)}">{name}</h2>{inside}' for name, inside in there],
        whole_table(records),
        "<footer>",
        *[f"<p>{escape(line)}</p>" for line in described(records, about)],
        "</footer>",
    ]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"<meta charset=utf-8>{view}<title>Benchmarks: Mainspring and its peers</title>"
    body = "".join(parts)
    style = f"<style>{colours()}{STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}{style}</head><body>{body}</body></html>'


def summary(about: dict[str, Any]) -> str:
    return (
        f"Every system on the same {about.get('server', 'PostgreSQL')}, in one run, on "
        f"{about.get('cpus', 'the same')} cores that worker, producer and server share. "
        "Bars are medians, whiskers go from the worst run to the best; each peer has the best "
        "settings that a tuning pass found for it. Rerun it with make bench-all."
    )


def anchor(name: str) -> str:
    return name.split(",")[0].lower().replace(" ", "-")


def chapter(name: str, *sections: str) -> tuple[str, str]:
    inside = "".join(sections)
    return name, f'<div class="cards">{inside}</div>' if inside else ""


def tiles(records: list[Record]) -> str:
    """The few ratios that people ask for first."""
    wanted = (
        ("drain-1", "the drain rate of the best peer", False),
        ("drain-1", "the drain rate of a bare loop", True),
        ("enqueue-bulk", "the rate of a bare COPY, bulk enqueue", True),
        ("latency-p50", "the latency of the best peer", False),
        ("chain-10", "the workflows of the best peer", False),
    )
    found = []
    for workload, words, to_bare in wanted:
        ours = [r for r in plots.measured(records, workload) if r["system"] == OURS]
        if ours and (ratio := cells(ours[0], records)[5 if to_bare else 4]):
            found.append(f"<div><b>{ratio.replace(' x', '×')}</b>{words}</div>")  # noqa: RUF001
    return f'<div class="tiles">{"".join(found)}</div>' if found else ""


def bar_plots(records: list[Record], wanted: tuple[Plot, ...]) -> list[str]:
    return [bar_plot(records, *plot) for plot in wanted]


def bar_plot(records: list[Record], workload: str, name: str, words: str) -> str:
    rows = plots.measured(records, workload)
    if not rows:
        return ""
    drawn = bars.drawn(bars.of_systems(rows), rows[0]["unit"])
    return plots.section(name, words, drawn + missing(records, workload))


def missing(records: list[Record], workload: str) -> str:
    """Who has no bar here, and why."""
    lost = [r for r in gathered(records) if r["workload"] == workload and r["median"] is None]
    lost = [r for r in lost if r["system"] != BARE]
    if not lost:
        return ""
    told = (f"{names(r['system'])}: {r['error'].removeprefix('not measured: ')}" for r in lost)
    return f'<p class="soft missing">{escape("; ".join(told))}.</p>'


def names(systems: str) -> str:
    return ", ".join(title(name) for name in systems.split(", ") if name != BARE)


def target_table(records: list[Record]) -> str:
    rows = []
    for kind, line in target_lines(records):
        inside = "".join(f"<td>{escape(cell)}</td>" for cell in line)
        rows.append(f'<tr class="{kind}">{inside}</tr>')
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in TARGET_HEAD)
    table = (
        f'<div class="scroll"><table class="targets"><tr>{head}</tr>{"".join(rows)}</table></div>'
    )
    words = "What the project promises of its speed, and what this run gave."
    return plots.section("Promised and measured", words, table, broad=True)


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
        '<details id="all"><summary>All figures</summary><div class="scroll all">'
        f"<table><tr>{head}</tr>{''.join(rows)}</table></div></details>"
    )
