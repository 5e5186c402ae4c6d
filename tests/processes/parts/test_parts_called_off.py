"""Parts of a process are called off, from outside and from within, while the rest goes on."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from breaking import break_at, run_on
from process_scene import Scene, call, given, outcome, value

from mainspring import (
    Failure,
    Mainspring,
    Outcome,
    Promise,
    RetryPolicy,
    call_off,
    gather,
    scope,
    sleep,
)
from mainspring.errors import InvalidArguments, NotFound, Refused
from mainspring.processes.record.decision import Decision, Undo
from mainspring.processes.record.decision import Scope as NewScope
from mainspring.processes.structural.request import (
    PartOrder,
    ProcessRestart,
    request_call_off,
    request_restart,
)
from mainspring.testing import Clock, run_until_idle


def branches(scene: Scene) -> None:
    """A process of two branches: each a decider that makes a step and waits for a signal after it."""
    scene.actor(lambda h: Decision(_branch(), returned=1), "branch")
    scene.actor(lambda h: "stepped", "step")
    scene.actor(lambda h: [i.outcome for i in h.inputs], "last")
    children = (call("branch"), call("branch"), call("last", outcome(0), outcome(1)))
    scene.actor(lambda h: Decision(children, returned=2), "order")


def _branch() -> tuple[Any, ...]:
    return call("step"), call("@signal", (0, "order"), name="go", timeout=None)


def first(scene: Scene, actor: str) -> str:
    text = "select min(id::text) from mainspring.task where actor = %s"
    return str(scene.query(text, actor)[0][0])


async def test_a_task_is_called_off_with_all_that_it_made_and_the_rest_goes_on(
    scene: Scene,
) -> None:
    """P15: the branch's own step is done; what it waits for is called off, and who waits for it is told."""
    branches(scene)
    process = await scene.start("order")
    await scene.run()

    await scene.request(
        request_call_off(process, PartOrder(first(scene, "branch"), why="too late"))
    )
    await scene.run()

    assert sorted(scene.tasks(process)["@signal"]) == ["cancelled", "external"]
    assert scene.tasks(process)["last"] == ["open"]
    await scene.signal(process, "go", 1)
    await scene.run()
    assert (scene.state(process), sorted(scene.result(process))) == ("finished", ["err", "ok"])
    [(error,)] = scene.query("select error from mainspring.task where error is not null")
    assert (error["type"], error["message"]) == ("mainspring.errors.Cancelled", "too late")


async def test_a_restart_after_it_begins_at_what_made_the_task(scene: Scene) -> None:
    """P12: what was called off is not redone by itself; its maker makes it anew."""
    branches(scene)
    process = await scene.start("order")
    await scene.run()
    await scene.request(request_call_off(process, PartOrder(first(scene, "branch"))))
    await scene.run()

    await scene.request(request_restart(process, ProcessRestart(first(scene, "branch"))))
    await scene.run()

    assert sorted(scene.tasks(process)["@signal"]) == ["external", "external", "superseded"]


