"""The commands of the benchmarks: clear errors, and one small run for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import __main__ as commands
from benchmarks.workloads import WORKLOADS

NAMED_BY_THE_PROJECT = {
    *("drain-1", "drain-2", "enqueue-one", "enqueue-bulk", "latency-p50", "latency-p99"),
    *("latency-half", "backlog-10k", "backlog-100k", "backlog-1m", "held-first", "held-last"),
    *("failing", "groups", "long", "priorities", "chain-10", "fanout-10k", "stages", "triggers"),
    *("cpu-worker-us", "cpu-server-us", "wal-bytes", "rss-mb", "memory", "recovery-restart"),
}


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    return commands.main()


def test_every_named_workload_is_there() -> None:
    assert {name for w in WORKLOADS for name in w.records} >= NAMED_BY_THE_PROJECT


def test_an_unknown_workload_is_named_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "run", "--only", "drian-1") == 2
    assert "error: no workload 'drian-1'; known are backlog-100k, " in capsys.readouterr().err


def test_an_unknown_system_is_named_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "run", "--systems", "mainspring,sidekiq") == 2
    message = "error: no system 'sidekiq'; known are mainspring, bare, pgqueuer"
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_says_how_to_write_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "no.json")

    assert call(monkeypatch, "compare", missing, missing) == 2
    expected = f"error: there is no {missing}; write one with `run --json {missing}`"
    assert expected in capsys.readouterr().err


NO_NUMBERS = '[{"workload": "w", "system": "s", "unit": "ms", "runs": ["1"], "median": 1}]'
NO_MEDIAN = '[{"workload": "w", "system": "s", "unit": "ms", "runs": [1], "median": null}]'


@pytest.mark.parametrize(
    "text", ["{", "{}", '[{"workload": "drain-1"}]', "\x00", NO_NUMBERS, NO_MEDIAN]
)
def test_a_file_that_is_no_run_says_so(
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)

    assert call(monkeypatch, "show", str(path)) == 2
    assert f"error: {path} is not the JSON of a run" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    binary = tmp_path / "program"
    binary.write_bytes(b"\x7fELF\xd0\x00")

    assert call(monkeypatch, "compare", str(tmp_path), str(tmp_path)) == 2
    assert f"error: {tmp_path} cannot be read: Is a directory" in capsys.readouterr().err
    assert call(monkeypatch, "compare", str(binary), str(binary)) == 2
    assert f"error: {binary} is not the JSON of a run: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unit", "before", "after", "verdict"),
    [("jobs/s", 100, 60, 1), ("jobs/s", 60, 100, 0), ("ms", 1, 3, 1), ("% of a core", 3, 1, 0)],
)
def test_records_of_the_five_fields_alone_can_be_compared(
    unit: str,
    before: float,
    after: float,
    verdict: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    paths = []
    for name, figure in (("before", before), ("after", after)):
        runs = [figure * 0.99, figure, figure * 1.01]
        record = {"workload": "w", "system": "mainspring", "unit": unit, "runs": runs}
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps([{**record, "median": figure}]))

    assert call(monkeypatch, "compare", *map(str, paths)) == verdict


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", ","], "',' has no name in it"),
        (["--systems", ""], "'' has no name in it"),
        (["--runs", "0"], "'0' is no number of runs; give 1 or more"),
    ],
)
def test_a_run_of_nothing_is_refused(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "run", *words)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_leaves_records_and_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With a real server and a real producer, of the bare loop: nothing must be installed."""
    path, page = tmp_path / "run.json", tmp_path / "run.html"
    words = ["--quick", "--only", "enqueue-one", "--systems", "bare", "--runs", "1"]

    assert call(monkeypatch, "run", *words, "--json", str(path), "--report", str(page)) == 0

    [record] = json.loads(path.read_text())
    assert (record["workload"], record["system"]) == ("enqueue-one", "bare")
    assert record["runs"] == [record["median"]]
    assert record["about"]["server"].startswith("PostgreSQL ")
    assert "Enqueue, one by one" in page.read_text()
    assert "enqueue-one" in capsys.readouterr().out
