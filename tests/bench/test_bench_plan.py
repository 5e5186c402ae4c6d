"""The plan of a run: passes, failures, hangs and the end of its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from benchmarks import install
from benchmarks.book import Book
from benchmarks.catalog import BY_NAME, System
from benchmarks.install import NotInstallable
from benchmarks.lab import Lab
from benchmarks.plan import TIME_IS_UP, Plan
from benchmarks.stage import Failed
from benchmarks.workloads import WORKLOADS, Figure, Trial, Workload

FOREVER = 60.0


class NoLab:
    """A lab whose workloads need no server."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs

    def revive(self) -> None:
        pass


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    monkeypatch.setattr(install, "version", lambda system: "1")
    monkeypatch.setattr(install, "command", lambda system, say: ["true"])

    def make(*workloads: Workload, runs: int = 3, seconds: float = 100.0) -> Plan:
        return Plan(
            cast("Lab", NoLab(tmp_path)),
            [BY_NAME["mainspring"], BY_NAME["bare"]],
            list(workloads),
            Book(tmp_path / "run.json"),
            runs=runs,
            quick=False,
            seconds=seconds,
            say=lambda line: None,
        )

    return make


def noting(turns: list[tuple[str, str]], name: str, **settings: Any) -> Workload:
    def measure(trial: Trial) -> list[Figure]:
        turns.append((name, trial.system.name))
        return [Figure(name, 1.0)]

    return Workload(name, measure, **settings)


def test_every_workload_runs_once_before_any_runs_again(plan: Callable[..., Plan]) -> None:
    turns: list[tuple[str, str]] = []
    plan(noting(turns, "a"), noting(turns, "b", peer_runs=1), runs=2).carry_out()

    first = [("a", "mainspring"), ("a", "bare"), ("b", "mainspring"), ("b", "bare")]
    assert turns[:4] == first
    assert sorted(turns[4:]) == [("a", "bare"), ("a", "mainspring"), ("b", "mainspring")]


def test_repeats_begin_with_the_shortest(plan: Callable[..., Plan]) -> None:
    turns: list[tuple[str, str]] = []

    def slow(trial: Trial) -> list[Figure]:
        turns.append(("slow", trial.system.name))
        time.sleep(0.05)
        return [Figure("slow", 1.0)]

    plan(Workload("slow", slow), noting(turns, "fast"), runs=2).carry_out()

    assert [name for name, _ in turns] == ["slow", "slow", "fast", "fast"] + ["fast"] * 2 + [
        "slow"
    ] * 2


def test_repeats_of_what_a_quick_run_measures_come_first(plan: Callable[..., Plan]) -> None:
    turns: list[tuple[str, str]] = []

    def quoted(trial: Trial) -> list[Figure]:
        turns.append(("quoted", trial.system.name))
        time.sleep(0.05)
        return [Figure("quoted", 1.0)]

    plan(noting(turns, "short"), Workload("quoted", quoted, quick=True), runs=2).carry_out()

    assert [name for name, _ in turns[4:]] == ["quoted"] * 2 + ["short"] * 2


def test_a_whole_run_gives_every_workload_of_the_main_table_three_runs_of_ours() -> None:
    main = {
        *("enqueue-one", "enqueue-bulk", "drain-1", "drain-2", "latency", "latency-half"),
        *("backlog-10k", "backlog-100k", "backlog-1m", "held", "long", "failing", "groups"),
        *("priorities", "recovery", "stages", "writers-64", "triggers", "chain-10", "start-p50"),
        "fanout-10k",
    }
    times = {w.name: w.times(3, ours=True, quick=False) for w in WORKLOADS}
    of_peers = {w.name: w.times(3, ours=False, quick=False) for w in WORKLOADS}

    assert {name for name, count in times.items() if count == 3} >= main
    assert {name for name in main if of_peers[name] < 3} == {"held", "long", "recovery"}


