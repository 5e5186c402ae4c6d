"""Random graphs against the pure model, with every invariant looked at all the while."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import asyncpg
import pytest
from process_scene import Scene
from random_graph import decide, expected

from mainspring.processes.parked import Resolving
from mainspring.processes.structural import Order, request_restart, run_alone
from mainspring.tasks.promise import Failure


def with_seed(scene: Scene) -> None:
    """Actors whose seed travels with the process: its start arguments name it."""
    seeds: dict[str, int] = {}

    def act(h: Any) -> Any:
        args = json.loads(h.args)
        if "seed" in args:
            seeds[h.process_id] = args["seed"]
        return decide(seeds[h.process_id], args, list(h.inputs))

    for name in ("decider", "worker"):
        scene.actor(act, name)


async def watch(scene: Scene, broken: list[Any]) -> None:
    """Every commit keeps the invariants, so whatever is seen at any moment does."""
    connection = await asyncpg.connect(scene.url)
    try:
        while True:
            broken += await connection.fetch("select * from mainspring.process_violation")
            await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def give_up_parked(scene: Scene) -> bool:
    """Fail every parked task, as an operator does; answers whether there was one."""
    rows = scene.query("select process_id::text, task::text, error from mainspring.parked_task")
    connection = await asyncpg.connect(scene.url)
    try:
        for process, task, error in rows:
            assert error == "planned"
            steps = Resolving(process, scene.database.shard_count).resolve(
                task, error=Failure("ValueError", error, cause=task)
            )
            await run_alone(connection, process, steps)
    finally:
        await connection.close()
    return bool(rows)


async def random_processes(scene: Scene, seeds: range, *, restarts: int) -> None:
    with_seed(scene)
    rng = random.Random(seeds.start)
    started = {}
    for seed in seeds:
        started[seed] = await scene.start("decider", {"seed": seed, "path": "", "depth": 4})
    broken: list[Any] = []
    watching = asyncio.create_task(watch(scene, broken))
    try:
        async with scene.worker() as worker, asyncio.timeout(100):
            for _ in range(restarts):
                rows = scene.query(
                    "select process_id::text, id::text from mainspring.task"
                    " where state not in ('superseded', 'cancelled') order by random() limit 3"
                )
                visits = [
                    request_restart(process, Order(task, force=rng.random() < 0.5))
                    for process, task in rows
                ]
                await scene.request(*visits)
                await worker.drained()
            await worker.drained()
            while await give_up_parked(scene):
                await worker.drained()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
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


async def test_random_graphs_come_to_the_same_after_restarts(scene: Scene) -> None:
    """P12: whatever is redone, and whenever, each process comes to the same value."""
    await random_processes(scene, range(2000, 2020), restarts=6)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, 500))
async def test_many_random_graphs_with_restarts(scene: Scene, first: int) -> None:
    """P1, P12: the long form."""
    await random_processes(scene, range(first, first + 200), restarts=20)
