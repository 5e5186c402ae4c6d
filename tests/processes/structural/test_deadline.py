"""Task timeouts: counted from the first queueing, queue time included."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from process_scene import Scene, call, outcome

from mainspring.processes.record.decision import Decision
from mainspring.testing import Clock


async def test_a_task_whose_timeout_passed_in_the_queue_is_not_started(
    scene: Scene, clock: Clock
) -> None:
    """P4: task_timeout, passed in the queue: not handed out, finished with an error."""
    ran: list[str] = []
    late = msgspec.structs.replace(call("late"), task_timeout=60.0)
    scene.actor(lambda h: Decision((late, call("judge", outcome(0))), returned=1), "order")
    scene.actor(lambda h: h.inputs[0].error.type, "judge")
    process = await scene.start("order")
    await scene.run()

    await clock.advance(timedelta(minutes=2))
    scene.actor(lambda h: ran.append("late"), "late")
    await scene.run()

    assert (scene.state(process), scene.result(process)) == (
        "finished",
        "mainspring.errors.TaskTimeout",
    )
    assert ran == []


async def test_an_actor_that_nobody_serves_leaves_its_task_waiting(scene: Scene) -> None:
    """P7: no actors: the task waits in its queue, and runs when one comes."""
    scene.actor(lambda h: Decision((call("later"),), returned=0), "order")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["later"] == ["open"]

    scene.actor(lambda h: "came", "later")
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "came")
