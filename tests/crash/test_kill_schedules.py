"""kill -9 of workers that make the ticks of a schedule: no tick twice, and with "all" none left out."""

from __future__ import annotations

import random
import signal
from datetime import datetime, timedelta

import pytest
from scene import Scene

from warm import WorkerProcess

TICKS = (
    "select key, count(*) from mainspring.history where queue = 'silent' and outcome = 'done'"
    " group by key order by key"
)


async def scheduled(scene: Scene) -> None:
    async with scene.app as app:
        call = app.tasks["silent"].bind(n=1)
        await app.schedules.add("beat", call, cron="* * * * * *", catch_up="all")


def ticks(scene: Scene) -> list[datetime]:
    found = scene.sql(TICKS)
    assert [key for key, count in found if count > 1] == []
    return [datetime.fromisoformat(key.removeprefix("beat@")) for key, _ in found]


def check(scene: Scene, seen: int) -> None:
    """Every second from the first tick on, each once."""
    scene.wait(lambda: len(ticks(scene)) >= seen, f"{seen} ticks")
    found = ticks(scene)
    assert [found[0] + n * timedelta(seconds=1) for n in range(len(found))] == found


@pytest.mark.parametrize("step", ["run.ended:2", "settle.sending:3", "settle.answered:2"])
async def test_a_worker_killed_between_tick_and_enqueue_makes_each_tick_once(
    scene: Scene, step: str
) -> None:
    """T13: never twice for one tick: the tick and its call are one commit."""
    scene.app.migrate_sync()
    await scheduled(scene)
    victim = scene.worker(die_at=step)
    scene.worker(gate="heir")
    victim.wait_dead()
    scene.open("heir")

    check(scene, 5)


@pytest.mark.slow
async def test_two_workers_killed_at_random_make_each_tick_once(scene: Scene) -> None:
    """T13: half a minute of it."""
    scene.app.migrate_sync()
    await scheduled(scene)
    workers: list[WorkerProcess] = [scene.worker(), scene.worker()]
    chance = random.Random(7)
    for seen in range(3, 31, 3):
        scene.wait(lambda seen=seen: len(ticks(scene)) >= seen, f"{seen} ticks")
        victim = workers.pop(chance.randrange(2))
        victim.send(signal.SIGKILL)
        victim.wait_dead()
        workers.append(scene.worker())

    check(scene, 33)
