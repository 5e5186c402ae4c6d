"""Handlers that do harm: one that kills its worker, one that blocks the event loop."""

from __future__ import annotations

import time

import pytest
from scene import Scene


def test_a_poison_task_is_parked_and_its_neighbours_run(scene: Scene) -> None:
    """Its worker dies within milliseconds, before anything could mark the task as running."""
    scene.enqueue("poison", range(1))
    scene.enqueue("nap", range(30), seconds=0.05)
    scene.enqueue("held", range(5), seconds=0.1)
    deaths = 0
    worker, spare = scene.worker(concurrency=8), scene.worker(concurrency=8, gate="1")

    def supervised() -> bool:
        """A dead worker is replaced, as an init system would."""
        nonlocal worker, spare, deaths
        if worker.process.poll() is not None:
            worker.wait_dead()
            deaths += 1
            scene.open(str(deaths))
            worker, spare = spare, scene.worker(concurrency=8, gate=str(deaths + 1))
        return scene.sql("select count(*) from mainspring.visit where parked_at is null") == [(0,)]

    scene.wait(supervised, "all have ended", 40)

    scene.check(parked=1)
    assert 2 <= deaths <= 4
    assert deaths == len(scene.starts("poison"))
    [(queue, crashes, error)] = scene.sql("select queue, crashes, error from mainspring.visit")
    assert (queue, crashes) == ("poison", 2)
    assert "the worker that ran it died" in error


@pytest.mark.parametrize("lease", [1.5, pytest.param(20.0, marks=pytest.mark.slow)])
def test_a_handler_that_blocks_the_loop_loses_no_lease(scene: Scene, lease: float) -> None:
    """For three lease times: the heart beats in a thread of its own."""
    seconds = 3 * lease
    workers = [scene.worker(fence="exit", lease=lease), scene.worker(fence="exit", lease=lease)]
    scene.joined(*workers)
    scene.wait(lambda: set(scene.shards().values()) == {512}, "the shards are shared")
    ids, shards = scene.worker_ids(), scene.shards()

    scene.enqueue("block", range(1), seconds=seconds)
    scene.wait(lambda: scene.starts("block"), "it blocks")
    state = "select state::text from mainspring.visit_status where queue = 'block'"
    scene.wait(lambda: scene.sql(state) == [("running",)], "the block is seen", 4)
    began = time.monotonic()
    scene.check(timeout=seconds + 10)

    assert time.monotonic() - began > seconds - 4, "it was blocked all the time"
    assert (ids, shards) == (scene.worker_ids(), scene.shards())
    assert len(scene.starts("block")) == 1
