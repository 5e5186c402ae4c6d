"""some_of, first_success, and a first_of whose losers go on."""

from __future__ import annotations

from typing import Any

import pytest
from breaking import break_at, run_on
from process_scene import Scene, call, given, outcome, value

from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.structural.request import ProcessRestart, request_restart

GO = "abc"


def racing(scene: Scene, need: int = 1, *, catches: bool = False, **terms: bool) -> None:
    """A process of three signals a, b and c whose steps fail when they are told to, and a race of these."""

    def step(h: Any) -> Any:
        [told] = given(h)
        if told == "fail":
            raise ConnectionError(f"no {h.task_id}")
        return told

    scene.actor(step)
    scene.actor(lambda h: [i.outcome for i in h.inputs] if catches else given(h)[0], "last")
    waits = [call("@signal", name=name, timeout=None) for name in GO]
    steps = [call("step", value(n)) for n in range(3)]
    race = call("@some_of", *map(outcome, (3, 4, 5)), need=need, of=[0, 1, 2], **terms)
    last = call("last", outcome(6) if catches else value(6))
    scene.actor(lambda h: Decision((*waits, *steps, race, last), returned=7), "order")


async def tell(scene: Scene, process: str, name: str, what: str) -> None:
    await scene.signal(process, name, what)
    await scene.run()


async def test_the_first_success_counts_and_failures_before_it_are_passed_over(
    scene: Scene,
) -> None:
    """P15: a failure is no end of the race; who is left is called off when one has succeeded."""
    racing(scene, one=True)
    process = await scene.start("order")
    await tell(scene, process, "b", "fail")
    assert (scene.state(process), scene.tasks(process)["@some_of"]) == ("open", ["open"])
    scene.check()

    await tell(scene, process, "c", "fine")

    assert (scene.state(process), scene.result(process)) == (
        "finished",
        {"index": 2, "value": "fine"},
    )
    assert scene.tasks(process)["step"] == ["cancelled", "done", "done"]


async def test_n_of_m_come_in_the_order_in_which_they_were_kept(scene: Scene) -> None:
    """P15: a list, the first to be kept first."""
    racing(scene, need=2)
    process = await scene.start("order")

    await tell(scene, process, "c", "third")
    scene.check()
    await tell(scene, process, "a", "first")

    assert scene.result(process) == [
        {"index": 2, "value": "third"},
        {"index": 0, "value": "first"},
    ]
    assert scene.tasks(process)["step"] == ["done", "cancelled", "done"]


async def test_a_race_that_cannot_be_won_any_more_fails_at_once(scene: Scene) -> None:
    """P9: two of three are needed and two have failed: whoever catches it is told, the third called off."""
    racing(scene, need=2, catches=True)
    process = await scene.start("order")
    await tell(scene, process, "a", "fail")

    await tell(scene, process, "b", "fail")

    assert (scene.state(process), scene.result(process)) == ("finished", ["err"])
    assert scene.tasks(process)["step"] == ["done", "done", "cancelled"]
    [(error,)] = scene.query("select error from mainspring.task where actor = '@some_of'")
    assert error["type"] == "mainspring.errors.TooFewSucceeded"
    text = "of 3 promises 2 had to be kept: 0 were, 2 failed, the last of them with "
    assert error["message"].startswith(text + "ConnectionError: no ")


async def test_a_race_that_nobody_catches_is_parked_and_redone_from_a_step(scene: Scene) -> None:
    """P9, P12: the race waits for an operator; a restart of one of its steps runs it again."""
    racing(scene, one=True)
    fails = {"yes": True}
    scene.actor(lambda h: 1 / 0 if fails["yes"] else "mended", "step")
    process = await scene.start("order")
    for name in GO:
        await scene.signal(process, name, "go")
    await scene.run()
    assert (scene.state(process), scene.tasks(process)["@some_of"]) == ("open", ["parked"])
    scene.check()

    fails["yes"] = False
    [(step,)] = scene.query("select max(id::text) from mainspring.task where actor = 'step'")
    await scene.request(request_restart(process, ProcessRestart(step)))
    await scene.run()

    assert (scene.state(process), scene.result(process)) == (
        "finished",
        {"index": 2, "value": "mended"},
    )


