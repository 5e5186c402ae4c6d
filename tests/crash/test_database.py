"""The database goes away, for seconds, for a moment or by the connection: nothing is lost."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import crash_app
import pytest
from scene import Scene, cpu_seconds

from mainspring.embedded.server import EmbeddedServer
from mainspring.errors import ResultTimeout

slow = pytest.mark.slow
_TERMINATE = "select pg_terminate_backend(pid) from unnest(%s::int[]) pid"


@pytest.mark.parametrize("seconds", [1.5, pytest.param(30.0, marks=slow)])
def test_an_outage_longer_than_the_lease_loses_nothing(
    own_scene: Scene, own_server: EmbeddedServer, seconds: float
) -> None:
    """Runs are stopped when their lease ends, and run again when the database is back."""
    scene = own_scene
    workers = [scene.worker(), scene.worker()]
    scene.joined(*workers)
    scene.enqueue("stuck", range(5))
    scene.enqueue("effect", range(20))
    scene.enqueue("stubborn", range(20, 22), seconds=60)
    scene.wait(lambda: len(scene.starts()) == 27, "all run")

    own_server.stop(fast_seconds=5)
    down = time.monotonic()
    used = [cpu_seconds(worker.process.pid) for worker in workers]
    scene.wait(lambda: time.monotonic() > down + seconds, "the outage is over", 60)
    used = [cpu_seconds(w.process.pid) - was for w, was in zip(workers, used, strict=True)]
    away = time.monotonic() - down
    assert not own_server.running
    own_server.start()

    scene.enqueue("quick", range(20))
    scene.check()
    assert [worker.process.poll() for worker in workers] == [None, None]
    if seconds >= 30:
        print(f"busy while away: {max(used) / away:.1%} of a core")
        assert max(used) / away < 0.05, "a worker without its database rests"


@pytest.mark.parametrize("seconds", [1.0, pytest.param(30.0, marks=slow)])
def test_results_that_wait_for_the_database_are_kept_and_settled_after(
    own_scene: Scene, own_server: EmbeddedServer, seconds: float
) -> None:
    """The first comes alone: a batch of one could be taken for a result that the server refuses."""
    scene = own_scene
    worker = scene.worker(lease=max(10.0, 3 * seconds))
    scene.joined(worker)
    scene.enqueue("stubborn", range(1), seconds=0.5)
    scene.enqueue("stubborn", range(1, 7), seconds=1.0)
    scene.wait(lambda: len(scene.starts()) == 7, "all run")

    own_server.stop(fast_seconds=5)
    down = time.monotonic()
    ended = [scene.folder / f"late-{n}" for n in range(7)]
    scene.wait(lambda: all(path.exists() for path in ended), "all have ended")
    scene.wait(lambda: time.monotonic() > down + seconds, "the outage is over", 60)
    own_server.start()

    scene.check()
    assert len(scene.starts()) == 7, "no task ran twice"
    stories = "select attempt, outcome::text, result #>> '{}' from mainspring.history"
    assert set(scene.sql(stories)) == {(1, "done", "late")}


def test_callers_wait_for_their_results_through_an_outage(
    own_scene: Scene, own_server: EmbeddedServer
) -> None:
    scene = own_scene
    worker = scene.worker(lease=10.0)
    scene.joined(worker)
    scene.enqueue("stubborn", range(1), seconds=1.0)
    [first] = scene.handles

    async def ask() -> str:
        async with crash_app.make(scene.url) as app:
            second = await app.tasks["stubborn"].enqueue(n=1, seconds=1.0)
            scene.handles.append(second)
            return await second.result(60)

    with ThreadPoolExecutor(2) as callers:
        plain = callers.submit(first.result_sync, 60)
        awaited = callers.submit(asyncio.run, ask())
        scene.wait(lambda: len(scene.starts()) == 2, "both run")
        own_server.stop(fast_seconds=5)
        with pytest.raises(
            ResultTimeout, match=r"no answer from the database at the end of 0\.1 s"
        ):
            first.result_sync(timeout=0.1)
        own_server.start()

        assert (plain.result(), awaited.result()) == ("late", "late")

    scene.check()


def test_a_server_that_crashes_loses_nothing(own_scene: Scene, own_server: EmbeddedServer) -> None:
    scene = own_scene
    worker = scene.worker()
    scene.joined(worker)
    scene.enqueue("effect", range(100))
    scene.enqueue("nap", range(3), seconds=0.5)
    scene.wait(lambda: len(scene.starts()) >= 50, "half of it runs")

    own_server.kill()
    assert not own_server.running
    own_server.start()

    scene.check()


@pytest.mark.parametrize("seconds", [3.0, pytest.param(30.0, marks=slow)])
def test_backends_killed_ten_times_a_second_only_delay_the_work(
    scene: Scene, seconds: float
) -> None:
    workers = [scene.worker(), scene.worker()]
    scene.joined(*workers)
    killed = rounds = 0
    began = time.monotonic()

    while time.monotonic() < began + seconds:
        rounds += 1
        scene.enqueue("quick", range(1000 * rounds, 1000 * rounds + 5))
        scene.enqueue("effect", range(1000 * rounds + 5, 1000 * rounds + 8))
        scene.wait(lambda: time.monotonic() > began + rounds / 10, "a tenth of a second", 5)  # noqa: B023
        mine = set(scene.backends("client"))
        pids = [pid for pid in scene.backends() if pid not in mine]
        killed += len(
            scene.sql("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", pids)
        )

    assert killed >= 2 * rounds
    scene.check(timeout=30)
    assert [worker.process.poll() for worker in workers] == [None, None]


def test_a_killed_listener_is_replaced_and_wakes_again(scene: Scene) -> None:
    """Without polls (every 30 s) only a notification can start a task soon."""
    worker = scene.worker(poll=30.0, lease=10.0)
    scene.joined(worker)
    quiet(scene)
    [before] = scene.backends("listener")

    scene.sql("select pg_terminate_backend(%s)", before)
    scene.wait(lambda: scene.backends("listener") not in ([], [before]), "it listens again")
    quiet(scene)
    began = time.monotonic()
    scene.enqueue("quick", range(1))
    scene.check(timeout=5)

    assert scene.starts()[0].at - began < 2


def quiet(scene: Scene) -> None:
    """Wait until the reader sleeps and has ended the quick looks that follow on falling asleep."""
    query = """
    select (select bool_and(asleep) from mainspring.worker)
      and extract(epoch from clock_timestamp() - max(state_change)) > 0.4
    from pg_stat_activity
    where datname = current_database() and application_name like 'mainspring:reader:%%'
    """
    scene.wait(lambda: scene.sql(query) == [(True,)], "the reader sleeps")
