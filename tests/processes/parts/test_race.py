"""first_of: a race of promises."""

from __future__ import annotations

from typing import Any

from process_scene import Scene, call, given, handle, outcome, value

from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.request import request_cancel


async def test_the_first_outcome_wins_and_the_others_are_called_off(scene: Scene) -> None:
    """P15: who lost is cancelled if nothing else is interested in it."""
    children = (
        call("@signal", name="go", timeout=None),
        call("quick"),
        call("@sleep", seconds=3600),
        call("@first_of", outcome(0), outcome(1), outcome(2)),
        call("last", value(3)),
    )
    scene.actor(lambda h: Decision(children, returned=4), "order")
    scene.actor(lambda h: "quick", "quick")
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == (
        "finished",
        {"index": 1, "value": "quick"},
    )
    assert scene.tasks(process)["@signal"] == ["cancelled"]
    assert scene.tasks(process)["@sleep"] == ["cancelled"]


async def test_a_loser_that_others_want_goes_on(scene: Scene) -> None:
    """P15: a promise that another task waits for is not called off."""
    children = (
        call("@signal", name="go", timeout=None),
        call("quick"),
        call("@first_of", outcome(0), outcome(1)),
        call("last", value(2), value(0)),
    )
    scene.actor(lambda h: Decision(children, returned=3), "order")
    scene.actor(lambda h: "quick", "quick")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()
    assert scene.state(process) == "open"

    await scene.signal(process, "go", 7)
    await scene.run()

    assert scene.result(process) == [{"index": 1, "value": "quick"}, 7]


async def test_a_loser_that_only_tasks_that_have_ended_had_a_handle_on_is_called_off(
    scene: Scene,
) -> None:
    """P15: the decider that made the race has ended: its handle is no interest."""
    children = (
        call("@signal", name="go", timeout=None),
        call("racer", handle(0)),
        call("last", value(1)),
    )
    scene.actor(lambda h: Decision(children, returned=2), "order")

    def racer(h: Any) -> Decision:
        slow = h.inputs[0].promise
        return Decision((call("quick"), call("@first_of", outcome(slow), outcome(0))), returned=1)

    scene.actor(racer)
    scene.actor(lambda h: "quick", "quick")
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")
    await scene.run()

    assert (scene.state(process), scene.tasks(process)["@signal"]) == ("finished", ["cancelled"])


async def test_orders_for_a_process_that_is_gone_come_to_nothing(scene: Scene) -> None:
    """P13: a visit that outlived its process ends."""
    await scene.request(request_cancel("019e2c19-9667-77f4-88b9-3bf96353a763"))

    await scene.run()

    assert scene.query("select key from mainspring.visit") == []