def test_time_counts_from_before_the_installation(
    plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(noting([], "a"), runs=1, seconds=0.01)
    monkeypatch.setattr(install, "command", lambda system, say: time.sleep(0.02))
    made.carry_out()

    assert {r["error"] for r in made.book.records()} == {TIME_IS_UP}


def test_a_system_that_fails_has_its_reason_and_the_others_go_on(plan: Callable[..., Plan]) -> None:
    def measure(trial: Trial) -> list[Figure]:
        if trial.system.name == "bare":
            raise Failed("3 of 5 jobs ran in 60 s")
        return [Figure("a", 2.0)]

    made = plan(Workload("a", measure), runs=2)
    made.carry_out()

    ours, bare = made.book.records()
    assert ours["runs"] == [2.0, 2.0]
    assert bare["error"] == "3 of 5 jobs ran in 60 s"


def test_figures_from_before_a_failure_count(plan: Callable[..., Plan]) -> None:
    def measure(trial: Trial) -> list[Figure]:
        raise Failed("restart: no job ran", [Figure("storm", 99.0)])

    made = plan(Workload("recovery", measure, gives=("storm", "restart")), runs=1)
    made.carry_out()

    known = {(r["workload"], r["system"]): r for r in made.book.records()}
    assert known["storm", "bare"]["median"] == 99.0
    assert known["restart", "bare"]["error"] == "restart: no job ran"


def test_an_error_that_nobody_thought_of_is_a_record_too(
    plan: Callable[..., Plan], tmp_path: Path
) -> None:
    def measure(trial: Trial) -> list[Figure]:
        raise KeyError("slots")

    made = plan(Workload("a", measure), runs=1)
    made.carry_out()

    assert [r["error"] for r in made.book.records()] == ["'slots'", "'slots'"]
    assert "KeyError" in (tmp_path / "harness.log").read_text()


def test_a_run_that_hangs_is_ended(plan: Callable[..., Plan]) -> None:
    def measure(trial: Trial) -> list[Figure]:
        time.sleep(FOREVER)
        return []

    made = plan(Workload("a", measure, most_seconds=0.05), runs=1)
    made.carry_out()

    assert made.book.records()[0]["error"] == "no end after 0 s"


def test_repeats_are_left_out_when_the_time_is_short(plan: Callable[..., Plan]) -> None:
    made = plan(noting([], "a"))
    made.begin = time.monotonic()
    made.took["a", "mainspring"] = 80.0
    made.took["a", "bare"] = 80.0

    assert not made.is_time_for(made.workloads[0], made.systems)
    assert made.is_time_for(made.workloads[0], made.systems[:1])
    assert made.is_time_for(Workload("b", lambda trial: []), made.systems)


def test_what_is_not_begun_says_so(plan: Callable[..., Plan]) -> None:
    made = plan(noting([], "a"), runs=1, seconds=-1.0)
    made.carry_out()

    assert {r["error"] for r in made.book.records()} == {TIME_IS_UP}


def test_a_system_without_the_ability_says_which(plan: Callable[..., Plan]) -> None:
    made = plan(noting([], "a", needs="workflows"), runs=1)
    made.carry_out()

    bare = made.book.kept["a", "bare"]
    assert bare["error"] == (
        "not measured: has no workflows: durable steps that depend on one another"
    )


def test_a_system_that_is_left_out_to_save_time_says_so(plan: Callable[..., Plan]) -> None:
    made = plan(noting([], "a", systems=("mainspring",), others="takes a minute each"), runs=1)
    made.systems = [BY_NAME["mainspring"], BY_NAME["oban"]]
    made.carry_out()

    assert made.book.kept["a", "oban"]["error"] == "not measured: takes a minute each"


def test_systems_and_workloads_asked_for_by_name_have_a_record_each(
    plan: Callable[..., Plan],
) -> None:
    turns: list[tuple[str, str]] = []
    ours = noting(turns, "ours", systems=("mainspring",))
    made = plan(noting(turns, "a", quick=True, quick_systems=("mainspring",)), ours, runs=1)
    made.quick = made.named = True
    made.carry_out()

    assert turns == [("a", "mainspring"), ("a", "bare"), ("ours", "mainspring")]
    assert made.book.kept["ours", "bare"]["error"] == (
        "not measured: a workload of mainspring alone"
    )


def test_a_system_that_cannot_be_installed_says_why(
    plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(system: System, say: Any) -> list[str]:
        raise NotInstallable("not installable: needs Python 3.12")

    monkeypatch.setattr(install, "command", command)
    made = plan(noting([], "a"), runs=1)
    made.carry_out()

    assert made.book.kept["a", "bare"]["error"] == "not installable: needs Python 3.12"


def test_a_resumed_run_does_only_what_is_missing(plan: Callable[..., Plan]) -> None:
    turns: list[tuple[str, str]] = []
    made = plan(noting(turns, "a"), runs=2)
    made.book.add("bare", [Figure("a", 1.0)])

    made.carry_out()

    assert turns == [("a", "mainspring"), ("a", "mainspring"), ("a", "bare")]
