"""Signals that count only while somebody waits: `signal.now()`."""

from __future__ import annotations

from typing import Any

import pytest
from breaking import break_at, run_on
from process_scene import Scene, call, given, outcome, value

from mainspring.processes.operate.graph import read_graph, tree
from mainspring.processes.operate.why import explain
from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.request import ProcessRestart, request_restart


def asking(scene: Scene, **more: Any) -> None:
    """A process that waits for `ready`, then for `go` as it is sent from then on."""
    children = (
        call("@signal", name="ready", timeout=None),
        call("@signal", (0, "order"), name="go", now=True, **more),
        call("last", outcome(1)),
    )
    scene.actor(lambda h: Decision(children, returned=2), "order")
    scene.actor(
        lambda h: given(h)[0] if h.inputs[0].outcome == "ok" else h.inputs[0].error.type, "last"
    )


async def send(scene: Scene, process: str, name: str, payload: Any) -> None:
    await scene.signal(process, name, payload)
    await scene.run()


async def test_a_signal_that_was_sent_before_somebody_waits_is_not_taken(scene: Scene) -> None:
    """P15: a milestone; `why` and `show` say that only a new one counts."""
    asking(scene)
    process = await scene.start("order")
    await send(scene, process, "go", "too early")
    await send(scene, process, "ready", True)
    assert scene.state(process) == "open"
    scene.check()

    connection = await scene.database.connect("test")
    try:
        cause = (await explain(connection, process)).causes[-1]
        lines = tree(await read_graph(connection, process))
    finally:
        await connection.close()
    assert cause.text == "it waits for the signal 'go', one that is sent from now on"
    assert any("for signal 'go' from now on" in line for line in lines)

    await send(scene, process, "go", "now")
    assert scene.result(process) == "now"


async def test_one_that_was_kept_is_there_for_who_takes_kept_ones(scene: Scene) -> None:
    """P15: how it is waited for is said by who waits, not by who sends."""
    children = (
        call("@signal", name="ready", timeout=None),
        call("@signal", (0, "order"), name="go", now=True),
        call("@signal", (0, "order"), name="go"),
        call("last", value(1), value(2)),
    )
    scene.actor(lambda h: Decision(children, returned=3), "order")
    scene.actor(given, "last")
    process = await scene.start("order")

    for name, payload in (("go", "kept"), ("ready", True), ("go", "new")):
        await send(scene, process, name, payload)

    assert scene.result(process) == ["new", "kept"]


async def test_a_timeout_takes_no_signal_that_came_before(scene: Scene) -> None:
    """P15: none came in time, though one is kept."""
    asking(scene, timeout=60)
    process = await scene.start("order")
    await send(scene, process, "go", "too early")
    await send(scene, process, "ready", True)

    await run_on(scene)
    await run_on(scene)

    assert scene.result(process) == "mainspring.errors.SignalTimeout"


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_restart_gives_the_signal_again_unless_told_otherwise(
    scene: Scene, fresh: bool
) -> None:
    """P12: what was taken counts for the wait that is redone, though it was sent before that began."""
    asking(scene)
    process = await scene.start("order")
    await send(scene, process, "ready", True)
    await send(scene, process, "go", "now")
    [(wait,)] = scene.query("select id::text from mainspring.task where args ->> 'name' = 'go'")

    await scene.request(request_restart(process, ProcessRestart(wait, fresh_signals=fresh)))
    await scene.run()
    assert scene.state(process) == ("open" if fresh else "finished")
    if fresh:
        await send(scene, process, "go", "again")

    assert scene.result(process) == ("again" if fresh else "now")


@pytest.mark.parametrize("at", ["insert_externals", "take_signals", "end_tasks"])
async def test_a_connection_that_breaks_loses_no_signal_that_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """P7: at each statement that writes; the wait is had, or the signal is taken, in the next try."""
    asking(scene)
    process = await scene.start("order")
    await scene.run()
    broken = break_at(monkeypatch, scene, at, after=at)

    await scene.signal(process, "ready", True)
    await run_on(scene)
    await scene.signal(process, "go", "now")
    await run_on(scene)

    assert (broken, scene.result(process)) == ([at], "now")
