"""The report: one page that needs nothing from outside, for people who like to look at plots."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from benchmarks import svg
from benchmarks.table import BARE, HEAD, OURS, arranged, cells, described

Record = dict[str, Any]

BARS = (
    ("drain-1", "Drain, one worker process", "No-op jobs per second from the first start on."),
    ("drain-2", "Drain, two worker processes", "The same queue, two processes, the same cores."),
    ("enqueue-bulk", "Enqueue, many at once", "By each system's fastest public call."),
    ("enqueue-one", "Enqueue, one by one", "Each call awaited until it is committed."),
    ("backlog-1m", "First 10,000 of a million", "Whether a long queue makes each job dearer."),
    ("failing", "One job in ten fails once", "With the retry at once."),
    ("groups", "1,000 groups, one at a time each", "Where a system has such a limit."),
    ("cpu-worker-us", "Worker CPU per job", "User and system time; shorter is better."),
    ("cpu-server-us", "Server CPU per job", "All server processes; shorter is better."),
    ("wal-bytes", "Write-ahead log per job", "Shorter is better."),
    ("rss-mb", "Peak memory of the worker", "Shorter is better."),
    ("recovery", "Rate after a storm and a restart", "In percent of the rate before."),
)
PERCENTS = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9")]
PALETTE = ("#b86e00", "#2f7d4f", "#9a3b6b", "#3a6ea5", "#7a5cc0", "#4f8a8b", "#a0522d", "#66752a")

STYLE = """
:root { --paper:#fbfaf7; --ink:#1f2328; --soft:#6a6f76; --rule:#e3e0d8; --ours:#c8372d;
  --bare:#9aa0a6; --peer:#8fa6bd }
@media (prefers-color-scheme: dark) { :root { --paper:#16181b; --ink:#e6e4df; --soft:#9a9fa6;
  --rule:#2c3036; --ours:#ff6b5e; --bare:#6b7178; --peer:#5c7691 } }
* { box-sizing:border-box }
body { margin:0 auto; padding:3rem 1.25rem 5rem; max-width:860px; background:var(--paper);
  color:var(--ink); font:16px/1.55 system-ui, sans-serif }
h1 { font-size:2rem; letter-spacing:-.02em; margin:0 0 .25rem }
h2 { font-size:1.15rem; margin:3rem 0 .1rem }
p { margin:.2rem 0 1rem } .soft { color:var(--soft); font-size:.92rem }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(170px,1fr)); gap:1px;
  background:var(--rule); border:1px solid var(--rule); margin:2rem 0 }
.tiles div { background:var(--paper); padding:1rem } .tiles b { display:block; font-size:1.7rem;
  font-variant-numeric:tabular-nums; color:var(--ours) }
svg { width:100%; height:auto; overflow:visible } svg text { font-size:13px; fill:var(--ink) }
svg text.value, svg text.tick { fill:var(--soft); font-size:12px }
svg text.mainspring { fill:var(--ours); font-weight:600 }
.bar { fill:var(--peer) } .bar.mainspring { fill:var(--ours) } .bar.bare { fill:var(--bare) }
.whisker { stroke:var(--ink); fill:none; opacity:.55 } .grid { stroke:var(--rule) }
.line { fill:none; stroke-width:2; stroke-linejoin:round }
.line.mainspring { stroke:var(--ours); stroke-width:3 } .line.bare { stroke:var(--bare) }
table { border-collapse:collapse; width:100%; font-size:.82rem; margin-top:1rem }
th, td { text-align:left; padding:.3rem .5rem; border-bottom:1px solid var(--rule) }
td:nth-child(n+3):nth-child(-n+7):not(:nth-child(4)) { text-align:right;
  font-variant-numeric:tabular-nums; white-space:nowrap }
tr.mainspring td { font-weight:600 } tr.lost td { color:var(--soft) } .wide { overflow-x:auto }
"""


def page(records: list[Record]) -> str:
    about = records[0].get("about", {}) if records else {}
    parts = [
        "<h1>Mainspring and its peers</h1>",
        *[f'<p class="soft">{escape(line)}</p>' for line in described(records, about)],
        tiles(records),
        *[bar_plot(records, *plot) for plot in BARS[:2]],
        latency_plot(records, "latency-p50", "Latency on an idle worker"),
        latency_plot(records, "latency-half", "Latency at half of capacity"),
        held_plot(records),
        *[bar_plot(records, *plot) for plot in BARS[2:]],
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
    )
    found = []
    for workload, words, to_bare in wanted:
        ours = [r for r in measured(records, workload) if r["system"] == OURS]
        if ours and (ratio := cells(ours[0], records)[5 if to_bare else 4]):
            found.append(f"<div><b>{ratio.replace(' x', '×')}</b>{words}</div>")  # noqa: RUF001
    return f'<div class="tiles">{"".join(found)}</div>' if found else ""


def bar_plot(records: list[Record], workload: str, title: str, words: str) -> str:
    rows = measured(records, workload)
    if not rows:
        return ""
    rows.sort(key=lambda r: -r["median"] if r["higher_is_better"] else r["median"])
    made: list[svg.Bar] = [
        (r["system"], r["median"], min(r["runs"]), max(r["runs"]), r["system"]) for r in rows
    ]
    plot = svg.bars(made, rows[0]["unit"])
    return f'<h2>{title}</h2><p class="soft">{words}</p>{plot}'


def latency_plot(records: list[Record], workload: str, title: str) -> str:
    rows = [r for r in measured(records, workload) if r.get("curve")]
    series = {r["system"]: [(p, ms) for p, ms in r["curve"] if 1 <= p <= 99.9] for r in rows}
    if not series:
        return ""
    deepest = tail(99.9)
    plot = svg.lines(
        series,
        x_label="share of jobs that started sooner",
        y_label="ms",
        log_y=True,
        place=lambda percent: tail(percent) / deepest,
        ticks=PERCENTS,
    )
    words = "From the return of the enqueue call to the start of the handler; both axes by powers."
    return f'<h2>{title}</h2><p class="soft">{words}</p>{plot}'


def tail(percent: float) -> float:
    """Each further nine takes the same room."""
    return -math.log10(1 - percent / 100)


def held_plot(records: list[Record]) -> str:
    rows = [r for r in measured(records, "held-first") if r.get("series")]
    if not rows:
        return ""
    plot = svg.lines(
        {r["system"]: [(x, y) for x, y in r["series"]] for r in rows},
        x_label="seconds since another transaction began and stayed open",
        y_label="jobs/s",
    )
    words = "Steady load; dead rows pile up because the open snapshot keeps vacuum from them."
    return f'<h2>Under a held transaction</h2><p class="soft">{words}</p>{plot}'


def whole_table(records: list[Record]) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    rows = []
    for record in arranged(records):
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