async def test_a_parked_race_is_told_to_whoever_catches_it_later(scene: Scene) -> None:
    """P9: a decider that holds its promise links a task that catches; a look delivers the failure."""
    scene.actor(lambda h: 1 / 0, "step")

    def late(h: Any) -> Decision:
        return Decision((call("catch", outcome(h.inputs[1].promise)),), returned=0)

    children = (
        call("step"),
        call("step"),
        call("@some_of", outcome(0), outcome(1), need=1, of=[0, 1], one=True),
        call("@signal", name="go", timeout=None),
        call("late", value(3), (2, "handle")),
    )
    scene.actor(late)
    scene.actor(lambda h: h.inputs[0].error.type, "catch")
    scene.actor(lambda h: Decision(children, returned=4), "order")
    process = await scene.start("order")
    await scene.run()
    assert scene.tasks(process)["@some_of"] == ["parked"]

    await tell(scene, process, "go", "go")

    assert scene.result(process) == "mainspring.errors.TooFewSucceeded"
    assert scene.query("select 1 from mainspring.visit where parked_at is not null") == []


async def test_losers_that_go_on_run_to_their_end(scene: Scene) -> None:
    """P15: a discriminator; the process is finished when they have ended too."""
    racing(scene, ends=True, one=True, go_on=True)
    process = await scene.start("order")
    await tell(scene, process, "b", "won")
    assert scene.result(process) == {"index": 1, "value": "won"}
    assert scene.state(process) == "open"
    scene.check()

    await tell(scene, process, "a", "late")
    await tell(scene, process, "c", "fail")
    assert scene.tasks(process)["step"] == ["done", "done", "parked"]  # P9: nobody catches it

    await scene.request(request_restart(process, ProcessRestart(scene.ids(process)["@some_of"])))
    await scene.run()
    assert scene.result(process) == {"index": 1, "value": "won"}  # again by what ended first


async def test_a_restart_of_the_winner_runs_the_race_again(scene: Scene) -> None:
    """P12: who was called off gets another chance; who had failed is redone only if it was restarted."""
    racing(scene, one=True)
    process = await scene.start("order")
    await tell(scene, process, "b", "fail")
    await tell(scene, process, "c", "fine")
    [_, _, winner] = scene.query(
        "select id::text from mainspring.task where actor = 'step' order by id"
    )

    await scene.request(request_restart(process, ProcessRestart(winner[0])))
    await scene.run()

    assert scene.result(process) == {"index": 2, "value": "fine"}
    generations = scene.query(
        "select generation from mainspring.task where actor = 'step' order by id"
    )
    assert generations == [(1,), (0,), (1,)]


@pytest.mark.parametrize("at", ["read_race", "insert_waits", "end_tasks", "settle"])
async def test_a_connection_that_breaks_in_a_race_leaves_it_whole(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """P7, P13: at each statement of the change; nothing of it was written, and it is tried again."""
    racing(scene, one=True)
    process = await scene.start("order")
    broken = break_at(monkeypatch, scene, at, after="read_race")

    await scene.signal(process, "a", "fail")
    await run_on(scene)
    scene.check()
    await scene.signal(process, "b", "fine")
    await run_on(scene)

    assert (broken, scene.result(process)) == ([at], {"index": 1, "value": "fine"})


@pytest.mark.parametrize(
    ("args", "edges"),
    [
        ({"need": 0}, [outcome(0), outcome(1)]),
        ({"need": 3}, [outcome(0), outcome(1)]),
        ({"need": 10**12}, [outcome(0), outcome(1)]),
        ({"need": "two"}, [outcome(0), outcome(1)]),
        ({"need": 2}, [outcome(0), value(1)]),
        ({}, []),
    ],
)
def test_terms_that_no_race_can_have_are_refused_before_anything_is_written(
    args: dict[str, Any], edges: list[Any]
) -> None:
    """P1: what a decision from elsewhere says is judged by the same rule."""
    children = (call("a"), call("b"), call("@some_of", *edges, **args))

    found = validate(Decision(children, returned=2), ())

    assert found is not None
    assert "task 2 (@some_of)" in found.message


async def test_blocks_that_cannot_be_read_park_their_task(scene: Scene) -> None:
    """P9: whoever decided so from elsewhere; it is not tried for ever, and no other suffers."""
    wrong = (
        call("@choose", cases=[]),
        call("@repeat", block={"children": [{"actor": "a"}]}, held=0),
        call("@every", block=7, held=1, every=1.0),
        call("@each", held=3),
    )
    scene.actor(lambda h: Decision(wrong, result="1"), "order")
    process = await scene.start("order")

    await scene.run()

    states = scene.tasks(process)
    assert [states[child.actor] for child in wrong] == [["parked"]] * 4
