"""What waits outside and is told wrong, too early or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from process_scene import Scene, call, given, value

from mainspring.processes.record.decision import Decision
from mainspring.testing import Clock


def sleeper(scene: Scene, **args: Any) -> None:
    scene.actor(
        lambda h: Decision((call("@sleep", **args), call("last", value(0))), returned=1), "order"
    )
    scene.actor(lambda h: "awake", "last")


@pytest.mark.parametrize(
    "seconds", ["soon", 1e300, -1e300], ids=["text", "too far", "too long ago"]
)
async def test_a_time_that_is_none_parks_the_task_that_would_wait_for_it(
    scene: Scene, seconds: Any
) -> None:
    """P9: a value that came by a promise may be anything; it parks this task and no other."""
    sleeper(scene, seconds=seconds)
    scene.actor(lambda h: 1, "fine")
    process, other = await scene.start("order"), await scene.start("fine")

    await scene.run()

    assert scene.tasks(process)["@sleep"] == ["parked"]
    assert scene.state(other) == "finished"


async def test_a_timer_that_is_looked_at_too_early_comes_again(scene: Scene, clock: Clock) -> None:
    """P15: a worker's clock may run ahead of the server's; the sleeper is not forgotten."""
    sleeper(scene, seconds=3600)
    process = await scene.start("order")
    await scene.run()
    scene.query("update mainspring.visit set due_at = mainspring.now() where key like 'timer/%%'")

    await scene.run()
    await clock.advance(timedelta(hours=1, seconds=1))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "awake")


async def test_a_sleeper_without_its_timer_is_woken_by_a_look(scene: Scene, clock: Clock) -> None:
    """P7: a timer that was lost (a hand-made change) is repaired and reported."""
    sleeper(scene, seconds=600)
    process = await scene.start("order")
    await scene.run()
    scene.query("delete from mainspring.visit where key like 'timer/%%'")

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "awake")
    assert scene.query("select rule from mainspring.repair") == [("I1",)]


async def test_a_child_whose_end_was_not_told_is_found_by_a_look(
    scene: Scene, clock: Clock
) -> None:
    """P7: a parent waits for a child that has ended: repaired and reported."""
    child = call("@process", type="child", args={}, key=None)
    scene.actor(lambda h: Decision((child, call("last", value(0))), returned=1), "order")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()
    scene.actor(lambda h: 7, "child")
    async with scene.worker() as worker:
        await worker.drained()
    # As if a restore had brought back the parent's wait after the child's end.
    assert scene.result(process) == [7]


async def test_a_process_without_its_first_task_gets_it_from_its_start(
    scene: Scene, clock: Clock
) -> None:
    """P7: a process registered without its start task."""
    scene.actor(lambda h: h.args, "order")
    process = await scene.start("order", {"n": 1})
    scene.query("delete from mainspring.task")
    scene.query("delete from mainspring.visit where queue = 'order'")

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", '{"n": 1}')
    [(rule, detail)] = scene.query("select rule, detail from mainspring.repair")
    assert (rule, detail) == ("I12", "a process has no first task")


async def test_an_accepted_result_with_an_open_promise_is_closed(
    scene: Scene, clock: Clock
) -> None:
    """P7: a decision that was accepted but not applied."""
    wait = call("@signal", name="go", timeout=None)
    scene.actor(
        lambda h: Decision((call("first"), wait, call("last", value(0), value(1))), returned=2),
        "order",
    )
    scene.actor(lambda h: 4, "first")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()
    scene.query(
        "update mainspring.task set outcome = null, outcome_no = null where actor = 'first'"
    )
    scene.query("update mainspring.wait set n = 2")

    await clock.advance(timedelta(days=2))
    await scene.run()
    await scene.signal(process, "go", 1)
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", [4, 1])
