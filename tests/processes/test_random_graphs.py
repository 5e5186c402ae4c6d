"""Random graphs against the pure model, with every invariant looked at after every step.

In the long forms, whose many processes are all looked at each time, after every twentieth.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from process_scene import Scene
from random_graph import decide, expected

from mainspring import crash_points
from mainspring.processes.structural.change import run_alone
from mainspring.processes.structural.parked import Resolving
from mainspring.processes.structural.request import (
    ProcessRestart,
    request_cancel,
    request_restart,
)
from mainspring.tasks.declare.promise import Failure

WORK_TIMEOUT = 0.15


def with_seed(scene: Scene, *, wild: bool = False) -> None:
    """Actors whose seed travels with the process: its start arguments name it.

    Wild ones sometimes answer long after their work timeout has passed, when a repeat may
    have answered too: the first result counts, each of both is the same.
    """
    seeds: dict[str, int] = {}

    async def act(h: Any) -> Any:
        args = json.loads(h.args)
        if "seed" in args:
            seeds[h.process_id] = args["seed"]
        if wild and (draw := random.random()) < 0.12:
            await asyncio.sleep(WORK_TIMEOUT * (10 if draw < 0.04 else 20 * draw))
        return decide(seeds[h.process_id], args, list(h.inputs))

    for name in ("decider", "worker"):
        scene.actor(act, name)
        if wild:
            scene.settings[name] |= {"work_timeout": WORK_TIMEOUT, "hold_after": 0.0}


@contextmanager
def watched(scene: Scene, every: int) -> Iterator[list[Any]]:
    """What breaks an invariant, looked at after commits of decisions and of structural changes."""
    broken: list[Any] = []
    looks = 0
    with psycopg.connect(scene.url, autocommit=True) as connection:

        def look(step: str) -> None:
            nonlocal looks
            if step not in ("settle.answered", "run.ended"):
                return
            looks += 1
            if looks % every == 0 and not broken:
                query = "select * from mainspring.process_violation"
                broken.extend(connection.execute(query).fetchall())

        before, crash_points.listener = crash_points.listener, look
        try:
            yield broken
        finally:
            crash_points.listener = before
    assert looks >= every, "nobody looked"


async def give_up_parked(scene: Scene) -> bool:
    """Fail every parked task, as an operator does; answers whether there was one."""
    rows = scene.query("select process_id::text, task::text, error from mainspring.parked_task")
    connection = await scene.database.connect("test")
    try:
        for process, task, error in rows:
            assert error == "planned"
            resolving = Resolving(process, scene.database.shard_count).resolve(
                task, error=Failure("ValueError", error, cause=task)
            )
            await run_alone(connection, process, resolving)
    finally:
        await connection.close()
    return bool(rows)


async def random_processes(
    scene: Scene,
    seeds: range,
    *,
    restarts: int,
    cancels: int = 0,
    wild: bool = False,
    every: int = 1,
) -> None:
    with_seed(scene, wild=wild)
    rng = random.Random(seeds.start)
    started = {}
    for seed in seeds:
        started[seed] = await scene.start("decider", {"seed": seed, "path": "", "depth": 4})
    with watched(scene, every) as broken:
        async with scene.worker() as worker, asyncio.timeout(100):
            for _ in range(restarts):
                rows = scene.query(
                    "select process_id::text, id::text from mainspring.task"
                    " where state not in ('superseded', 'cancelled') order by random() limit 3"
                )
                visits = [
                    request_restart(process, ProcessRestart(task, force=rng.random() < 0.5))
                    for process, task in rows
                ]
                await scene.request(*visits)
                await worker.drained()
            for process in rng.sample(list(started.values()), cancels):
                await scene.request(request_cancel(process))
            await worker.drained()
            # What was cancelled comes to the same when it is done from scratch.
            rows = scene.query("select id::text from mainspring.process where state = 'cancelled'")
            await scene.request(
                *[request_restart(process, ProcessRestart()) for (process,) in rows]
            )
            await worker.drained()
            while await give_up_parked(scene):
                await worker.drained()
    assert broken == []
    for seed, process in started.items():
        outcome, value = expected(seed)
        assert scene.state(process) == "finished", seed
        result = scene.result(process)
        assert (result == value) if outcome == "ok" else (result["message"] == "planned"), seed


@pytest.mark.parametrize("first", [0, 1000])
async def test_random_graphs_come_to_what_the_model_says(scene: Scene, first: int) -> None:
    """P1: handles, tail calls, outcomes, errors: the value of a process is that of its graph."""
    await random_processes(scene, range(first, first + 25), restarts=0)


async def test_random_graphs_come_to_the_same_with_actors_that_lose_tasks_and_answer_twice(
    scene: Scene,
) -> None:
    """P3, P4, P7: late and repeated results of overtaken runs, cancels and restarts from scratch."""
    await random_processes(scene, range(3000, 3008), restarts=1, cancels=3, wild=True)


async def test_random_graphs_come_to_the_same_after_restarts(scene: Scene) -> None:
    """P12: whatever is redone, and whenever, each process comes to the same value."""
    await random_processes(scene, range(2000, 2020), restarts=6)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, 500))
async def test_many_random_graphs_with_restarts(scene: Scene, first: int) -> None:
    """P1, P12: the long form."""
    await random_processes(scene, range(first, first + 200), restarts=20, cancels=50, every=20)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(20_000, 22_000, 500))
async def test_many_random_graphs_with_wild_actors(scene: Scene, first: int) -> None:
    """P3, P4, P7: the long form."""
    await random_processes(
        scene, range(first, first + 60), restarts=5, cancels=20, wild=True, every=20
    )
