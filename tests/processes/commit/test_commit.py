"""Decisions: chains, fan-in and tail calls, end to end."""

from __future__ import annotations

import pytest
from process_scene import Scene, call, given, handle, outcome, value

from mainspring.processes.record.decision import Decision


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


async def test_a_task_waits_for_all_its_inputs_and_gets_them_in_order(scene: Scene) -> None:
    """P1: fan-out and fan-in; the order of the inputs is that of the arguments."""
    parts = [call("part", n=n) for n in range(20)]
    join = call("join", *[value(n) for n in range(20)])
    scene.actor(lambda h: Decision((*parts, join), returned=20), "order")
    scene.actor(lambda h: int(h.args.split(":")[1].strip(" }")), "part")
    scene.actor(given, "join")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", list(range(20)))
    assert scene.query("select * from mainspring.wait") == []


async def test_a_decider_that_returns_a_value_finishes_with_its_process(scene: Scene) -> None:
    scene.actor(lambda h: {"paid": True}, "order")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", {"paid": True})


async def test_a_process_whose_root_has_closed_waits_for_its_other_branches(scene: Scene) -> None:
    """P1: a value is returned while a child still runs: the process is open until that ends."""
    seen: list[str] = []

    async def slow(h: object) -> int:
        seen.append(scene.state(process))
        return 1

    scene.actor(lambda h: Decision((call("slow"),), result="7"), "order")
    scene.actor(slow, "slow")
    process = await scene.start("order")

    await scene.run()

    assert seen == ["open"]
    assert (scene.state(process), scene.result(process)) == ("finished", 7)


@pytest.mark.parametrize("steps", [300])
async def test_a_loop_of_tail_calls_fulfils_the_first_promise(scene: Scene, steps: int) -> None:
    """P15: each step hands its obligation on; no chain of promises is built."""

    def loop(h: object) -> Decision:
        step = int(h.args.split(":")[1].strip(" }"))  # type: ignore[attr-defined]
        if step == steps:
            return Decision(result=str(step))
        return Decision((call("loop", n=step + 1),), returned=0)

    scene.actor(loop)
    process = await scene.start("loop", {"n": 0})

    await scene.run(timeout=60)

    assert (scene.state(process), scene.result(process)) == ("finished", steps)


async def test_a_handle_that_is_passed_on_is_waited_for_only_by_who_takes_its_value(
    scene: Scene,
) -> None:
    """P1: a promise is handed to a decider unopened, which gives it to a task of its own."""
    scene.actor(lambda h: Decision((call("first"), call("middle", handle(0))), returned=1), "order")
    scene.actor(lambda h: 5, "first")
    scene.actor(
        lambda h: Decision((call("last", value(h.inputs[0].promise)),), returned=0), "middle"
    )
    scene.actor(lambda h: given(h)[0] * 2, "last")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 10)


async def test_a_given_promise_that_is_closed_can_be_returned(scene: Scene) -> None:
    """Trap: consumers that are linked to a promise which is closed already wait for ever."""
    scene.actor(
        lambda h: Decision(
            (call("first"), call("middle", value(0)), call("last", value(1))), returned=2
        ),
        "order",
    )
    scene.actor(lambda h: 5, "first")
    scene.actor(lambda h: Decision(returned=h.inputs[0].promise), "middle")
    scene.actor(lambda h: given(h)[0] + 1, "last")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 6)


async def test_a_promise_that_the_task_was_not_given_is_refused(scene: Scene) -> None:
    """Bad input: a promise of nobody's business makes the decision an error; nothing is added."""
    other = "018f0000-0000-7000-8000-000000000000"
    scene.actor(lambda h: Decision((call("last", value(other)),), returned=0), "order")
    scene.actor(lambda h: 1, "last")
    process = await scene.start("order")

    await scene.run()

    assert scene.tasks(process) == {"order": ["parked"]}
    [(error,)] = scene.query("select error from mainspring.parked_task")
    assert "which this task was not given" in error


async def test_an_outcome_is_delivered_to_who_takes_it(scene: Scene) -> None:
    """P9: an error that is caught is delivered, and nothing parks."""

    def broken(h: object) -> None:
        raise ValueError("no such card")

    scene.actor(
        lambda h: Decision((call("broken"), call("judge", outcome(0))), returned=1), "order"
    )
    scene.actor(broken)
    scene.actor(lambda h: h.inputs[0].error.message, "judge")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "no such card")


async def test_an_error_passes_through_tasks_to_who_catches_it(scene: Scene) -> None:
    """P9: a value edge passes the error on, without running its task."""

    def broken(h: object) -> None:
        raise ValueError("no such card")

    ran: list[str] = []
    scene.actor(
        lambda h: Decision(
            (call("broken"), call("next", value(0)), call("judge", outcome(1))), returned=2
        ),
        "order",
    )
    scene.actor(broken)
    scene.actor(lambda h: ran.append("next"), "next")
    scene.actor(lambda h: [h.inputs[0].outcome, h.inputs[0].error.type], "judge")
    process = await scene.start("order")

    await scene.run()

    assert (scene.result(process), ran) == (["err", "ValueError"], [])


async def test_an_error_that_nobody_catches_parks_its_task_only(scene: Scene) -> None:
    """P9: a broken task stops what depends on it; other branches go on."""

    def broken(h: object) -> None:
        raise ValueError("no such card")

    ran: list[str] = []
    scene.actor(
        lambda h: Decision((call("broken"), call("after", value(0)), call("other")), returned=1),
        "order",
    )
    scene.actor(broken)
    scene.actor(lambda h: ran.append("after"), "after")
    scene.actor(lambda h: ran.append("other"), "other")
    process = await scene.start("order")

    await scene.run()

    assert ran == ["other"]
    assert scene.state(process) == "open"
    assert scene.tasks(process) == {
        "order": ["done"],
        "broken": ["parked"],
        "after": ["open"],
        "other": ["done"],
    }


async def test_an_error_stops_a_task_that_still_waits_for_others(scene: Scene) -> None:
    """P9: fail fast; the close that comes after does not release it once more."""

    def broken(h: object) -> None:
        raise ValueError("no such card")

    scene.actor(
        lambda h: Decision(
            (
                call("broken"),
                call("slow"),
                call("join", value(0), value(1)),
                call("judge", outcome(2)),
            ),
            returned=3,
        ),
        "order",
    )
    scene.actor(broken)
    scene.actor(lambda h: 1, "slow")
    scene.actor(lambda h: 2, "join")
    scene.actor(lambda h: h.inputs[0].outcome, "judge")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", "err")
