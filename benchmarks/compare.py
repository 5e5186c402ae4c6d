"""Compare two runs: what changed per workload, and whether it is a regression.

A change counts when it is above the threshold and the two ranges of runs do not overlap: on a
shared machine a median alone moves by that much from noise. Single runs have no range, so theirs
must be three times as large. Where the bare loop, whose code is the same in every commit, moved as
much in the same workload, it was the machine.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.targets import BARE, by_key

Record = dict[str, Any]
YARDSTICK = "drain-1"
SINGLE = 3.0  # thresholds that a change between single runs must exceed
HEAD = ("workload", "system", "before", "after", "change", "to bare", "verdict")
COLOURS = {"worse": "red", "broken": "red", "better": "green"}


def compare(before: list[Record], after: list[Record], *, threshold: float, watched: str) -> int:
    """Print the table; 1 when the watched system got worse by more than the threshold."""
    table = Table(title=f"Changes; above {threshold:g} % they count", title_justify="left")
    for name in HEAD:
        right = name in ("before", "after", "change", "to bare")
        table.add_column(name, justify="right" if right else "left")
    old, new = by_key(before), by_key(after)
    regressions = []
    for key in [*new, *(key for key in old if key not in new)]:
        known, record = old.get(key), new.get(key)
        if not has_figure(known) and not has_figure(record):
            continue
        drift = moved(old.get((key[0], BARE)), new.get((key[0], BARE))) if key[1] != BARE else None
        verdict = judge(known, record, threshold, drift)
        mine = key[1] == watched
        if mine and verdict in ("worse", "broken"):
            regressions.append(f"{key[0]} {verdict} {change(known, record)}".strip())
        style = COLOURS.get(verdict, "")
        table.add_row(
            *key,
            text(known),
            text(record),
            change(known, record),
            relative(known, record, drift),
            verdict,
            style=style if mine else f"dim {style}".strip(),
        )
    console = Console(width=None if Console().is_terminal else 150, highlight=False)
    for word, run in (("before", before), ("after", after)):
        console.print(f"{word:>6}: {told(run, watched)}", soft_wrap=True)
    console.print(table)
    console.print(f"{watched}: {'; '.join(regressions) or 'no regression'}", soft_wrap=True)
    drift = moved(old.get((YARDSTICK, BARE)), new.get((YARDSTICK, BARE)))
    if drift and abs(drift - 1) * 100 > threshold:
        console.print(
            f"the bare loop itself moved by {(drift - 1) * 100:+.1f} % in {YARDSTICK}: "
            "much of it is the machine"
        )
    if len({bool(run[0].get("about", {}).get("quick")) for run in (before, after) if run}) > 1:
        console.print("one of them is a quick run: its workloads are smaller")
    return 1 if regressions else 0


def told(run: list[Record], watched: str) -> str:
    """Which commit it was, when, and on how busy a machine."""
    about = run[0].get("about", {}) if run else {}
    versions = {r["version"] for r in run if r["system"] == watched and r.get("version")}
    parts = [*sorted(versions), about.get("date"), about.get("server")]
    if "load_before" in about:
        parts.append(f"load before it {about['load_before']}")
    return ", ".join(str(part) for part in parts if part) or "a run without a description"


def has_figure(record: Record | None) -> bool:
    return record is not None and record["median"] is not None


def moved(before: Record | None, after: Record | None) -> float | None:
    """How many times the figure of before."""
    if before is None or after is None or not before["median"] or not after["median"]:
        return None
    return float(after["median"] / before["median"])


def judge(
    before: Record | None, after: Record | None, threshold: float, drift: float | None = None
) -> str:
    if after is None:
        return "left out"
    if before is None or before["median"] is None:
        return "new"
    if after["median"] is None:
        return "broken"
    times = moved(before, after)
    if times is None:
        return "no ratio"
    runs = min(len(before["runs"]), len(after["runs"]))
    needed = threshold if runs > 1 else SINGLE * threshold
    if abs(times - 1) * 100 <= needed:
        return "same" if abs(times - 1) * 100 <= threshold else "one run"
    if runs > 1 and overlap(before["runs"], after["runs"]):
        return "noise"
    if drift and (drift > 1) == (times > 1) and abs(times / drift - 1) * 100 <= threshold:
        return "the machine"
    return "better" if (times > 1) == after["higher_is_better"] else "worse"


def overlap(before: list[float], after: list[float]) -> bool:
    return min(before) <= max(after) and min(after) <= max(before)


def text(record: Record | None) -> str:
    if record is None or record["median"] is None:
        return "-"
    return f"{record['median']:,.2f} {record['unit']}"


def change(before: Record | None, after: Record | None) -> str:
    times = moved(before, after)
    return f"{(times - 1) * 100:+.1f} %" if times else ""


def relative(before: Record | None, after: Record | None, drift: float | None) -> str:
    """The change in what it is to the bare loop of the same run."""
    times = moved(before, after)
    return f"{(times / drift - 1) * 100:+.1f} %" if times and drift else ""
