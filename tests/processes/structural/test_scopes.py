"""Scopes: tasks that fail together, are undone in reverse order, and hand over to a handler."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
from process_scene import Scene, call, outcome, value

from mainspring.processes.record.decision import ChildTask, Decision, Undo
from mainspring.processes.record.decision import Scope as NewScope
from mainspring.testing import Clock


def undone(child: ChildTask, actor: str = "undo") -> ChildTask:
    """The call with a compensation."""
    return msgspec.structs.replace(
        child, scope=0, undo=Undo(actor, json.dumps({"of": child.actor}))
    )


def scoped(*children: ChildTask, handler: bool = True, timeout: float | None = None) -> Decision:
    """Children in one scope, ended by a join; and a task after it."""
    members = tuple(msgspec.structs.replace(child, scope=0) for child in children)
    n = len(members)
    leave = call("@leave", *[value(i) for i in range(n)], of=[0])
    leave = msgspec.structs.replace(leave, scope=0)
    on_error = Undo("handler", "{}") if handler else None
    scope = NewScope(result=n, on_error=on_error, timeout=timeout)
    last = call("last", outcome(n))
    return Decision((*members, leave, last), (scope,), returned=n + 1)


def actors(scene: Scene, ran: list[str]) -> None:
    def broken(h: Any) -> None:
        ran.append("broken")
        raise ValueError("no such card")

    def noted(name: str, result: Any) -> Any:
        def run(h: Any) -> Any:
            ran.append(name if name != "undo" else f"undo {json.loads(h.args)['of']}")
            return result

        return run

    scene.actor(broken)
    for name in ("one", "two", "undo", "handler"):
        scene.actor(noted(name, name), name)
    scene.actor(
        lambda h: [h.inputs[0].outcome, h.inputs[0].result and json.loads(h.inputs[0].result)],
        "last",
    )


async def test_a_scope_that_succeeds_gives_its_result_and_undoes_nothing(scene: Scene) -> None:
    """P15: a scope is nothing but its tasks while all goes well."""
    ran: list[str] = []
    actors(scene, ran)
    scene.actor(lambda h: scoped(undone(call("one")), undone(call("two", value(0)))), "order")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", "one"])
    assert ran == ["one", "two"]
    assert scene.query("select state::text from mainspring.scope") == [("closed",)]


async def test_a_failed_scope_is_undone_in_reverse_and_its_handler_answers(scene: Scene) -> None:
    """P15: compensation in reverse order of the ends, then the handler, whose result is the scope's."""
    ran: list[str] = []
    actors(scene, ran)
    scene.actor(
        lambda h: scoped(
            undone(call("one")), undone(call("two", value(0))), call("broken", value(1))
        ),
        "order",
    )
    process = await scene.start("order")

    await scene.run()

    assert ran == ["one", "two", "broken", "undo two", "undo one", "handler"]
    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", "handler"])


async def test_a_failed_scope_without_a_handler_is_undone_and_is_an_error(scene: Scene) -> None:
    """P15: without a handler the error of the scope goes on to who waits for it."""
    ran: list[str] = []
    actors(scene, ran)
    scene.actor(
        lambda h: scoped(undone(call("one")), call("broken", value(0)), handler=False), "order"
    )
    process = await scene.start("order")

    await scene.run()

    assert ran == ["one", "broken", "undo one"]
    assert (scene.state(process), scene.result(process)) == ("finished", ["err", None])


async def test_what_waits_in_a_scope_that_fails_is_cancelled(scene: Scene) -> None:
    """P15: the other tasks of the scope end with it, wherever they are."""
    ran: list[str] = []
    actors(scene, ran)
    wait = call("@signal", name="go", timeout=None)
    scene.actor(lambda h: scoped(call("broken"), wait, call("one", value(1))), "order")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", "handler"])
    states = scene.tasks(process)
    assert (states["@signal"], states["one"], states["@leave"]) == (
        ["cancelled"],
        ["cancelled"],
        ["cancelled"],
    )


async def test_a_scope_that_does_not_end_in_time_fails(scene: Scene, clock: Clock) -> None:
    """P15: a scope's timeout is an error of the scope."""
    ran: list[str] = []
    actors(scene, ran)
    wait = call("@signal", name="go", timeout=None)
    scene.actor(lambda h: scoped(undone(call("one")), wait, timeout=600), "order")
    process = await scene.start("order")
    await scene.run()
    assert scene.state(process) == "open"

    await clock.advance(timedelta(minutes=11))
    await scene.run()

    assert ran == ["one", "undo one", "handler"]
    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", "handler"])
