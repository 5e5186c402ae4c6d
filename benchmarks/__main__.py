"""The commands: run, show, compare and tune."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.catalog import Unknown

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "src"))  # a checkout works before it is installed

QUICK_MINUTES, MINUTES = 4.6, 52.0  # a quick run ends before five, a whole one before sixty
RECORD_NAMES = "workload, system, unit, runs and median"
HIGHER_UNITS = ("/s", "%")
RECORD = {"workload", "system", "unit", "runs", "median"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure systems side by side")
    run.add_argument("--quick", action="store_true", help="under five minutes, three systems")
    run.add_argument("--only", type=names, help="workloads, separated by commas")
    run.add_argument("--systems", type=names, help="systems, separated by commas")
    run.add_argument("--runs", type=some, default=3, help="runs of each, the median counts")
    run.add_argument("--json", type=Path, help="write the records here, after every run")
    run.add_argument("--resume", action="store_true", help="go on from that file")
    run.add_argument("--minutes", type=float, help="begin nothing after so long")
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
    tune.add_argument("--runs", type=some, default=3, help="of each setting, the best counts")
    arguments = parser.parse_args()
    actions = {"run": run_all, "show": show_again, "compare": compare_two, "tune": tune_all}
    try:
        return actions[arguments.command](arguments)
    except Unknown as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", soft_wrap=True, markup=False)
        return 2


def names(text: str) -> list[str]:
    """At least one: none would mean all of them, which takes an hour."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no name in it; names are separated by commas"
        )
    return found


def some(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs; give 1 or more")
    return int(text)


def run_all(arguments: argparse.Namespace) -> int:
    from benchmarks import catalog, install, meter
    from benchmarks.book import Book
    from benchmarks.lab import SETTINGS, Lab
    from benchmarks.plan import Plan
    from benchmarks.workloads import chosen

    console = Console(stderr=True, highlight=False)
    every = catalog.QUICK if arguments.quick else tuple(catalog.BY_NAME)
    path = arguments.json or install.HOME / ("quick.json" if arguments.quick else "all.json")
    minutes = arguments.minutes or (QUICK_MINUTES if arguments.quick else MINUTES)
    systems = catalog.named(arguments.systems or every)
    workloads = chosen(arguments.only, quick=arguments.quick)
    before = read_records(path) if arguments.resume else []

    def say(line: str) -> None:
        console.print(line, soft_wrap=True, markup=False)

    # Ended from outside, it takes its server and workers with it, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    book = Book(path, meter.machine() | {"settings": SETTINGS, "quick": arguments.quick})
    book.resume(before)
    stopped = False
    with Lab() as lab:
        book.about |= {"server": lab.version(), "date": time.strftime("%Y-%m-%d %H:%M")}
        plan = Plan(
            lab,
            systems,
            workloads,
            book,
            runs=arguments.runs,
            quick=arguments.quick,
            seconds=60 * minutes,
            say=say,
            named=bool(arguments.only and arguments.systems),
        )
        try:
            plan.carry_out()
        except KeyboardInterrupt:
            stopped = True
    book.about["took_seconds"] = round(time.monotonic() - begin, 1)
    book.save()
    publish(book.records(), arguments)
    say(f"{book.about['took_seconds']:.0f} s in all; records in {path}")
    if stopped:
        say("interrupted; the same command with --resume goes on from there")
    return 130 if stopped else 0


def read_records(path: Path) -> list[dict[str, object]]:
    """The records of a run; Unknown with the reason where there are none."""
    try:
        records: list[dict[str, object]] = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unknown(f"there is no {path}; write one with `run --json {path}`") from None
    except OSError as error:
        raise Unknown(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # not JSON, or not even text
        raise Unknown(f"{path} is not the JSON of a run: {error}") from None
    if not isinstance(records, list) or not all(map(is_record, records)):
        raise Unknown(f"{path} is not the JSON of a run: a list of records with {RECORD_NAMES}")
    for record in records:  # the five are enough: a rate is better when it is higher, a cost lower
        record.setdefault("higher_is_better", str(record["unit"]).endswith(HIGHER_UNITS))
    return records


def is_record(found: object) -> bool:
    if not isinstance(found, dict) or not found.keys() >= RECORD:
        return False
    runs, median = found["runs"], found["median"]
    if not isinstance(runs, list) or not runs:
        return runs == [] and median is None
    return all(isinstance(figure, int | float) for figure in [*runs, median])


def show_again(arguments: argparse.Namespace) -> int:
    publish(read_records(arguments.records), arguments)
    return 0


def publish(records: list[dict[str, object]], arguments: argparse.Namespace) -> None:
    from benchmarks import report, table

    table.show(records)
    table.show_targets(records)
    if arguments.report:
        arguments.report.write_text(report.page(records))
    if arguments.markdown:
        table.insert(arguments.markdown, records)


def compare_two(arguments: argparse.Namespace) -> int:
    from benchmarks.compare import compare

    before, after = read_records(arguments.before), read_records(arguments.after)
    return compare(before, after, threshold=arguments.threshold, watched=arguments.system)


def tune_all(arguments: argparse.Namespace) -> int:
    from benchmarks import catalog
    from benchmarks.tune import tune

    tune(catalog.named(arguments.systems or tuple(catalog.BY_NAME)), runs=arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
