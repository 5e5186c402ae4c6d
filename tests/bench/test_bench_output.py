"""What a run shows: table, targets, page, and two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import bars, report, table
from benchmarks.catalog import BY_NAME
from benchmarks.compare import compare
from benchmarks.plan import invited
from benchmarks.targets import OURS, TARGETS, judged, unjudged
from benchmarks.workloads import WORKLOADS

Record = dict[str, Any]


def record(workload: str, system: str, *runs: float, **more: Any) -> Record:
    return {
        "workload": workload,
        "system": system,
        "unit": "jobs/s",
        "runs": list(runs),
        "median": sorted(runs)[len(runs) // 2] if runs else None,
        "higher_is_better": True,
        "version": "1",
        **more,
    }


RUN = [
    record("drain-1", "mainspring", 40_000, 41_000, 39_000, n=100_000),
    record("drain-1", "pgqueuer", 10_000, 9_000, 11_000),
    record("drain-1", "bare", 50_000),
    record("drain-1", "dbos", error="no end after 240 s"),
    record("drain-1", "oban", error="no end after 240 s"),
    record("latency-p50", "mainspring", 1.0, higher_is_better=False, curve=[(50, 1.0), (99, 3.0)]),
    record("held-first", "mainspring", 20.0, series=[(0, 20.0), (1, 21.0), (2, 19.0)]),
    record("held-last", "mainspring", 10.0, percent_of_first=50.0),
    record("backlog-10k", "mainspring", 30.0),
    record("backlog-1m", "mainspring", 29.0),
    record(
        "recovery-storm",
        "mainspring",
        97.0,
        series=[(0, 5.0), (1, 6.0), (9, 7.0)],
        marks=[(1.0, "storm"), (5.0, "restart")],
    ),
]


def test_the_table_has_ratios_and_spread() -> None:
    ours = table.cells(RUN[0], RUN)

    assert ours == [
        "mainspring",
        "40,000",
        "jobs/s",
        "39,000 to 41,000",
        "4.00 x",
        "0.80 x",
        "100,000 jobs",
    ]


def test_a_wait_that_ended_before_it_began_has_no_ratio() -> None:
    run = [record("latency-half", "mainspring", 20.0), record("latency-half", "celery", -0.1)]

    assert [table.cells(one, run)[4] for one in run] == ["", ""]
    assert [bar.ratio for bar in bars.of_systems(run)] == ["", ""]


def test_systems_without_a_figure_for_one_reason_share_a_line() -> None:
    lines = [r for r in table.gathered(RUN) if r["workload"] == "drain-1"]

    assert [line["system"] for line in lines] == ["mainspring", "bare", "pgqueuer", "dbos, oban"]


def test_targets_are_judged_where_a_run_can_tell() -> None:
    verdicts = {target.words: (value, kept) for target, value, kept in judged(RUN)}

    assert verdicts["drain, one process, to PgQueuer"] == (4.0, True)
    assert verdicts["transaction held, last to first"] == (0.5, False)
    assert verdicts["rate after storm"] == (97.0, True)
    assert "bulk enqueue" not in verdicts


def test_a_target_without_a_figure_says_why_where_the_run_tried() -> None:
    lost = record("drain-1", "mainspring", error="no end after 240 s")
    peer = record("latency-p50", "pgqueuer", error="a worker ended with code 1")

    told = {target.words: reason for target, reason in unjudged([lost, RUN[5], peer])}

    assert told["drain, one process, to the bare loop"] == "no end after 240 s"
    assert told["latency p50, to PgQueuer"] == "pgqueuer: a worker ended with code 1"
    assert "latency p50" not in told
    assert "bulk enqueue" not in told
    assert "no figure: no end after 240 s" in "".join(table.markdown_targets([lost]))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.words)
def test_a_whole_run_reports_every_target(target: Any) -> None:
    """Each record that it needs is one that a whole run measures of that system."""
    for name, system in filter(None, [(target.workload, OURS), target.over]):
        [giver] = [w for w in WORKLOADS if name in w.records]
        assert invited(BY_NAME[system], giver, quick=False)
        assert giver.needs is None or giver.needs in BY_NAME[system].can


def test_the_page_needs_nothing_from_outside() -> None:
    page = report.page(RUN)

    for title in ("Drain, one worker", "Latency on an idle", "Under a held", "Through faults"):
        assert title in page
    assert "http" not in page
    assert "nan" not in page


def test_a_run_is_put_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")

    table.insert(page, RUN)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| drain-1 | mainspring | 40,000 |" in text


@pytest.mark.parametrize(
    ("now", "verdict", "code"),
    [
        ((20_000, 21_000, 19_000), "worse", 1),
        ((80_000, 81_000, 79_000), "better", 0),
        ((39_000, 40_000, 41_000), "same", 0),
        ((30_000, 30_000, 45_000), "noise", 0),
        ((), "broken", 1),
    ],
)
def test_a_regression_of_ours_is_named_and_fails(
    now: tuple[float, ...], verdict: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    after = record("drain-1", "mainspring", *now, **({} if now else {"error": "hung"}))

    assert compare(RUN[:1], [after], threshold=15, watched="mainspring") == code
    assert verdict in capsys.readouterr().out


def test_a_slower_machine_is_told_from_slower_code(capsys: pytest.CaptureFixture[str]) -> None:
    after = [record("drain-1", "mainspring", 20_000.0), record("drain-1", "bare", 25_000.0)]

    assert compare(RUN, after, threshold=15, watched="mainspring") == 0

    shown = capsys.readouterr().out
    assert "the machine" in shown
    assert "mainspring: no regression" in shown
    assert "the bare loop itself moved by -50.0 % in drain-1" in shown


def test_slower_code_on_a_slower_machine_is_still_a_regression(
    capsys: pytest.CaptureFixture[str],
) -> None:
    after = [record("drain-1", "mainspring", 16_000.0), record("drain-1", "bare", 40_000.0)]

    assert compare(RUN, after, threshold=15, watched="mainspring") == 1
    assert "mainspring: drain-1 worse -60.0 %" in capsys.readouterr().out


def test_a_single_run_must_differ_by_more(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = record("memory", "mainspring", 10.0), record("memory", "mainspring", 7.0)

    assert compare([before], [after], threshold=15, watched="mainspring") == 0
    assert "one run" in capsys.readouterr().out
    assert compare([before], [{**after, "median": 4.0}], threshold=15, watched="mainspring") == 1


def test_a_comparison_says_which_commits_and_what_is_unlike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quick = {"date": "2026-01-02 03:04", "server": "PostgreSQL 18", "quick": True}
    before = record("drain-1", "mainspring", 1.0, version="commit abc", about=quick)
    after = record("drain-1", "mainspring", 1.0, version="commit def", about={"load_before": 0.5})
    lost = record("drain-2", "mainspring", error="hung", version="")

    compare([before, lost], [after, lost], threshold=15, watched="mainspring")

    shown = capsys.readouterr().out
    assert "before: commit abc, 2026-01-02 03:04, PostgreSQL 18" in shown
    assert "after: commit def, load before it 0.5" in shown
    assert "one of them is a quick run: its workloads are smaller" in shown
    assert "drain-2" not in shown


def test_a_regression_of_a_peer_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    after = [record("drain-1", "pgqueuer", 1_000.0)]

    assert compare(RUN[1:2], after, threshold=15, watched="mainspring") == 0
    assert "worse" in capsys.readouterr().out
