"""Cancel and restart: changes of a process as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from process_scene import Scene, call, given, handle, outcome, value

from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.request import ProcessRestart, request_cancel, request_restart


async def refusal(scene: Scene, process: str, order: ProcessRestart) -> str:
    """Ask for a restart that is refused; answers why."""
    await scene.request(request_restart(process, order))
    await scene.run()
    rows = scene.query(
        "select result ->> 'why' from mainspring.history where key like 'restart/%%' order by ended_at"
    )
    return str(rows[-1][0])


async def test_a_cancelled_process_has_nothing_live_and_its_promises_are_errors(
    scene: Scene,
) -> None:
    """P15: cancel ends what waits, what is queued and what waits outside, and its child processes."""
    wait = call("@signal", name="go", timeout=3600)
    child = call("@process", type="child", args={}, key=None)
    scene.actor(
        lambda h: Decision((wait, child, call("last", value(0), value(1))), returned=2), "order"
    )
    scene.actor(lambda h: Decision((wait,), returned=0), "child")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()

    await scene.request(request_cancel(process))
    await scene.run()

    assert scene.state(process) == "cancelled"
    assert scene.result(process)["type"] == "mainspring.errors.ProcessCancelled"
    assert scene.tasks(process) == {
        "order": ["done"],
        "@signal": ["cancelled"],
        "@process": ["cancelled"],
        "last": ["cancelled"],
    }
    states = scene.query("select state::text from mainspring.process")
    assert states == [("cancelled",), ("cancelled",)]
    assert scene.query("select queue, key from mainspring.visit where key like 'timer%%'") == []


async def test_a_cancel_of_a_process_that_has_ended_changes_nothing(scene: Scene) -> None:
    """P13: a change checks the state that it changes."""
    scene.actor(lambda h: 1, "order")
    process = await scene.start("order")
    await scene.run()

    await scene.request(request_cancel(process))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 1)


class Counting:
    """Actors that count their runs, and answer how often they ran."""

    def __init__(self, scene: Scene) -> None:
        self.runs: dict[str, int] = {}
        for name in ("left", "right", "join", "tail", "inner"):
            scene.actor(self._counted(name), name)

    def _counted(self, name: str) -> Any:
        def run(h: Any) -> Any:
            self.runs[name] = self.runs.get(name, 0) + 1
            return [name, self.runs[name], *given(h)]

        return run


@pytest.fixture
async def two_branches(scene: Scene) -> tuple[str, Counting]:
    """left and right -> join, all done."""
    counting = Counting(scene)
    scene.actor(
        lambda h: Decision(
            (call("left"), call("right"), call("join", value(0), value(1))), returned=2
        ),
        "order",
    )
    process = await scene.start("order")
    await scene.run()
    assert scene.result(process) == ["join", 1, ["left", 1], ["right", 1]]
    return process, counting


async def test_a_restart_from_a_task_redoes_only_what_depends_on_it(
    scene: Scene, two_branches: tuple[str, Counting]
) -> None:
    """P12: the causal restart: the other branch keeps its result."""
    process, _ = two_branches

    await scene.request(request_restart(process, ProcessRestart(scene.ids(process)["left"])))
    await scene.run()

    assert scene.result(process) == ["join", 2, ["left", 2], ["right", 1]]
    assert scene.state(process) == "finished"
    rows = scene.query("select actor, generation from mainspring.task order by actor")
    assert dict(rows) == {"join": 1, "left": 1, "order": 0, "right": 0}


async def test_a_restart_from_scratch_supersedes_all_that_was_made(
    scene: Scene, two_branches: tuple[str, Counting]
) -> None:
    """P12: the root is redone; what it made before never was."""
    process, _ = two_branches

    await scene.request(request_restart(process, ProcessRestart()))
    await scene.run()

    assert scene.result(process) == ["join", 2, ["left", 2], ["right", 2]]
    assert sorted(scene.tasks(process)["left"]) == ["done", "superseded"]
    assert scene.query("select generation from mainspring.process") == [(1,)]


async def test_a_restart_gives_a_new_idempotency_key(
    scene: Scene, two_branches: tuple[str, Counting]
) -> None:
    """P12: task id and generation."""
    process, _ = two_branches
    left = scene.ids(process)["left"]

    await scene.request(request_restart(process, ProcessRestart(left)))
    await scene.run()

    ids = scene.query("select distinct id::text from mainspring.history where key = %s", left)
    assert len(ids) == 2


async def test_a_restart_reopens_a_promise_that_a_tail_call_fulfilled(scene: Scene) -> None:
    """Trap: the cone and the reopening go by the promise that a task fulfils, not by its id."""
    counting = Counting(scene)
    scene.actor(lambda h: Decision((call("middle"), call("join", value(0))), returned=1), "order")
    scene.actor(lambda h: Decision((call("tail"),), returned=0), "middle")
    process = await scene.start("order")
    await scene.run()
    assert scene.result(process) == ["join", 1, ["tail", 1]]

    await scene.request(request_restart(process, ProcessRestart(scene.ids(process)["tail"])))
    await scene.run()

    assert scene.result(process) == ["join", 2, ["tail", 2]]
    assert counting.runs == {"tail": 2, "join": 2}


async def test_a_restart_gives_signals_back_or_asks_for_new_ones(scene: Scene) -> None:
    """P12: signals taken by what is redone go back to their buffer, unless told otherwise."""
    scene.actor(
        lambda h: Decision((call("@signal", name="go"), call("last", value(0))), returned=1),
        "order",
    )
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")
    await scene.signal(process, "go", 1)
    await scene.run()

    await scene.request(request_restart(process, ProcessRestart()))
    await scene.run()
    assert (scene.state(process), scene.result(process)) == ("finished", 1)

    await scene.request(request_restart(process, ProcessRestart(fresh_signals=True)))
    await scene.run()
    assert scene.state(process) == "open"
    await scene.signal(process, "go", 2)
    await scene.run()
    assert (scene.state(process), scene.result(process)) == ("finished", 2)


async def test_a_restart_cancels_child_processes_and_starts_them_anew(scene: Scene) -> None:
    """P12: a child of what is redone is not the child of what comes."""
    child = call("@process", type="child", args={}, key="the-child")
    scene.actor(lambda h: Decision((child,), returned=0), "order")
    scene.actor(lambda h: Decision((call("@signal", name="go"),), returned=0), "child")
    process = await scene.start("order")
    await scene.run()

    await scene.request(
        request_restart(process, ProcessRestart(scene.ids(process)["@process"], force=True))
    )
    await scene.run()

    rows = scene.query(
        "select key, state::text from mainspring.process where type = 'child' order by created_at"
    )
    assert rows == [("the-child", "cancelled"), ("the-child#1", "open")]
    assert scene.tasks(process)["@process"] == ["external"]


async def test_a_restart_of_a_task_that_runs_or_is_no_more_is_refused(scene: Scene) -> None:
    """Bad input: refused with the reason and the way out."""
    scene.actor(lambda h: Decision((call("@signal", name="go"),), returned=0), "order")
    process = await scene.start("order")
    await scene.run()
    task = scene.ids(process)["@signal"]

    why = await refusal(scene, process, ProcessRestart(task))
    assert "is external and has not ended: there is nothing to redo; wait for it" in why
    await scene.request(request_restart(process, ProcessRestart()))
    await scene.run()
    why = await refusal(scene, process, ProcessRestart(task))
    assert "is superseded: restart from the task that made it" in why
    why = await refusal(scene, process, ProcessRestart("018f0000-0000-7000-8000-000000000000"))
    assert "has no task 018f0000-0000-7000-8000-000000000000; it may have been pruned" in why


async def test_a_parked_task_is_delivered_when_somebody_comes_who_catches_it(scene: Scene) -> None:
    """P9: an outcome that is linked later delivers the error; it does not matter which came first."""

    def broken(h: Any) -> None:
        raise ValueError("no such card")

    scene.actor(
        lambda h: Decision(
            (call("broken"), call("@signal", name="go"), call("late", handle(0), value(1))),
            returned=2,
        ),
        "order",
    )
    scene.actor(broken)
    scene.actor(
        lambda h: Decision((call("judge", outcome(h.inputs[0].promise)),), returned=0), "late"
    )
    scene.actor(lambda h: h.inputs[0].error.message, "judge")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["broken"] == ["parked"]

    await scene.signal(process, "go")
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "no such card")
    assert scene.query("select * from mainspring.parked_task") == []