@pytest.mark.parametrize("at", ["drop_visits", "end_tasks", "open_again", "settle"])
async def test_a_connection_that_breaks_calls_nothing_off_by_half(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """P7, P13: at the statements that write; it is tried again."""
    branches(scene)
    process = await scene.start("order")
    await scene.run()
    broken = break_at(monkeypatch, scene, at, after="lock_alone")

    await scene.request(request_call_off(process, PartOrder(first(scene, "branch"))))
    await run_on(scene)

    assert (broken, sorted(scene.tasks(process)["@signal"])) == ([at], ["cancelled", "external"])


async def test_a_decision_in_flight_is_waited_for_or_comes_too_late(scene: Scene) -> None:
    """P13: the branch decides while it is called off; nothing that it makes is left over."""
    branches(scene)
    process = await scene.start("order")
    async with scene.worker() as worker:
        while "branch" not in scene.ids(process):
            await worker.drained()
        await scene.request(request_call_off(process, PartOrder(actor="branch")))
        await worker.drained()
    live = scene.query(
        "select 1 from mainspring.task where state in ('open', 'external', 'parked')"
    )
    assert (scene.state(process), live) in (("finished", []), ("open", live))
    scene.check()


async def test_a_scope_is_called_off_by_its_name_undone_and_handled(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: from outside, by a handle; the other scope goes on."""
    undone: list[str] = []

    @app.task
    def book(what: str) -> str:
        return what

    @app.task
    def unbook(what: str, booked: Outcome[str]) -> None:
        undone.append(what)

    @app.task
    def explain(failure: Failure, what: str) -> str:
        return f"no {what}: {failure.message}"

    go = app.signal("go", str)

    @app.process
    def trip() -> Promise[list[str]]:
        parts = []
        for what in ("hotel", "car"):
            with scope(name=what) as s:
                s.on_error(explain, what=what)
                booked = book(what)
                booked.compensate(unbook, what, booked)
                s.returns(go.wait())
            parts.append(s.promise)
        return gather(parts)

    async with app:
        handle = await trip.start()
        await run_until_idle(app)
        lines = "\n".join(_tree(await app.operator.processes.graph(handle.id)))
        assert "@leave [waiting] of scope 'hotel'" in lines

        await handle.cancel(scope="hotel", why="the guest stays at home")
        await run_until_idle(app)
        assert (undone, await handle.status()) == (["hotel"], "open")

        with pytest.raises(Refused, match="the scope 'hotel' is undoing: it has ended"):
            await app.operator.processes.cancel(handle.id, scope="hotel")
        with pytest.raises(Refused, match=r"no scope 'boat'; it has 'car', 'hotel'"):
            await app.operator.processes.cancel(handle.id, scope="boat")
        with pytest.raises(InvalidArguments, match="is for a whole process"):
            await app.operator.processes.cancel(handle.id, scope="car", compensate=False)
        with pytest.raises(InvalidArguments, match="a task or a scope"):
            await handle.cancel(scope="car", task="book")
        await handle.signal(go, "a car")
        await run_until_idle(app)
        assert await handle.result() == ["no hotel: the guest stays at home", "a car"]


def _tree(graph: Any) -> list[str]:
    from mainspring.processes.operate.graph import tree

    return tree(graph)


async def test_an_operator_calls_tasks_off_and_is_told_where_there_is_nothing_to(
    app: Mainspring,
) -> None:
    """P13, P15: by id or actor; what has ended, is not there, or is the process itself is refused."""
    go = app.signal("go", int)

    @app.process
    def branch(n: int) -> Promise[int]:
        return go.wait()

    @app.process
    def late(answers: list[Outcome[int]]) -> list[str]:
        return [a.failure.type.rsplit(".")[-1] if a.failure else "fine" for a in answers]

    @app.process
    def order() -> Promise[list[str]]:
        return late([branch(n) for n in range(2)])

    async with app:
        handle = await order.start()
        await run_until_idle(app)
        graph = await app.operator.processes.graph(handle.id)
        root = graph.tasks[0].id
        processes = app.operator.processes
        with pytest.raises(Refused, match="its first task is the process itself"):
            await processes.cancel(handle.id, task=root)
        with pytest.raises(NotFound, match="there is no task"):
            await processes.cancel(handle.id, task="01a1f450-6637-7fab-989e-3f0c2253785b")
        with pytest.raises(Refused, match="no task of 'boat' is live"):
            await processes.cancel(handle.id, task="boat")

        answer = await processes.cancel(handle.id, task="branch", why="tired")
        await run_until_idle(app)

        assert (answer.tasks, await handle.result()) == (2, ["Cancelled", "Cancelled"])
        with pytest.raises(Refused, match="the process is finished"):
            await processes.cancel(handle.id, task="branch")


async def test_a_step_calls_off_what_it_was_given(app: Mainspring, mainspring_url: str) -> None:
    """P15: from within, after a time; a call that comes too late finds nothing."""
    clock = Clock(mainspring_url)
    go = app.signal("go", int)

    @app.process
    def told(answer: Outcome[int], ended: int) -> str:
        return f"{answer.failure.type if answer.failure else answer.value} {ended}"

    @app.process
    def order(number: int) -> Promise[str]:
        answer = go.wait()
        return told(answer, call_off(answer, after=[sleep(timedelta(hours=1))]))

    async with app:
        late, early = await order.start(1), await order.start(2)
        await early.signal(go, 7)
        await run_until_idle(app)
        await clock.advance(3700)
        await run_until_idle(app)
        assert await late.result() == "mainspring.errors.Cancelled 1"
        assert await early.result() == "7 0"


async def test_what_undoes_is_not_called_off(scene: Scene) -> None:
    """P15: a compensation that runs goes on; to end one that is parked is an order of its own."""
    undo = Undo("undo", json.dumps({}))
    book = msgspec.structs.replace(call("book"), scope=0, undo=undo)
    broken = msgspec.structs.replace(call("broken", (0, "order")), scope=0)
    leave = msgspec.structs.replace(call("@leave", value(0), value(1), of=[0]), scope=0)
    scope_of = NewScope(result=2, on_error=Undo("handler", "{}"), name="trip")
    scene.actor(lambda h: Decision((book, broken, leave), (scope_of,), returned=2), "order")
    scene.actor(lambda h: "booked", "book")
    scene.actor(lambda h: 1 / 0, "broken")
    scene.actor(lambda h: 1 / 0, "undo", retry=RetryPolicy(attempts=1))
    scene.actor(given, "handler")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["undo"] == ["parked"]

    for part in (PartOrder(first(scene, "undo")), PartOrder(actor="undo"), PartOrder(scope="trip")):
        await scene.request(request_call_off(process, part))
        await scene.run()

    assert (scene.tasks(process)["undo"], scene.state(process)) == (["parked"], "open")
