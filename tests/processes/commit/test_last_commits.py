"""Whoever commits last must be seen: ends and failures that meet while neither sees the other."""

from __future__ import annotations

from typing import Any

from process_scene import Scene, call, given, handle, outcome, value
from walk import Walk, decided, settle

from mainspring.processes.record.decision import Decision
from mainspring.tasks.declare.promise import Failure


def ids_of(scene: Scene) -> dict[str, str]:
    return dict(scene.query("select actor, id::text from mainspring.task"))


async def test_a_branch_that_was_in_flight_when_the_root_closed_finishes_the_process(
    scene: Scene,
) -> None:
    """Trap: the end that the root asks for comes before the branch commits, which has not seen the
    root close: it must wait for decisions in flight."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    settle(scene, root, Decision((call("last"), call("side")), returned=0))
    ids = ids_of(scene)
    side = Walk(scene, [decided(scene, ids["side"], Decision(result="1"))]).after("lock_tasks")
    settle(scene, ids["last"], Decision(result="2"))

    async with scene.worker() as worker:
        await scene.waits_for_a_lock()
        side.finish()
        await worker.drained()

    assert scene.state(process) == "finished"


async def test_an_error_that_parks_while_its_outcome_is_linked_downstream_is_delivered(
    scene: Scene,
) -> None:
    """P9, trap: the linker locks the promise further down, the failing task its own: neither sees
    the other, and both ask for a look."""
    scene.actor(lambda h: h.inputs[0].outcome, "catch")
    scene.actor(given, "middle")
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    children = (call("broken"), call("middle", value(0)), call("linker", handle(1)))
    settle(scene, root, Decision(children, returned=2))
    ids = ids_of(scene)
    failing = decided(
        scene, ids["broken"], Decision(error=Failure("ValueError", "no", cause=ids["broken"]))
    )
    parks = Walk(scene, [failing]).after("park_tasks")
    link = Decision((call("catch", outcome(ids["middle"])),), returned=0)
    settle(scene, ids["linker"], link)
    await scene.run()  # the look that the linker asked for sees no parked task yet

    parks.finish()
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "err")


async def test_an_error_of_the_code_itself_stays_parked_whoever_would_catch_it(
    scene: Scene, clock: Any
) -> None:
    """P9: arguments that do not decode are the code's fault: a look delivers them as little as the
    first failure did."""
    from datetime import timedelta

    from mainspring.errors import InvalidArguments

    def unreadable(h: Any) -> Any:
        raise InvalidArguments("args of 'unreadable' do not decode")

    scene.actor(unreadable)
    scene.actor(lambda h: h.inputs[0].outcome, "catch")
    scene.actor(
        lambda h: Decision((call("unreadable"), call("catch", outcome(0))), returned=1), "order"
    )
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["unreadable"] == ["parked"]

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert scene.tasks(process)["unreadable"] == ["parked"]
