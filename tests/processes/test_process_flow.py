"""Choices, loops and reminders without a function of their own for every body."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest
from breaking import break_at, run_on
from deciders import application, record
from process_scene import Scene, call, handle, outcome, value

from mainspring import (
    Failure,
    Mainspring,
    MainspringError,
    Outcome,
    Promise,
    RetryPolicy,
    choose,
    every,
    repeat_until,
    scope,
)
from mainspring.errors import InvalidArguments, PromiseMisused
from mainspring.processes.operate.graph import tree
from mainspring.processes.record.decision import Decision, validate
from mainspring.testing import Clock, run_until_idle

DAY = timedelta(days=1)


def approving(app: Mainspring, log: list[str]) -> Any:
    """The approval of the guide, with what its steps did."""
    approved = app.signal("approved", bool)

    @app.task
    def remind(who: str, page: int) -> None:
        log.append(f"remind {who}")

    @app.task
    def conclude(page: int, how: str) -> str:
        return f"page {page} is {how}"

    @app.process
    def approval(page: int, people: list[str]) -> Promise[str]:
        answer = approved.wait(timeout=3 * DAY)
        every(DAY, lambda: remind(people[0], page), until=answer)
        return choose(
            answer,
            {True: lambda: conclude(page, "out"), False: lambda: conclude(page, "refused")},
            failed=lambda: (
                approval(page, people[1:]) if people[1:] else conclude(page, "forgotten")
            ),
        )

    return approval, approved


async def days(app: Mainspring, url: str, number: int) -> None:
    """So many days, an hour at a time where something is due."""
    for _ in range(number):
        await Clock(url).advance(86_400.5)
        await run_until_idle(app)


async def test_an_approval_reminds_escalates_and_ends(app: Mainspring, mainspring_url: str) -> None:
    """P15: two reminders, then the next person; an answer in time stops both."""
    log: list[str] = []
    approval, approved = approving(app, log)
    async with app:
        handle = await approval.start(7, ["ann", "bob"])
        await run_until_idle(app)
        await days(app, mainspring_url, 4)
        assert log == ["remind ann", "remind ann", "remind bob"]

        await handle.signal(approved, True)
        await run_until_idle(app)
        assert (await handle.result(), await handle.status()) == ("page 7 is out", "finished")
        await days(app, mainspring_url, 3)
    assert log == ["remind ann", "remind ann", "remind bob"]


async def test_an_approval_that_nobody_answers_comes_to_its_end(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: by the branch for a failure of the last one."""
    approval, _ = approving(app, [])
    async with app:
        handle = await approval.start(7, ["ann", "bob"])
        await run_until_idle(app)
        await days(app, mainspring_url, 7)
        assert (await handle.result(), await handle.status()) == ("page 7 is forgotten", "finished")


def test_the_approval_takes_no_more_than_18_lines() -> None:
    """P15: declarations, reminder and escalation, as it is written above."""
    lines = inspect.getsource(approving).splitlines()
    written = [line for line in lines[2:-1] if line.strip() and "log.append" not in line]

    assert len(written) <= 18 + 1  # and the line on which black puts a bracket


