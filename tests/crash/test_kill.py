"""kill -9 of a worker at every named step: a heir finishes the work, each task is done once."""

from __future__ import annotations

import signal

import pytest
from scene import Scene

from draws import fast_first
from mainspring.testing import STEPS
from warm import WorkerProcess

GIVING = {"shards.giving", "shards.given"}
BURYING = {"dead.declared", "visits.recovered"}
LEAVING = {"pool.leaving"}
SOURCING = {"batch.writing", "batch.fenced", "batch.written", "batch.committed"}  # tests/sources
SERVING = {"pull.held", "answers.committed"}  # tests/server/test_actors_killed.py
RELAYING = {"relay.sending", "relay.sent", "relay.acknowledged"}  # test_sinks.py
OPERATING = {"operation.stepping", "operation.stepped"}  # tests/kernel/test_operation.py
RECUTTING = {"recut.locking", "recut.workers_read", "recut.written"}  # test_mixed_codes.py
OFTEN = {"page.read", "run.started", "run.ended", "settle.sending", "settle.answered"}
OFTEN_HIT = ["settle.answered", "run.started", "hold.written"]
WORKING = (
    set(STEPS) - GIVING - BURYING - LEAVING - OPERATING - RECUTTING - SOURCING - RELAYING - SERVING
)


def some_work(scene: Scene) -> None:
    scene.enqueue("quick", range(20))
    scene.enqueue("effect", range(5))
    scene.enqueue("effect_in_thread", range(5, 8))
    scene.enqueue("held", range(4), seconds=0.15)


def killed(worker: WorkerProcess) -> None:
    """The fault has fired."""
    worker.wait_dead()


@pytest.mark.parametrize("step", fast_first([*OFTEN_HIT, *sorted(WORKING - set(OFTEN_HIT))], 3))
def test_a_worker_killed_while_it_works_loses_nothing(scene: Scene, step: str) -> None:
    some_work(scene)
    victim = scene.worker(die_at=step)
    scene.worker(gate="heir")

    killed(victim)
    scene.open("heir")

    scene.check()


def test_a_worker_killed_amid_bundles_loses_nothing(scene: Scene) -> None:
    """T7: a run is in history once, whether its worker saw the answer or not."""
    bundled = "select coalesce(sum(size), 0) from mainspring.history_bundle"
    for first in range(0, 9000, 300):
        scene.enqueue("silent", range(first, first + 300))
    victim = scene.worker(concurrency=1000)
    scene.worker(gate="heir", concurrency=1000)

    scene.wait(lambda: scene.sql(bundled)[0][0] > 0, "a bundle is written")
    victim.send(signal.SIGKILL)
    killed(victim)
    assert scene.sql("select count(*) > 0 from mainspring.visit") == [(True,)]
    scene.open("heir")

    scene.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", [f"{step}:{n}" for step in sorted(OFTEN) for n in (2, 3, 5)])
def test_a_worker_killed_later_in_its_work_loses_nothing(scene: Scene, step: str) -> None:
    some_work(scene)
    victim = scene.worker(die_at=step, concurrency=4)
    scene.worker(gate="heir")

    killed(victim)
    scene.open("heir")

    scene.check()


@pytest.mark.parametrize("step", fast_first(sorted(GIVING), 1))
def test_a_worker_killed_while_it_gives_shards_away_loses_nothing(scene: Scene, step: str) -> None:
    victim = scene.worker(die_at=step)
    scene.worker(gate="heir")
    scene.enqueue("stuck", range(12))
    scene.enqueue("stubborn", range(3), seconds=60)
    scene.wait(lambda: len(scene.starts()) == 15, "all run, held or not yet")

    scene.open("heir")
    killed(victim)

    scene.check()


@pytest.mark.parametrize("step", fast_first(sorted(BURYING), 1))
def test_a_worker_killed_while_it_buries_another_loses_nothing(scene: Scene, step: str) -> None:
    scene.enqueue("stuck", range(3))
    first = scene.worker()
    victim = scene.worker(die_at=step, gate="victim")
    scene.worker(gate="heir")
    held = "select count(*) from mainspring.visit where pass is not null"
    scene.wait(lambda: scene.sql(held) == [(3,)], "the first worker holds all")
    first.send(signal.SIGKILL)
    some_work(scene)

    scene.open("victim")
    killed(victim)
    scene.open("heir")

    scene.check()


@pytest.mark.parametrize("step", fast_first(sorted(LEAVING), 1))
def test_a_worker_killed_while_it_leaves_loses_nothing(scene: Scene, step: str) -> None:
    scene.enqueue("stuck", range(3))
    victim = scene.worker(die_at=step, grace=0.1)
    scene.worker(gate="heir")
    scene.wait(lambda: len(scene.starts()) == 3, "all run")

    victim.send(signal.SIGTERM)
    killed(victim)
    scene.open("heir")

    scene.check()
