"""Compare two runs: what changed per workload, and whether it is a regression.

A change counts when it is above the threshold and the two ranges of runs do not overlap: on a
shared machine a median alone moves by that much from noise.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.targets import BARE

Record = dict[str, Any]
YARDSTICK = "drain-1"


def compare(before: list[Record], after: list[Record], *, threshold: float, watched: str) -> int:
    """Print the table; 1 when the watched system got worse by more than the threshold."""
    table = Table(title=f"Changes; above {threshold:g} % they count", title_justify="left")
    for name in ("workload", "system", "before", "after", "change", "verdict"):
        right = name in ("before", "after", "change")
        table.add_column(name, justify="right" if right else "left")
    old = {(r["workload"], r["system"]): r for r in before}
    regressions = []
    for record in after:
        known = old.pop((record["workload"], record["system"]), None)
        verdict = judge(known, record, threshold)
        mine = record["system"] == watched
        if mine and verdict in ("worse", "broken"):
            regressions.append(f"{record['workload']} {verdict} {change(known, record)}".strip())
        style = {"worse": "red", "broken": "red", "better": "green"}.get(verdict, "")
        table.add_row(
            record["workload"],
            record["system"],
            text(known),
            text(record),
            change(known, record),
            verdict,
            style=style if mine else f"dim {style}".strip(),
        )
    for record in old.values():
        table.add_row(record["workload"], record["system"], text(record), "-", "", "gone")
    console = Console(width=None if Console().is_terminal else 150, highlight=False)
    console.print(table)
    console.print(f"{watched}: {'; '.join(regressions) or 'no regression'}", soft_wrap=True)
    if drift := moved(before, after, threshold):
        console.print(
            f"the bare loop itself moved by {drift} in {YARDSTICK}: much of it is the machine"
        )
    return 1 if regressions else 0


def moved(before: list[Record], after: list[Record], threshold: float) -> str:
    """By how much the yardstick changed, which runs the same code in every commit; if it did."""
    found = [
        next((r for r in run if (r["workload"], r["system"]) == (YARDSTICK, BARE)), None)
        for run in (before, after)
    ]
    if not found[0] or not found[1] or not found[0]["median"] or not found[1]["median"]:
        return ""
    percent = (found[1]["median"] / found[0]["median"] - 1) * 100
    return change(found[0], found[1]) if abs(percent) > threshold else ""


def judge(before: Record | None, after: Record, threshold: float) -> str:
    if before is None or before["median"] is None:
        return "not measured" if after["median"] is None else "new"
    if after["median"] is None:
        return "broken"
    if not before["median"]:
        return "no ratio"
    gain = (after["median"] / before["median"] - 1) * 100
    if not after["higher_is_better"]:
        gain = -gain
    if abs(gain) <= threshold:
        return "same"
    if overlap(before["runs"], after["runs"]):
        return "noise"
    return "better" if gain > 0 else "worse"


def overlap(before: list[float], after: list[float]) -> bool:
    if min(len(before), len(after)) < 2:
        return False
    return min(before) <= max(after) and min(after) <= max(before)


def text(record: Record | None) -> str:
    if record is None or record["median"] is None:
        return "-"
    return f"{record['median']:,.2f} {record['unit']}"


def change(before: Record | None, after: Record) -> str:
    if before is None or not before["median"] or after["median"] is None:
        return ""
    return f"{(after['median'] / before['median'] - 1) * 100:+.1f} %"
