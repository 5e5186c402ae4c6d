"""What comes from outside the graph: signals, timers, child processes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from process_scene import Scene, call, given, outcome, value

from mainspring.errors import IdInUse, NotFound, Refused
from mainspring.processes.record.decision import Decision
from mainspring.testing import Clock

APPROVAL = {"name": "approve", "timeout": None}


def approval(scene: Scene, **args: object) -> None:
    """A process that answers with the signal that it waits for."""
    wait = call("@signal", **APPROVAL | args)
    scene.actor(lambda h: Decision((wait, call("last", outcome(0))), returned=1), "order")
    scene.actor(lambda h: [h.inputs[0].outcome, given(h)[0]], "last")


async def test_a_signal_is_taken_by_the_task_that_waits_for_it(scene: Scene) -> None:
    """P15: a process waits for a signal without a worker, and goes on with what it brings."""
    approval(scene)
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["@signal"] == ["external"]

    await scene.signal(process, "approve", {"by": "anna"})
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", {"by": "anna"}])
    assert scene.query("select * from mainspring.external") == []


async def test_a_signal_that_comes_early_is_kept(scene: Scene) -> None:
    """P15: a signal that is sent before anybody waits is taken by who waits later."""
    approval(scene)
    process = await scene.start("order")
    await scene.signal(process, "approve", 1)

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", 1])


async def test_a_signal_of_the_same_id_counts_once_and_the_oldest_is_taken_first(
    scene: Scene,
) -> None:
    """P15: signals are taken in the order in which they came, each by one task."""
    waits = [call("@signal", **APPROVAL), call("@signal", **APPROVAL)]
    scene.actor(lambda h: Decision((*waits, call("last", value(0), value(1))), returned=2), "order")
    scene.actor(given, "last")
    process = await scene.start("order")

    sent = [await scene.signal(process, "approve", n, id=str(n)) for n in (1, 1, 2, 3)]
    await scene.run()

    assert sent == [True, False, True, True]
    assert (scene.state(process), scene.result(process)) == ("finished", [1, 2])


async def test_a_signal_that_does_not_come_in_time_is_an_error(scene: Scene, clock: Clock) -> None:
    """P15: a signal's timeout closes its promise with an error that can be caught."""
    approval(scene, timeout=3600)
    process = await scene.start("order")
    await scene.run()

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["err", None])


async def test_a_signal_that_was_sent_before_the_timeout_is_looked_at_wins(
    scene: Scene, clock: Clock
) -> None:
    """Trap: the timer looks for a signal before it closes with a timeout."""
    approval(scene, timeout=3600)
    process = await scene.start("order")
    await scene.run()
    await scene.signal(process, "approve", 1)
    scene.query("delete from mainspring.visit where key like 'signal/%%'")

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert scene.result(process) == ["ok", 1]


async def test_a_process_sleeps_and_goes_on(scene: Scene, clock: Clock) -> None:
    """P15: a durable timer."""
    nap = call("@sleep", seconds=3600)
    scene.actor(lambda h: Decision((nap, call("last", (0, "order"))), returned=1), "order")
    scene.actor(lambda h: "awake", "last")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process) == {"order": ["done"], "@sleep": ["external"], "last": ["open"]}

    await clock.advance(timedelta(hours=1, seconds=1))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "awake")


def parent(scene: Scene, **more: object) -> None:
    child = call("@process", type="child", args={"n": 4}, key=None, **more)
    scene.actor(lambda h: Decision((child, call("last", outcome(0))), returned=1), "order")
    scene.actor(lambda h: [h.inputs[0].outcome, given(h)[0]], "last")


async def test_a_child_process_answers_its_parent(scene: Scene) -> None:
    """P15: a child process is started, and its result is that of the task that started it."""
    parent(scene)
    scene.actor(lambda h: Decision((call("work"),), returned=0), "child")
    scene.actor(lambda h: 8, "work")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", ["ok", 8])
    assert scene.query("select type, state::text from mainspring.process order by type") == [
        ("child", "finished"),
        ("order", "finished"),
    ]


async def test_a_signal_for_a_process_that_is_not_there_or_has_ended_is_refused(
    scene: Scene,
) -> None:
    """Bad input: the sender is told."""
    scene.actor(lambda h: 1, "order")
    process = await scene.start("order")
    await scene.run()

    with pytest.raises(Refused, match=r"is finished: it takes no signal 'approve' any more"):
        await scene.signal(process, "approve")
    with pytest.raises(NotFound, match=r"there is no process 018f0000"):
        await scene.signal("018f0000-0000-7000-8000-000000000000", "approve")


async def test_a_start_with_an_id_that_is_in_use_answers_or_refuses(scene: Scene) -> None:
    """Bad input: the existing process, or a refusal, as asked; other arguments are always refused."""
    first = await scene.start_full("order", {"n": 1}, "order-1")
    again = await scene.start_full("order", {"n": 1}, "order-1")

    assert (first.is_new, again.is_new, first.id == again.id) == (True, False, True)
    with pytest.raises(IdInUse, match=r"was started before and is open; start it with another id"):
        await scene.start_full("order", {"n": 1}, "order-1", refuse_taken=True)
    with pytest.raises(IdInUse, match=r"with other arguments \(n\), and is open"):
        await scene.start_full("order", {"n": 2}, "order-1")


async def test_a_start_is_four_rows_and_a_first_look_after_the_idle_timeout(scene: Scene) -> None:
    """P6: the row is stored, the caller is answered; what follows is checked after idle_timeout."""
    await scene.start("order")

    rows = scene.query(
        "select queue, round(extract(epoch from due_at - mainspring.now()) / 60) from mainspring.visit"
        " order by due_at"
    )
    assert rows == [("order", 0), ("mainspring.process", 60)]
