"""The table: one line per workload and system, with ratios and spread; terminal and markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.targets import BARE, OURS, Target, judged, unjudged

Record = dict[str, Any]
BEGIN, END = "<!-- last run: begin -->", "<!-- last run: end -->"
TARGET_HEAD = ("target", "bound", "measured", "verdict")
HEAD = ("workload", "system", "median", "unit", "spread", "to best peer", "to bare", "remark")


def show(records: list[Record]) -> None:
    table = Table(title="Benchmarks, median of the runs", title_justify="left")
    for name in HEAD:
        right = name in ("median", "spread", "to best peer", "to bare")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    previous = ""
    for record in gathered(records):
        if previous and record["workload"] != previous:
            table.add_section()
        style = "bold" if record["system"] == OURS else "dim" if "error" in record else ""
        first = record["workload"] if record["workload"] != previous else ""
        table.add_row(first, *cells(record, records), style=style)
        previous = record["workload"]
    Console(width=None if Console().is_terminal else 150).print(table)


def show_targets(records: list[Record]) -> None:
    """What was promised, beside what this run gave."""
    table = Table(title="Targets", title_justify="left")
    for name in TARGET_HEAD:
        table.add_column(name, justify="right" if name == "measured" else "left")
    for kind, line in target_lines(records):
        table.add_row(*line, style={"kept": "", "missed": "red"}.get(kind, "dim"))
    if table.rows:
        Console(width=None if Console().is_terminal else 150).print(table)


def target_lines(records: list[Record]) -> list[tuple[str, list[str]]]:
    """The verdict of each target and its line: kept, missed, or lost where there is no figure."""
    told = [
        ("kept" if kept else "missed", target_cells(target, value, kept))
        for target, value, kept in judged(records)
    ]
    lost = [
        ("lost", [target.words, target.bound, "-", f"no figure: {reason}"])
        for target, reason in unjudged(records)
    ]
    return told + lost


def target_cells(target: Target, value: float, kept: bool) -> list[str]:
    told = f"{number(value)} {target.unit}"
    return [target.words, target.bound, told, "kept" if kept else "missed"]


def insert(page: Path, records: list[Record]) -> None:
    """Put the run into a markdown page, between its two marks."""
    about = records[0].get("about", {}) if records else {}
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [BEGIN, "", *described(records, about), "", *markdown_targets(records)]
    lines += ["", *markdown(records), "", END]
    page.write_text(before + "\n".join(lines) + after)


def described(records: list[Record], about: dict[str, Any]) -> list[str]:
    versions = {r["system"]: r["version"] for r in records if r.get("version")}
    settings = ", ".join(f"{k}={v}" for k, v in about.get("settings", {}).items())
    return [
        f"Run of {about.get('date')}, {about.get('took_seconds', 0):.0f} s in all"
        f"{' (quick)' if about.get('quick') else ''}.",
        f"Machine: {about.get('cpus')} x {about.get('cpu')}, {about.get('memory_gb')} GB, "
        f"kernel {about.get('kernel')}, load before the run {about.get('load_before')}.",
        f"{about.get('server')} with {settings}; Python {about.get('python')}.",
        "Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items()) + ".",
    ]


def markdown_targets(records: list[Record]) -> list[str]:
    lines = ["| " + " | ".join(TARGET_HEAD) + " |", "|---|---|--:|---|"]
    return lines + ["| " + " | ".join(line) + " |" for _, line in target_lines(records)]


def markdown(records: list[Record]) -> list[str]:
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|--:|---|--:|--:|--:|---|"]
    for record in gathered(records):
        lines.append(f"| {record['workload']} | " + " | ".join(cells(record, records)) + " |")
    return lines


def arranged(records: list[Record]) -> list[Record]:
    """By workload as they ran; ours first, then from best to worst, failures last."""
    order = list(dict.fromkeys(record["workload"] for record in records))
    return sorted(records, key=lambda record: (order.index(record["workload"]), rank(record)))


def gathered(records: list[Record]) -> list[Record]:
    """Arranged, with one line for all that have no figure of a workload for the same reason."""
    lines: list[Record] = []
    for record in arranged(records):
        last = lines[-1] if lines else {}
        if "error" in record and all(
            record[name] == last.get(name) for name in ("workload", "error")
        ):
            lines[-1] = {**last, "system": f"{last['system']}, {record['system']}"}
        else:
            lines.append(record)
    return lines


def rank(record: Record) -> tuple[bool, str, bool, float]:
    median = record["median"] or 0.0
    goodness = -median if record.get("higher_is_better", True) else median
    return record["median"] is None, record.get("error", ""), record["system"] != OURS, goodness


def cells(record: Record, records: list[Record]) -> list[str]:
    if record["median"] is None:
        return [record["system"], "-", "", "", "", "", record["error"]]
    same = {r["system"]: r for r in records if r["workload"] == record["workload"]}
    return [
        record["system"],
        number(record["median"]),
        record["unit"],
        spread(record),
        ratio(record, best_peer(record, same)),
        ratio(record, same.get(BARE)),
        remark(record),
    ]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def spread(record: Record) -> str:
    runs = record["runs"]
    return f"{number(min(runs))} to {number(max(runs))}" if len(runs) > 1 else "one run"


def best_peer(record: Record, same: dict[str, Record]) -> Record | None:
    peers = [r for name, r in same.items() if name not in (OURS, BARE) and r["median"] is not None]
    peers = [r for r in peers if r["system"] != record["system"]]
    if not peers:
        return None
    pick = max if record["higher_is_better"] else min
    return pick(peers, key=lambda r: float(r["median"]))


def ratio(record: Record, other: Record | None) -> str:
    """How many times the other's figure this one is, as a plain quotient; of a wait that ended before it
    began (a handler that starts while its enqueue call returns) none can be told."""
    if other is None or other["median"] is None or other["system"] == record["system"]:
        return ""
    if min(record["median"], other["median"]) <= 0:
        return ""
    return f"{record['median'] / other['median']:.2f} x"


def remark(record: Record) -> str:
    told = []
    if record.get("n") and record["unit"] == "jobs/s":
        told.append(f"{record['n']:,} jobs")
    if "before_call_p50" in record:
        told.append(f"from before the call {record['before_call_p50']:.2f} ms")
    for key, words in (
        ("changes", "{:,} changes"),
        ("waiting", "{:,} waiting"),
        ("percent_of_first", "{} % of that run's first seconds"),
        ("percent_of_10_tasks", "{} % of ten tasks"),
        ("seconds", "{} s"),
        ("grew_mb", "grew by {} MB"),
        ("grew_again_mb", "by {} MB more over four more"),
        ("p50_ms", "p50 {} ms"),
        ("evaluations_per_advance", "{} checks an advance"),
        ("worker_us_per_advance", "{} us of the worker an advance"),
        ("times_the_live_p95", "live p95 {} times as without it"),
        ("finished_per_second_beside_live", "then {:,} a second ran through beside live work"),
        ("more_percent", "{} % more than empty"),
        ("percent_more_than_few", "{} % more than with 100 tasks"),
        ("without", "{} without"),
        ("fault", "{}"),
        ("sent_per_second", "at {:,}/s"),
        ("low_p50", "ordinary ones {:,} ms"),
        ("back_after_seconds", "back after {} s"),
        ("highest_mb", "highest {} MB"),
    ):
        if key in record:
            told.append(words.format(record[key]))
    if record.get("note"):
        told.append(record["note"])
    return "; ".join(told)
