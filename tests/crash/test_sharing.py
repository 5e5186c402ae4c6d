"""Workers come and go in order: shards are shared, no work is left waiting, stops are graceful."""

from __future__ import annotations

import signal
import time

import pytest
from scene import Scene, stop

from mainspring.ids import shard_of


def test_shards_are_shared_by_who_comes_and_taken_over_from_who_goes(scene: Scene) -> None:
    first, second = scene.worker(lease=4.0), scene.worker(lease=4.0)
    third = scene.worker(lease=4.0, gate="third")
    scene.joined(first, second)
    scene.wait(lambda: sorted(scene.shards().values()) == [512, 512], "two share")

    scene.open("third")
    scene.wait(lambda: sorted(scene.shards().values()) == [341, 341, 342], "three share")

    stop(second)
    left = time.monotonic()
    scene.wait(lambda: sum(scene.shards().values()) == 1024, "all shards have an owner", 3.0)
    assert time.monotonic() - left < 3.0, "at once, not after a lease time"
    assert scene.shards().keys() == {first.process.pid, third.process.pid}
    scene.enqueue("quick", range(50))
    scene.check()


def test_tasks_that_all_belong_to_one_worker_fill_the_slots_of_two(scene: Scene) -> None:
    """Eight tasks of a second, two workers with four slots: one round, whatever their shards."""
    workers = [scene.worker(concurrency=4), scene.worker(concurrency=4)]
    scene.joined(*workers)
    scene.wait(lambda: sorted(scene.shards().values()) == [512, 512], "two share")
    owner = "(select worker_id from mainspring.lease where shard = 0)"
    mine = {
        row[0] for row in scene.sql(f"select shard from mainspring.lease where worker_id = {owner}")
    }
    keys = [key for key in map(str, range(100)) if shard_of(key, 1024) in mine][:8]
    nap = scene.app.tasks["nap"]

    for n, key in enumerate(keys):
        scene.handles.append(nap.options(key=key).enqueue_sync(n=n, seconds=1.0))

    scene.check()
    starts = scene.starts("nap")
    assert len(starts) == 8
    assert max(s.at for s in starts) - min(s.at for s in starts) < 1.0
    assert {4} == {sum(s.pid == w.process.pid for s in starts) for w in workers}


def test_a_signal_lets_running_work_end(scene: Scene) -> None:
    worker, heir = scene.worker(lease=4.0), scene.worker(lease=4.0, gate="heir")
    scene.joined(worker)
    scene.enqueue("nap", range(5), seconds=1.0)
    scene.wait(lambda: len(scene.starts()) == 5, "all run")

    worker.send(signal.SIGTERM)
    scene.open("heir")
    scene.joined(heir)
    scene.enqueue("quick", range(5))

    assert worker.wait(60) == 0
    scene.check()
    assert len(scene.starts("nap")) == 5, "each ran once"
    assert {heir.process.pid} == {start.pid for start in scene.starts("quick")}
    assert len(scene.worker_ids()) == 1


def test_what_does_not_end_in_the_grace_goes_back_at_once(scene: Scene) -> None:
    lease = 8.0
    worker = scene.worker(lease=lease, grace=0.3)
    scene.joined(worker)
    scene.enqueue("stuck", range(3))
    scene.enqueue("nap", range(1), seconds=0.2)
    scene.wait(lambda: len(scene.starts()) == 4, "all run")
    heir = scene.worker(lease=lease)
    scene.joined(heir)

    worker.send(signal.SIGTERM)
    assert worker.wait(60) == 0
    left = time.monotonic()

    scene.check()
    again = [start for start in scene.starts("stuck") if start.pid == heir.process.pid]
    assert len(again) == 3
    assert max(start.at for start in again) - left < lease / 2, "at once, not after a lease time"
    assert scene.sql("select count(*) from mainspring.history where attempt > 1") == [(0,)]


def test_a_second_signal_ends_the_worker_at_once(scene: Scene) -> None:
    worker, _ = scene.worker(grace=60.0), scene.worker(gate="heir")
    scene.joined(worker)
    scene.enqueue("stuck", range(3))
    scene.enqueue("quick", range(10))
    scene.wait(lambda: len(scene.starts("stuck")) == 3, "all run")

    worker.send(signal.SIGTERM)
    free = "select count(*) from mainspring.lease where worker_id is not null"
    scene.wait(lambda: scene.sql(free) == [(0,)], "it stops")
    assert worker.process.poll() is None, "it waits for the running ones"
    asked = time.monotonic()

    def ended() -> bool:
        """One that follows at once is taken for an echo of the first."""
        worker.send(signal.SIGTERM)
        return worker.process.poll() is not None

    scene.wait(ended, "it ends at once")
    assert worker.wait(60) == 130
    assert time.monotonic() - asked < 3
    scene.open("heir")
    scene.check()


@pytest.mark.slow
def test_many_workers_that_come_and_go_lose_nothing(scene: Scene) -> None:
    workers = [scene.worker(concurrency=4) for _ in range(2)]
    scene.joined(*workers)
    for turn in range(12):
        scene.enqueue("quick", range(100 * turn, 100 * turn + 40))
        scene.enqueue("effect", range(100 * turn + 40, 100 * turn + 60))
        scene.enqueue("nap", range(100 * turn + 60, 100 * turn + 64), seconds=0.3)
        workers.append(scene.worker(concurrency=4))
        scene.joined(workers[-1])
        leaver = workers.pop(0)
        if turn % 2:
            stop(leaver)
        else:
            leaver.send(signal.SIGKILL)

    scene.check(timeout=60)
