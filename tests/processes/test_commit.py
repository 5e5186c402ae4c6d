"""Decisions: chains, fan-in and tail calls, end to end."""

from __future__ import annotations

from process_scene import Scene, call, given, value

from mainspring.processes.decision import Decision


async def test_a_chain_of_two_tasks_runs_and_its_process_finishes(scene: Scene) -> None:
    """P1: a decider adds two tasks, the second with the promise of the first, and returns it."""
    scene.actor(
        lambda h: Decision((call("double", n=4), call("add", value(0))), returned=1), "order"
    )
    scene.actor(lambda h: 8, "double")
    scene.actor(lambda h: given(h)[0] + 1, "add")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 9)
    assert scene.query("select queue, key from mainspring.visit") == []
