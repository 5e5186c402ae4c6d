"""Bad input that reaches a process all the same: refused or parked by name, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import InvalidKey, Refused
from mainspring.tasks.declare.promise import Outcome, Promise
from mainspring.testing import run_until_idle

FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}


async def test_a_task_that_runs_is_not_restarted(app: Mainspring) -> None:
    """P12: restart of a running task is refused, with what to do instead."""
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def charge() -> str:
        begun.set()
        await release.wait()
        return "paid"

    @app.process
    def order() -> Promise[str]:
        return charge()

    handle = await order.start()
    async with app.worker(**FAST):
        await asyncio.wait_for(begun.wait(), 10)
        graph = await app.operator.processes.graph(handle.id)
        task = next(task.id for task in graph.tasks if task.actor == "charge")
        text = (
            "is open and has not ended: there is nothing to redo; wait for it, or restart from the"
        )
        with pytest.raises(Refused, match=text):
            await app.operator.processes.restart(handle.id, task)
        release.set()
        assert await handle.result(10) == "paid"


async def test_a_result_that_its_consumer_cannot_read_parks_the_consumer(app: Mainspring) -> None:
    """P9: the code is at fault, so it parks, caught or not; with code that fits it goes on."""

    @app.task
    def price() -> Any:
        return {"euros": 5}

    @app.task(retry=RetryPolicy(attempts=3, first=0.0, most=0.0))
    def charge(amount: int) -> str:
        return f"paid {amount}"

    @app.task
    def judge(outcome: Outcome[str]) -> str:
        return outcome.value

    @app.process
    def order() -> Promise[str]:
        return judge(charge(price()))

    handle = await order.start()
    await run_until_idle(app)
    [group] = await app.operator.processes.parked_groups()
    assert (group.actor, group.error_type) == ("charge", "mainspring.errors.InvalidArguments")
    assert "Expected `int`, got `object`" in group.example

    del app.tasks["charge"]

    @app.task(name="charge")
    def fitting(amount: dict[str, int]) -> str:
        return f"paid {amount['euros']}"

    await app.operator.processes.restart(handle.id)
    await run_until_idle(app)
    assert await handle.result(5) == "paid 5"


async def test_an_actor_that_no_code_knows_waits_and_is_reported(app: Mainspring) -> None:
    """Versions, P7, P8: not failed, not parked: why, status and the list of queues name it."""

    @app.task
    def charge() -> str:
        return "paid"

    @app.process
    def order() -> Promise[str]:
        return charge()

    handle = await order.start()
    known = app.tasks.pop("charge")
    await run_until_idle(app)

    async with app.worker(**FAST) as worker:
        await worker.ready()
        [cause] = (await app.operator.processes.why(handle.id)).causes
        assert (cause.name, cause.text) == (
            "unknown_queue",
            "'charge': no code has declared queue 'charge'; it is kept",
        )
        [queue] = (await app.operator.status()).unserved
        assert (queue.name, queue.waiting) == ("charge", 1)
    assert await app.operator.processes.parked_groups() == []

    app.tasks["charge"] = known
    await run_until_idle(app)
    assert await handle.result(5) == "paid"


@pytest.mark.parametrize("id", ["order-7", "", None])
async def test_a_handle_is_for_a_process_s_own_id(app: Mainspring, id: Any) -> None:
    """P12, bad input: a user's own id is told from it, instead of by an error of the driver."""

    @app.process
    def order() -> int:
        return 1

    with pytest.raises(InvalidKey, match=r"is a UUID .*ask for it: \(await app\.operator"):
        app.process_handle("order", id)
