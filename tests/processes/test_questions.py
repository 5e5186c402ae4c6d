"""Questions: signals that are answered; and what is seen of a process that runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import Mainspring, Outcome, Promise, RetryPolicy, set_attrs
from mainspring.errors import (
    InvalidSetting,
    ProcessFailed,
    Refused,
    ResultTimeout,
)
from mainspring.testing import run_until_idle


def accounting(app: Mainspring, fails: dict[str, bool] | None = None) -> Any:
    """An account whose limit is raised while it runs, until it is closed."""
    raise_limit = app.question("raise limit", int, str)

    @app.task(retry=RetryPolicy(attempts=1))
    def set_limit(limit: int) -> str:
        if fails and fails["yes"]:
            raise ConnectionError("the bank is closed")
        return f"the limit is {limit}"

    @app.process
    def account(times: int) -> Promise[str]:
        set_attrs(left=times)
        return went_on(times, raise_limit.answer(lambda limit: set_limit(limit)))

    @app.process
    def went_on(times: int, answer: str) -> Promise[str] | str:
        return account(times - 1) if times > 1 else answer

    return account, raise_limit


async def asked(app: Mainspring, question: Any) -> Any:
    """The answer, with a worker at work."""
    task = asyncio.ensure_future(question)
    while not task.done():
        await run_until_idle(app)
        await asyncio.sleep(0)
    return task.result()


async def test_a_question_is_answered_by_what_the_process_makes_of_it(app: Mainspring) -> None:
    """P15: each has its own answer; the same id is the same question, answered once."""
    account, raise_limit = accounting(app)
    async with app:
        handle = await account.start(2)
        assert await asked(app, handle.ask(raise_limit, 500, id="q-1")) == "the limit is 500"
        view = await handle.view()
        assert (view.state, view.attrs, view.waits_for) == ("open", {"left": 1}, ["raise limit"])
        assert (view.done > 0, view.parked) == (True, 0)
        assert await asked(app, handle.ask(raise_limit, 700)) == "the limit is 700"
        assert await handle.result() == "the limit is 700"
        # Its answer is there, though the process has ended: nothing is sent, and nothing waited for.
        assert await handle.ask(raise_limit, 500, id="q-1", timeout=5) == "the limit is 500"
        with pytest.raises(Refused, match="it takes no signal 'raise limit' any more"):
            await handle.ask(raise_limit, 900)


async def test_who_asks_is_told_why_there_is_no_answer(app: Mainspring) -> None:
    """P9, P15: too late, while the answer's step is parked; then it is there."""
    fails = {"yes": True}
    account, raise_limit = accounting(app, fails)
    async with app:
        handle = await account.start(1)
        with pytest.raises(ResultTimeout, match="it does not wait for it yet; ask `mainspring"):
            await handle.ask(raise_limit, 500, id="q-1", timeout=0.01)
        await run_until_idle(app)
        with pytest.raises(ResultTimeout, match="it has taken it"):
            await handle.ask(raise_limit, 500, id="q-1", timeout=0.01)
        [group] = await app.operator.processes.parked_groups()
        assert group.actor == "set_limit"

        fails["yes"] = False
        await app.operator.processes.restart(handle.id, "set_limit")
        assert await asked(app, handle.ask(raise_limit, 500, id="q-1")) == "the limit is 500"


async def test_a_failure_that_the_process_catches_is_told_to_who_asks(app: Mainspring) -> None:
    """P9, P15"""
    ask_number = app.question("number", int, int)

    @app.task(retry=RetryPolicy(attempts=1))
    def invert(number: int) -> int:
        return 1 // number

    @app.process
    def shielded(answer: Outcome[int]) -> str:
        return "failed" if answer.failed else "fine"

    @app.process
    def order() -> Promise[str]:
        return shielded(ask_number.answer(lambda number: invert(number)))

    async with app:
        handle = await order.start()
        with pytest.raises(ProcessFailed, match="no answer to 'number': ZeroDivisionError"):
            await asked(app, handle.ask(ask_number, 0))
        assert await handle.result() == "failed"


async def test_a_restart_answers_anew(app: Mainspring) -> None:
    """P12: the question is given again to what is redone, and has the answer of the new run."""
    ask_number = app.question("number", int, int)
    factor = {"is": 2}

    @app.task
    def multiply(number: int) -> int:
        return number * factor["is"]

    @app.process
    def order() -> Promise[int]:
        return ask_number.answer(lambda number: multiply(number))

    async with app:
        handle = await order.start()
        assert await asked(app, handle.ask(ask_number, 21, id="q")) == 42
        factor["is"] = 3
        await app.operator.processes.restart(handle.id)
        assert await asked(app, handle.ask(ask_number, 21, id="q")) == 63


async def test_a_process_that_is_cancelled_answers_no_more(app: Mainspring) -> None:
    """P15: who waits is told; a signal and a question do not share a name."""
    account, raise_limit = accounting(app)
    async with app:
        handle = await account.start(2)
        await run_until_idle(app)
        await handle.cancel()
        waiting = asyncio.ensure_future(handle.ask(raise_limit, 1, id="q"))
        await asyncio.sleep(0)
        await run_until_idle(app)
        with pytest.raises((Refused, ProcessFailed), match=r"cancelled|takes no signal"):
            await waiting

    assert app.question("raise limit", int, str) is raise_limit
    with pytest.raises(InvalidSetting, match="is declared twice"):
        app.question("raise limit", int, int)
