"""Every adapter, in small: enqueue, run, and what its abilities promise; where its system is installed.

Ours and the bare loop need nothing installed. A peer runs where a benchmark has installed it before
(`.bench/`), so nothing is fetched by a test. Processes start and end, so all but the last are slow tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import catalog, install
from benchmarks.catalog import BY_NAME, System
from benchmarks.lab import Lab
from benchmarks.probe import STAMP
from benchmarks.stage import Failed, Stage
from benchmarks.targets import BARE
from benchmarks.workloads.priorities import HIGH

JOBS = 40
SECONDS = 60.0


def installed(system: System) -> bool:
    if not system.packages:
        return True
    home = install.HOME / "node" / system.name if system.runtime == "node" else install.venv(system)
    stamp = home / "installed"
    return stamp.exists() and stamp.read_text() == install.fingerprint(system)


def names(*, able: str | None = None) -> list[Any]:
    """Those that can do this."""
    able_ones = [s.name for s in BY_NAME.values() if able is None or able in s.can]
    return [pytest.param(name, marks=pytest.mark.slow) for name in able_ones]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


@pytest.fixture
def system(request: pytest.FixtureRequest) -> System:
    found = BY_NAME[request.param]
    if not installed(found):
        pytest.skip(
            f"{found.name} is not installed; `python -m benchmarks run --systems {found.name}`"
        )
    return found


def ran(stage: Stage, count: int) -> int:
    """How many handlers have run, at the latest when that many have and the store agrees."""
    stage.wait_for(count, seconds=SECONDS)
    assert stage.wait_until_stored() == ""
    return stage.look().count


@pytest.mark.parametrize("system", names(), indirect=True)
def test_jobs_enqueued_one_by_one_and_in_bulk_run_once_each(lab: Lab, system: System) -> None:
    tuned = catalog.tuned(system)
    with lab.stage(system, tuned.settings, jobs=JOBS) as stage:
        producer = stage.client()
        one = producer.ask("singles", seconds=0.01)["count"] + 50
        bulk = producer.ask("bulk", n=JOBS)["count"]

        assert producer.ask("remaining") > 0
        stage.start_workers()

        assert ran(stage, JOBS + one + bulk) == JOBS + one + bulk


@pytest.mark.parametrize("system", names(able=catalog.LATENCY), indirect=True)
def test_paced_jobs_leave_their_stamps(lab: Lab, system: System) -> None:
    tuned = catalog.tuned(system)
    with lab.stage(system, {**tuned.settings, **system.idle}) as stage:
        producer = stage.client()
        stage.start_workers()
        sent = producer.ask("paced", n=5, gap=0.01)
        batches = producer.ask("paced", n=6, gap=0.01, batch=3, first=6)
        stage.wait_for(11, seconds=SECONDS)

        assert sorted(stage.stamps()) == list(range(1, 12))
        assert (len(sent["after"]), len(batches["after"])) == (5, 6)


@pytest.mark.parametrize("system", names(able=catalog.RETRY), indirect=True)
def test_jobs_that_fail_once_run_again(lab: Lab, system: System) -> None:
    settings = {**catalog.tuned(system).settings, "retry": True}
    with lab.stage(system, settings, jobs=JOBS, failing=10) as stage:
        stage.start_workers()

        assert ran(stage, JOBS) == JOBS


@pytest.mark.parametrize("system", names(able=catalog.GROUPS), indirect=True)
def test_jobs_in_groups_run(lab: Lab, system: System) -> None:
    settings = {**catalog.tuned(system).settings, "one_per_group": True}
    with lab.stage(system, settings, jobs=JOBS, groups=5) as stage:
        stage.start_workers()

        assert ran(stage, JOBS) == JOBS


@pytest.mark.parametrize("system", names(able=catalog.PRIORITIES), indirect=True)
def test_an_urgent_job_does_not_wait_for_those_before_it(lab: Lab, system: System) -> None:
    urgent = 10 * JOBS
    few = {**catalog.tuned(system).settings, **system.four_slots}  # so that not all fit at once
    with lab.stage(system, few, jobs=JOBS, act=STAMP) as stage:
        stage.client().ask("paced", n=1, gap=0.0, priority=HIGH, first=urgent)
        stage.start_workers()
        stage.wait_for(JOBS + 1, seconds=SECONDS)

        starts = {number: start for number, (start, _) in stage.stamps().items()}
        sooner = [number for number, start in starts.items() if start < starts[urgent]]
        assert len(sooner) < JOBS / 2, f"{len(sooner)} of {JOBS} ordinary jobs ran before it"


@pytest.mark.parametrize("system", names(able=catalog.WORKFLOWS), indirect=True)
def test_chains_and_a_fan_out_run_all_their_steps(lab: Lab, system: System) -> None:
    settings = {**catalog.tuned(system).settings, "fan": True}
    with lab.stage(system, settings) as stage:
        producer = stage.client()
        stage.start_workers()
        producer.ask("chains", n=3)
        producer.ask("fan", width=5, number=1)
        stage.wait_for(3 * 10 + 5 + 1, seconds=SECONDS)

        assert 1 in stage.stamps()


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_a_note_and_not_a_failure(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = BY_NAME[BARE]
    with lab.stage(bare, catalog.tuned(bare).settings) as stage:
        producer = stage.client()
        monkeypatch.setattr(stage, "client", lambda: producer)

        def ask(do: str, **_: Any) -> int:
            raise Failed("the producer did not answer within 20 s")

        monkeypatch.setattr(producer, "ask", ask)
        assert stage.wait_until_stored() == (
            "whether all is complete in the store could not be told: "
            "the producer did not answer within 20 s"
        )


def test_a_count_is_never_seen_half_written(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """struct cleared a number before it packed it: for a moment the count was none."""
    from benchmarks import probe

    monkeypatch.setenv("BENCH_SLOTS", str(tmp_path))
    made = probe.Probe()
    made.count = 2**40  # all its bytes change, or none
    made.hit()
    seen = probe.numbers_of(next(tmp_path.glob("*.slot")))

    assert seen[probe.COUNT] == probe.Sight(tmp_path).count == 2**40 + 1
    assert probe.Sight(tmp_path).last >= probe.Sight(tmp_path).first
