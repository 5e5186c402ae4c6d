"""A database clock that jumps, forward and back: nobody is declared dead, and all is done."""

from __future__ import annotations

from datetime import timedelta

from scene import Scene

from mainspring.testing import Clock

HOUR = 3600.0


def test_a_clock_that_jumps_takes_nothing_over_and_loses_nothing(scene: Scene) -> None:
    clock = Clock(scene.url)
    workers = [scene.worker(lease=3.0), scene.worker(lease=3.0)]
    scene.joined(*workers)
    scene.wait(lambda: set(scene.shards().values()) == {512}, "the shards are shared")
    ids = scene.worker_ids()
    scene.enqueue("nap", range(4), seconds=1.5)
    later = scene.app.tasks["quick"].options(delay=timedelta(hours=1))
    scene.handles += later.enqueue_many_sync({"n": n} for n in range(100, 110))
    scene.wait(lambda: len(scene.starts("nap")) == 4, "the naps run")

    def jumped(times: int) -> bool:
        """Whether both workers have seen so many jumps: each at a beat of its own."""
        logs = [log.read_text() for log in scene.folder.glob("worker-*")]
        return [log.count("clock.jumped") >= times for log in logs] == [True, True]

    clock.advance_sync(2 * HOUR)
    scene.enqueue("quick", range(10))
    scene.wait(lambda: len(scene.starts("quick")) == 20, "what is due now has run")
    scene.wait(lambda: jumped(1), "both workers saw the clock jump")
    clock.advance_sync(-4 * HOUR)
    scene.enqueue("quick", range(10, 20))
    scene.wait(lambda: len(scene.starts("quick")) == 30, "what is due in the past has run")
    scene.wait(lambda: jumped(2), "both workers saw it jump back")
    clock.advance_sync(2 * HOUR)
    scene.enqueue("effect", range(10))

    scene.check()
    scene.wait(lambda: jumped(3), "both workers saw it jump again")
    assert ids == scene.worker_ids()
    assert len(scene.starts("nap")) == 4, "no nap ran twice"
