"""first_of: a race of promises."""

from __future__ import annotations

from process_scene import Scene, call, given, outcome, value

from mainspring.processes.decision import Decision


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
