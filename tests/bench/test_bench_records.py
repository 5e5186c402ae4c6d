"""Records of the benchmarks: their shape, and what becomes of failures and interrupted runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.book import Book
from benchmarks.install import commit
from benchmarks.workloads import Figure


def test_a_record_has_workload_system_unit_runs_and_median(tmp_path: Path) -> None:
    book = Book(tmp_path / "run.json", {"cpus": 2})
    book.versions["bare"] = "asyncpg 1"
    for rate in (30.0, 10.0, 20.0):
        book.add("bare", [Figure("drain-1", rate, extra={"n": 100, "note": ""})])
    book.save()

    [record] = json.loads((tmp_path / "run.json").read_text())

    assert record == {
        "workload": "drain-1",
        "system": "bare",
        "unit": "jobs/s",
        "runs": [30.0, 10.0, 20.0],
        "median": 20.0,
        "higher_is_better": True,
        "version": "asyncpg 1",
        "n": 100,
        "about": {"cpus": 2},
    }


def test_what_belongs_to_a_run_is_shown_of_the_median_run() -> None:
    book = Book()
    for rate, curve in ((30.0, "a"), (10.0, "b"), (20.0, "c")):
        book.add("bare", [Figure("drain-1", rate, extra={"curve": curve})])

    assert book.records()[0]["curve"] == "c"


def test_notes_of_all_runs_are_kept_once_each() -> None:
    book = Book()
    for note in ("slow", "", "slow", "5 left"):
        book.add("bare", [Figure("drain-1", 1.0, extra={"note": note})])

    assert book.records()[0]["note"] == "slow; 5 left"


def test_a_failure_has_no_runs_no_median_and_the_reason() -> None:
    book = Book()
    book.fail("chancy", ("drain-1",), "a worker ended with code 1")

    [record] = book.records()

    assert (record["runs"], record["median"]) == ([], None)
    assert record["error"] == "a worker ended with code 1"


def test_a_failure_after_figures_becomes_a_note() -> None:
    book = Book()
    book.add("bare", [Figure("drain-1", 1.0)])
    book.fail("bare", ("drain-1",), "no end after 240 s")

    [record] = book.records()

    assert record["median"] == 1.0
    assert record["note"] == "a run failed: no end after 240 s"
    assert "error" not in record


def test_resuming_keeps_figures_and_forgets_failures() -> None:
    first = Book()
    first.add("bare", [Figure("drain-1", 1.0, extra={"n": 5})])
    first.fail("chancy", ("drain-1",), "hung")

    book = Book()
    book.resume(first.records())
    book.add("bare", [Figure("drain-1", 3.0, extra={"n": 6})])

    [record] = book.records()
    assert record["runs"] == [1.0, 3.0]
    assert book.runs(("drain-1",), "bare") == 2
    assert book.runs(("drain-1",), "chancy") == 0


def test_a_version_says_whether_what_ran_is_its_commit(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    code = tmp_path / "src"
    code.mkdir()
    (code / "engine.py").write_text("fast = True\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "Begin")
    clean = commit(tmp_path)
    (code / "engine.py").write_text("fast = False\n")

    assert clean.startswith("commit ")
    assert commit(tmp_path) == f"{clean} with changes"
