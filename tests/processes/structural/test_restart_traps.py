"""Restarts that meet what was there before: runs, races, scopes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
from process_scene import Scene, call, given, outcome, value

from mainspring.processes.record.decision import Decision, Undo
from mainspring.processes.record.decision import Scope as NewScope
from mainspring.processes.structural.request import ProcessRestart, request_restart
from mainspring.retry_policy import RetryPolicy


async def restart(scene: Scene, process: str, actor: str, *, force: bool = False) -> None:
    await scene.request(
        request_restart(process, ProcessRestart(scene.ids(process)[actor], force=force))
    )


async def test_a_retry_of_a_run_before_the_restart_does_not_put_the_new_one_off(
    scene: Scene,
) -> None:
    """Trap: a failure of the old generation is dropped; the new one's visit is not delayed by it."""
    started, may_fail = asyncio.Event(), asyncio.Event()

    async def work(h: Any) -> Any:
        if h.generation == 0:
            started.set()
            await may_fail.wait()
            raise ValueError("the old run")
        return "new"

    scene.actor(lambda h: Decision((call("work"),), returned=0), "order")
    scene.actor(work)
    scene.settings["work"]["retry"] = RetryPolicy(attempts=5, first=3600, most=3600)
    scene.settings["work"]["concurrency"] = 1  # the new run waits for the old one's slot
    process = await scene.start("order")
    async with scene.worker() as worker, asyncio.timeout(20):
        await started.wait()
        await restart(scene, process, "work", force=True)
        while not scene.query("select 1 from mainspring.task where generation = 1"):
            await asyncio.sleep(0.01)
        may_fail.set()
        await worker.drained()

    assert (scene.state(process), scene.result(process)) == ("finished", "new")


async def test_a_race_that_is_run_again_gives_its_losers_another_chance(scene: Scene) -> None:
    """P12: who was called off by a race is redone with it, instead of winning with its cancellation."""
    children = (
        call("quick"),
        call("@signal", name="go", timeout=None),
        call("@first_of", outcome(0), outcome(1)),
        call("last", value(2)),
    )
    scene.actor(lambda h: Decision(children, returned=3), "order")
    scene.actor(lambda h: f"quick {h.generation}", "quick")
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["@signal"] == ["cancelled"]

    await restart(scene, process, "quick")
    await scene.run()

    assert scene.result(process) == {"index": 0, "value": "quick 1"}
    assert scene.tasks(process)["@signal"] == ["cancelled"]
    assert scene.state(process) == "finished"


def in_scope(n: int, child: Any, *, undo: bool = False) -> Any:
    compensation = Undo("undo", json.dumps({"of": child.actor})) if undo else None
    return msgspec.structs.replace(child, scope=n, undo=compensation)


def undoing(scene: Scene, ran: list[str]) -> None:
    def undo(h: Any) -> str:
        ran.append(f"undo {json.loads(h.args)['of']}")
        return "undone"

    scene.actor(undo)


async def test_a_scope_that_loses_a_race_is_ended_as_a_whole(scene: Scene) -> None:
    """P15: its tasks are called off, what they did is undone, its handler fulfils what nobody wants."""
    ran: list[str] = []
    undoing(scene, ran)
    leave = call("@leave", value(0), value(1), of=[0])
    children = (
        in_scope(0, call("book"), undo=True),
        in_scope(0, call("@signal", name="go", timeout=None)),
        in_scope(0, leave),
        call("quick", value(0)),
        call("@first_of", outcome(2), outcome(3)),
        call("last", value(4)),
    )
    scope = NewScope(result=2, on_error=Undo("handler", "{}"), timeout=None)
    scene.actor(lambda h: Decision(children, (scope,), returned=5), "order")
    for name in ("book", "quick", "handler"):
        scene.actor(lambda h: "fine", name)
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == (
        "finished",
        {"index": 1, "value": "fine"},
    )
    assert scene.tasks(process)["@signal"] == ["cancelled"]
    assert ran == ["undo book"]


def nested(handler: str = "handler") -> Decision:
    """An inner scope that fails and is undone, inside an outer one whose last task fails too."""
    children = (
        in_scope(1, call("inner"), undo=True),
        in_scope(1, call("broken", value(0))),
        in_scope(1, call("@leave", value(0), value(1), of=[0])),
        in_scope(0, call("broken", value(2))),
        in_scope(0, call("@leave", value(2), value(3), of=[0])),
        call("last", outcome(4)),
    )
    outer = NewScope(result=4, on_error=Undo("handler", "{}"), timeout=None)
    inner = NewScope(result=2, on_error=Undo("handler", "{}"), timeout=None, parent=0)
    return Decision(children, (outer, inner), returned=5)


async def test_what_a_failed_scope_has_undone_is_not_undone_again_by_the_one_around_it(
    scene: Scene,
) -> None:
    """P15: a compensation runs once."""
    ran: list[str] = []
    undoing(scene, ran)

    def broken(h: Any) -> None:
        raise ValueError("no")

    scene.actor(lambda h: nested(), "order")
    scene.actor(broken)
    scene.actor(lambda h: "fine", "inner")
    scene.actor(lambda h: "handled", "handler")
    scene.actor(given, "last")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["handled"])
    assert ran == ["undo inner"]


async def test_a_task_of_a_scope_that_succeeded_can_be_redone_and_fails_in_its_scope(
    scene: Scene,
) -> None:
    """P12: only a scope that was undone refuses; one that is redone is open again, handler and all."""
    ran: list[str] = []
    undoing(scene, ran)

    def pay(h: Any) -> str:
        if h.generation:
            raise ValueError("card refused")
        return "paid"

    children = (
        in_scope(0, call("book"), undo=True),
        in_scope(0, call("pay", value(0))),
        in_scope(0, call("@leave", value(0), value(1), of=[0])),
        call("last", value(2)),
    )
    scope = NewScope(result=2, on_error=Undo("handler", "{}"), timeout=60.0)
    scene.actor(lambda h: Decision(children, (scope,), returned=3), "order")
    scene.actor(pay)
    scene.actor(lambda h: "booked", "book")
    scene.actor(lambda h: "handled", "handler")
    scene.actor(lambda h: given(h)[0], "last")
    process = await scene.start("order")
    await scene.run()
    assert scene.state(process) == "finished"

    await restart(scene, process, "pay")
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "handled")
    assert ran == ["undo book"]
