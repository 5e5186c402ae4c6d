"""Parked tasks: tried again, given up, given a value."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from process_scene import Scene, call, given, value

from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.change import Answer, run_alone
from mainspring.processes.structural.parked import ParkedTask, Resolving, unpark_steps
from mainspring.tasks.declare.promise import Failure


async def resolve(scene: Scene, process: str, task: str, **how: Any) -> Answer:
    connection = await scene.database.connect("test")
    try:
        steps = Resolving(process, scene.database.shard_count).resolve(task, **how)
        return await run_alone(connection, process, steps)
    finally:
        await connection.close()


@pytest.fixture(params=[None, "tenant"], ids=["on its process's shard", "on its group's shard"])
async def parked(scene: Scene, request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """A process with a parked task, and the runs of it: it fails once."""
    runs: list[str] = []

    def broken(h: Any) -> str:
        runs.append(h.task_id)
        if len(runs) == 1:
            raise ValueError("no such card")
        return "paid"

    first = replace(call("broken"), group=request.param)
    scene.actor(lambda h: Decision((first, call("last", value(0))), returned=1), "order")
    scene.actor(broken)
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")
    await scene.run()
    return process, runs


async def test_a_parked_task_is_tried_again_with_the_same_key(
    scene: Scene, parked: tuple[str, list[str]]
) -> None:
    """P10: restart keeps the idempotency key: it is the same task."""
    process, _ = parked
    task = scene.ids(process)["broken"]
    item = ParkedTask(process, task, "broken")

    went_on = await scene.run_steps(unpark_steps([item]))
    again = await scene.run_steps(unpark_steps([item]))
    await scene.run()

    assert (went_on, again) == ({task}, set())
    assert (scene.state(process), scene.result(process)) == ("finished", "paid")
    ids = scene.query("select distinct id::text from mainspring.history where queue = 'broken'")
    assert ids == [(task,)]


async def test_a_parked_task_is_given_a_value(scene: Scene, parked: tuple[str, list[str]]) -> None:
    """P9: an operator resolves a task by hand; what depends on it goes on."""
    process, runs = parked

    await resolve(scene, process, scene.ids(process)["broken"], result='"by hand"')
    await scene.run()

    assert (scene.state(process), scene.result(process), len(runs)) == ("finished", "by hand", 1)


async def test_a_parked_task_is_given_up(scene: Scene, parked: tuple[str, list[str]]) -> None:
    """P9: an operator fails a task; the error goes on to the root."""
    process, _ = parked

    await resolve(scene, process, scene.ids(process)["broken"], error=Failure("Given", "up"))
    await scene.run()

    assert (scene.state(process), scene.result(process)["type"]) == ("finished", "Given")


async def test_a_task_that_is_not_parked_is_not_resolved(
    scene: Scene, parked: tuple[str, list[str]]
) -> None:
    """P13: a change checks the state that it changes."""
    process, _ = parked

    answer = await resolve(scene, process, scene.ids(process)["last"], result="1")

    assert (answer.done, "is open: only a parked task can be resolved" in answer.why) == (
        False,
        True,
    )
