"""Loops: constant space, whatever the number of steps."""

from __future__ import annotations

import json
from typing import Any

from process_scene import Scene, call

from mainspring.processes.commit.change import PRUNE_EVERY
from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.cone import TaskEdge, TaskGraph, TaskNode
from mainspring.processes.structural.prune import prunable

STEPS = PRUNE_EVERY + 40


async def test_a_long_loop_keeps_its_newest_steps_only(scene: Scene) -> None:
    """P15: an unbounded loop at constant cost."""

    def loop(h: Any) -> Decision:
        n = json.loads(h.args)["n"]
        if n == STEPS:
            return Decision(result=str(n))
        return Decision((call("loop", n=n + 1),), returned=0)

    scene.actor(loop)
    process = await scene.start("loop", {"n": 0})

    async with scene.worker() as worker:
        assert scene.layer is not None
        scene.layer.engine.keep = 50
        await worker.drained()

    assert (scene.state(process), scene.result(process)) == ("finished", STEPS)
    [(kept,)] = scene.query("select count(*) from mainspring.task")
    assert kept <= 50 + 1 + 60
    [(horizon,)] = scene.query("select horizon from mainspring.process")
    assert horizon > 0


def node(id: str, no: int | None, state: str = "done", promise: str | None = None) -> TaskNode:
    outcome = "ok" if no else None
    return TaskNode(id, None, promise or id, "actor", state, outcome, done_no=no)


def test_a_task_with_an_edge_from_one_that_stays_is_kept() -> None:
    """Trap: the input of a finished task that is kept, or a handle of a live one, must stay."""
    tasks = [node("root", None, "open"), node("a", 1), node("b", 2), node("c", 3), node("d", 4)]
    edges = [TaskEdge("a", "d", "value"), TaskEdge("b", "root", "handle")]

    leaving, horizon = prunable(TaskGraph(tasks, edges), "root", {}, keep=1)

    assert (leaving, horizon) == (["c"], 3)


def test_inputs_go_with_the_task_that_has_them() -> None:
    """Newest first: when a task goes, its edges go, and then what it alone needed."""
    tasks = [node("root", None, "open"), node("a", 1), node("b", 2), node("c", 3)]
    edges = [TaskEdge("a", "b", "value")]

    leaving, horizon = prunable(TaskGraph(tasks, edges), "root", {}, keep=1)

    assert (leaving, horizon) == (["a", "b"], 2)
