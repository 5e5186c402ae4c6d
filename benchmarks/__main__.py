"""The commands: run, compare and tune."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "src"))  # a checkout works before it is installed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure systems side by side")
    run.add_argument("--quick", action="store_true", help="under five minutes, three systems")
    run.add_argument("--only", type=names, help="workloads, separated by commas")
    run.add_argument("--systems", type=names, help="systems, separated by commas")
    run.add_argument("--runs", type=int, default=3, help="runs of each, the median counts")
    run.add_argument("--json", type=Path, help="write the records here")
    run.add_argument("--report", type=Path, help="write a page with plots here")
    run.add_argument("--markdown", type=Path, help="put the table into this page, between marks")
    show = commands.add_parser("show", help="table, page and markdown of a run kept as JSON")
    show.add_argument("records", type=Path)
    show.add_argument("--report", type=Path)
    show.add_argument("--markdown", type=Path)
    compare = commands.add_parser("compare", help="two JSON files, before and after")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--threshold", type=float, default=15, help="percent that count")
    compare.add_argument("--system", default="mainspring", help="whose regressions fail")
    tune = commands.add_parser("tune", help="find each peer's best settings again")
    tune.add_argument("--systems", type=names)
    arguments = parser.parse_args()
    actions = {"run": run_all, "show": show_again, "compare": compare_two, "tune": tune_all}
    return actions[arguments.command](arguments)


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run_all(arguments: argparse.Namespace) -> int:
    from benchmarks import catalog, meter
    from benchmarks.lab import SETTINGS, Lab
    from benchmarks.plan import carry_out
    from benchmarks.workloads import chosen

    console = Console(stderr=True, highlight=False)
    every = catalog.QUICK if arguments.quick else tuple(catalog.BY_NAME)
    try:
        systems = catalog.named(arguments.systems or every)
        workloads = chosen(arguments.only, quick=arguments.quick)
    except ValueError as error:
        console.print(f"error: {error}")
        return 2

    def say(line: str) -> None:
        console.print(line, soft_wrap=True, markup=False)

    begin, about = time.monotonic(), meter.machine()
    with Lab() as lab:
        about |= {"server": lab.version(), "settings": SETTINGS, "quick": arguments.quick}
        book = carry_out(
            lab, systems, workloads, runs=arguments.runs, quick=arguments.quick, say=say
        )
    about |= {"date": time.strftime("%Y-%m-%d %H:%M"), "took_seconds": time.monotonic() - begin}
    records = book.records()
    for record in records:
        record["about"] = about
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n")
    publish(records, arguments)
    console.print(f"{about['took_seconds']:.0f} s in all")
    return 0


def show_again(arguments: argparse.Namespace) -> int:
    publish(json.loads(arguments.records.read_text()), arguments)
    return 0


def publish(records: list[dict[str, object]], arguments: argparse.Namespace) -> None:
    from benchmarks import report, table

    table.show(records)
    if arguments.report:
        arguments.report.write_text(report.page(records))
    if arguments.markdown:
        table.insert(arguments.markdown, records)


def compare_two(arguments: argparse.Namespace) -> int:
    from benchmarks.compare import compare

    before = json.loads(arguments.before.read_text())
    after = json.loads(arguments.after.read_text())
    return compare(before, after, threshold=arguments.threshold, watched=arguments.system)


def tune_all(arguments: argparse.Namespace) -> int:
    from benchmarks import catalog
    from benchmarks.tune import tune

    tune(catalog.named(arguments.systems or tuple(catalog.BY_NAME)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