async def test_a_loop_ends_when_its_value_is_true_or_its_rounds_are_over(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: with a pause between the rounds; the last value is the result."""
    seen: list[int] = []

    @app.task
    def poll(wanted: int) -> int:
        seen.append(wanted)
        return len(seen) if len(seen) >= wanted else 0

    @app.process
    def watch(wanted: int) -> Promise[int]:
        return repeat_until(lambda: poll(wanted), every=60, times=3)

    async with app:
        two, never = await watch.start(2), await watch.start(99)
        for _ in range(3):
            await run_until_idle(app)
            await Clock(mainspring_url).advance(61)
        await run_until_idle(app)
        assert await two.result() > 0
        assert (await never.result(), seen.count(99)) == (0, 3)


async def test_a_branch_may_hold_scopes_choices_and_promises_of_its_decider(
    app: Mainspring,
) -> None:
    """P1: a block is a decision: whatever a decider can say, and one commit."""
    undone: list[str] = []

    @app.task
    def name(n: int) -> str:
        return f"n{n}"

    @app.task(retry=RetryPolicy(attempts=1))
    def broken(text: str) -> str:
        raise ValueError(text)

    @app.task
    def undo(text: Outcome[str]) -> None:
        undone.append(text.or_else("?"))

    @app.task
    def handler(failure: Failure) -> str:
        return failure.type

    @app.task
    def is_odd(n: int) -> bool:
        return n % 2 == 1

    @app.process
    def order(n: int) -> Promise[str]:
        named, odd = name(n), is_odd(n)

        def in_scope() -> Promise[str]:
            with scope() as s:
                s.on_error(handler)
                again = name(n + 10)
                again.compensate(undo, again)
                s.returns(broken(named, after=[again]))
            return s.promise

        def deeper() -> Promise[str]:
            return choose(odd, {False: lambda: named}, otherwise=lambda: "no way")

        return choose(odd, {True: in_scope}, otherwise=deeper)

    async with app:
        odd, even = await order.start(1), await order.start(2)
        await run_until_idle(app)
        assert (await odd.result(), undone) == ("ValueError", ["n11"])
        assert (await even.result(), await even.status()) == ("n2", "finished")
        lines = tree(await app.operator.processes.graph(even.id))
        assert any("@choose [done]" in line for line in lines)


async def test_a_value_without_a_case_parks_the_choice(app: Mainspring) -> None:
    """P9: the code is at fault; whoever restarts it after a deploy begins at its decider."""

    @app.task
    def answer() -> str:
        return "perhaps"

    @app.process
    def order() -> Promise[str]:
        return choose(answer(), {"yes": lambda: "fine"})

    async with app:
        await order.start()
        await run_until_idle(app)
        [group] = await app.operator.processes.parked_groups()

    assert (group.actor, group.error_type) == ("@choose", "mainspring.errors.InvalidArguments")
    assert "choose has no case for what came, which is str" in group.example


def test_what_is_wrong_in_a_block_is_refused_where_it_is_written() -> None:
    """P1: with what to write instead."""
    app = application()
    go = app.signal("go", bool)

    @app.task
    def step(n: int) -> int:
        return n

    async def later() -> None: ...

    def decide(wrong: Any) -> Any:
        def decider() -> Any:
            return wrong(go.wait())

        return record(decider)

    leaked: list[Promise[int]] = []

    def leak(answer: Promise[bool]) -> Any:
        choose(answer, {True: lambda: leaked.append(step(1)) or step(2)})
        return leaked[0]

    for wrong, error in (
        (lambda a: choose(a, {True: step(1)}), "takes a function without arguments, such as"),
        (lambda a: choose(a, {True: later}), "takes a plain function, got an async one"),
        (lambda a: choose(a, {object(): lambda: step(1)}), "a value that JSON has"),
        (lambda a: repeat_until(lambda: a), "returns the promise of a call that it makes"),
        (lambda a: repeat_until(lambda: step(1), times=0), "times is how often at most"),
        (leak, "was made by another decision"),
    ):
        with pytest.raises(MainspringError, match=error):
            decide(wrong)


def test_a_promise_of_a_scope_with_a_handler_is_not_used_by_a_block_outside_of_it() -> None:
    """P1: it would have no value if the scope fails; the same rule as for a call."""
    app = application()
    go = app.signal("go", bool)

    @app.task
    def step(n: int) -> int:
        return n

    @app.task
    def handler() -> int:
        return 0

    def decider() -> Any:
        with scope() as s:
            s.on_error(handler)
            inner = step(1)
            s.returns(inner)
        return choose(go.wait(), {True: lambda: step(inner)})

    with pytest.raises(PromiseMisused, match="made inside a scope with an error handler"):
        record(decider)


def test_blocks_lie_in_blocks_without_growing_beyond_measure() -> None:
    """P1: arguments are kept as JSON in JSON, not as text in text."""
    app = application()
    go = app.signal("go", bool)

    @app.task
    def step(text: str) -> str:
        return text

    def nest(depth: int) -> Promise[str]:
        answer = go.wait()
        more = (lambda: nest(depth - 1)) if depth else (lambda: step('"'))
        return choose(answer, {True: more, False: lambda: step("no")})

    decision = record(lambda: nest(20))

    assert validate(Decision.decode(decision.encode()), ()) is None
    assert len(decision.children[1].args) < 10_000


@pytest.mark.parametrize("at", ["insert_tasks", "end_tasks"])
async def test_a_connection_that_breaks_makes_a_block_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """P1, P7: the branch is the decision of the choice, and committed with its end."""
    block = {
        "children": [{"actor": "step", "args": {}, "edges": [{"promise": "1", "kind": "value"}]}]
    }
    choice = call("@choose", value(0), handle(1), cases=[[True, {**block, "returned": 0}]])
    children = (call("@signal", name="go"), call("other"), choice)
    scene.actor(lambda h: Decision(children, returned=2), "order")
    scene.actor(lambda h: "other", "other")
    scene.actor(lambda h: f"after {h.inputs[0].result}", "step")
    process = await scene.start("order")
    await scene.run()
    await scene.signal(process, "go", True)
    broken = break_at(monkeypatch, scene, at, after=at)

    await run_on(scene)
    await run_on(scene)

    assert (broken, scene.result(process)) == ([at], 'after "other"')
    assert scene.tasks(process)["step"] == ["done"]


async def test_a_reminder_does_not_catch_what_it_waits_for(scene: Scene) -> None:
    """P9: a step that fails for good is parked, reminders or not; they end when it has."""
    fails = {"yes": True}
    remind = {"children": [{"actor": "remind"}]}
    children = (
        call("@signal", name="go"),
        call("step", value(0)),
        call("@every", handle(1), block=remind, held=1, every=3600.0),
    )
    scene.actor(lambda h: Decision(children, returned=1), "order")
    scene.actor(lambda h: 1 / 0 if fails["yes"] else "mended", "step")
    scene.actor(lambda h: None, "remind")
    process = await scene.start("order")
    await scene.run()
    await scene.signal(process, "go", True)
    await scene.run()
    assert scene.tasks(process)["step"] == ["parked"]

    fails["yes"] = False
    from mainspring.processes.structural.request import ProcessRestart, request_restart

    await scene.request(request_restart(process, ProcessRestart(scene.ids(process)["step"])))
    await scene.run()
    assert (scene.state(process), scene.result(process)) == ("finished", "mended")


async def test_a_restart_of_a_choice_takes_the_branch_of_the_new_value(scene: Scene) -> None:
    """P12: what the branch made is superseded; the blocks are those that were recorded."""
    answers = iter([True, False])
    cases = [
        [key, {"children": [{"actor": name}], "returned": 0}]
        for key, name in ((True, "yes"), (False, "no"))
    ]
    children = (call("ask"), call("@choose", outcome(0), cases=cases))
    scene.actor(lambda h: Decision(children, returned=1), "order")
    scene.actor(lambda h: next(answers), "ask")
    scene.actor(lambda h: "yes", "yes")
    scene.actor(lambda h: "no", "no")
    process = await scene.start("order")
    await scene.run()
    assert scene.result(process) == "yes"

    from mainspring.processes.structural.request import ProcessRestart, request_restart

    await scene.request(request_restart(process, ProcessRestart(scene.ids(process)["ask"])))
    await scene.run()

    assert (scene.result(process), scene.tasks(process)["yes"]) == ("no", ["superseded"])


def test_the_verbs_are_for_deciders() -> None:
    with pytest.raises(MainspringError, match="is for deciders"):
        repeat_until(lambda: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidArguments, match="choose takes promises of calls"):
        record(lambda: choose(True, {}))  # type: ignore[arg-type]
