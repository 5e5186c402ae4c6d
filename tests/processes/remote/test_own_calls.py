"""Actors elsewhere: calls of their own, of no process, and answers of attempts that are over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_remote import requeued, shop

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import Refused
from mainspring.testing import Clock, run_until_idle


async def test_why_names_what_a_remote_call_of_its_own_waits_for(app: Mainspring) -> None:
    """P8: the same of a task that belongs to no process; no worker is to be started for it."""

    @app.task(remote=True)
    def charge(order: int) -> None: ...

    await run_until_idle(app)
    first, second = await charge.enqueue(4), await charge.enqueue(5)

    async def causes(key: str) -> list[str]:
        found = await app.operator.why("charge", key)
        return [f"{cause.name}: {cause.text}" for cause in found.causes]

    waiting = "waiting_for_remote: an actor elsewhere is to pull it"
    assert await causes(str(first.id)) == [waiting]
    assert await causes(str(second.id)) == [f"{waiting}; 1 call is before it"]
    [task] = await app.remote.pull("charge")
    [cause] = await causes(str(first.id))
    assert cause.startswith("running: run by an actor elsewhere until ")
    await app.operator.pause("charge")
    assert (await causes(str(second.id)))[0].startswith("paused: ")
    await app.remote.complete(task.ticket)


@pytest.mark.parametrize("accept", ["first", "last"])
async def test_an_old_ticket_of_a_call_of_its_own_settles_nothing(
    app: Mainspring, accept: str
) -> None:
    """P4: given back and pulled by another, who failed: the task is not his any more who gave it back."""

    @app.task(remote=True, accept=accept, retry=RetryPolicy(attempts=5, first=0.0, most=0.0))
    def charge(order: int) -> str:
        raise AssertionError("it is run elsewhere")

    await run_until_idle(app)
    handle = await charge.enqueue(4)
    [first] = await app.remote.pull("charge")
    assert await app.remote.release(first.ticket) == "accepted"
    [second] = await app.remote.pull("charge")
    assert await app.remote.fail(second.ticket, "no cover") == "accepted"

    for late in (
        app.remote.complete(first.ticket, "late"),
        app.remote.fail(first.ticket, "late"),
        app.remote.release(first.ticket),
    ):
        with pytest.raises(Refused, match="no longer counts"):
            await late

    [third] = await app.remote.pull("charge")
    assert third.attempt == 2
    assert await app.remote.complete(third.ticket, "paid") == "accepted"
    assert await handle.result(5) == "paid"


@pytest.mark.parametrize("is_step", [False, True])
async def test_an_overtaken_actor_gives_back_nothing_that_another_has(
    app: Mainspring, clock: Clock, is_step: bool
) -> None:
    """Invariant 5: its result would count, but the task in another's hands is not its own to give back."""
    order = shop(app)
    await run_until_idle(app)
    await (order.start(4) if is_step else app.tasks["charge"].enqueue(4, 6.0))
    await run_until_idle(app)
    [late] = await app.remote.pull("charge")
    newer = await requeued(app, clock)

    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.release(late.ticket)

    assert await app.remote.beat(newer.ticket)
    assert await app.remote.complete(newer.ticket, "paid") == "accepted"


async def test_results_alone_are_written_together_and_once(app: Mainspring) -> None:
    """P4: visits are found where they lay when they were pulled; one that a beat has moved since, or
    that is settled twice, is looked for. What shares a row of history is found in it."""

    @app.task(remote=True)
    def charge(order: int) -> None: ...

    await run_until_idle(app)
    await charge.enqueue_many([{"order": n} for n in range(300)])
    tasks = await app.remote.pull("charge", limit=300)
    tickets = [task.ticket for task in tasks]
    assert await app.remote.beat(tickets[7])
    answers = [(ticket, None) for ticket in (*tickets, tickets[0])]

    assert set(await app.remote.complete_many(answers[:-1])) == {"accepted"}
    assert set(await app.remote.complete_many(answers)) == {"already"}
    async with (await app.pool()).connection() as connection:
        bundles = await connection.fetch("select size from mainspring.history_bundle")
        alone = await connection.fetch("select result from mainspring.history_run")
    assert [row["size"] for row in bundles] == [299]
    assert [row["result"] for row in alone] == [None]


async def test_results_that_history_must_show_one_by_one_have_a_row_each(app: Mainspring) -> None:
    """P4: what is searched by its arguments, and what a rate is counted by."""

    @app.task(remote=True, searchable=["order"])
    def charge(order: int) -> None: ...

    @app.task(remote=True, rate=1000.0)
    def refund(order: int) -> None: ...

    await run_until_idle(app)
    for actor in (charge, refund):
        await actor.enqueue_many([{"order": n} for n in range(250)])
        tasks = await app.remote.pull(actor.name, limit=250)
        told = await app.remote.complete_many([(task.ticket, None) for task in tasks])
        assert told == ["accepted"] * 250
    async with (await app.pool()).connection() as connection:
        bundles = await connection.fetch("select size from mainspring.history_bundle")
        found = await connection.fetch(
            "select from mainspring.history_run where 'order=7' = any(searchable)"
        )
    assert (bundles, len(found)) == ([], 1)


async def test_of_two_results_for_one_attempt_the_first_is_taken(app: Mainspring) -> None:
    """P4: also where both come in one list."""

    @app.task(remote=True)
    def charge(order: int) -> str:
        raise AssertionError("it is run elsewhere")

    await run_until_idle(app)
    handle = await charge.enqueue(4)
    [task] = await app.remote.pull("charge")

    said = await app.remote.complete_many([(task.ticket, "one"), (task.ticket, "two")])

    assert sorted(said) == ["accepted", "already"]
    assert await handle.result() == "one"


async def test_what_a_lost_call_found_again_is_not_given_back_by_it(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, invariant 7: its caller had asked once more meanwhile, and was answered: he works on it."""

    @app.task(remote=True)
    def charge(order: int) -> None: ...

    await run_until_idle(app)
    await charge.enqueue(4)
    [task] = await app.remote.pull("charge", pull_id="one")
    line = app.remote._here().line
    host: Any = line._host
    found = asyncio.Event()

    class Slow:
        """Its first answer does not come; all else is the host's."""

        def __getattr__(self, name: str) -> Any:
            return getattr(host, name)

        async def run_steps(self, steps: Any) -> Any:
            done = await host.run_steps(steps)
            if not found.is_set():
                found.set()
                await asyncio.Event().wait()
            return done

    monkeypatch.setattr(line, "_host", Slow())
    overtaken = asyncio.create_task(app.remote.pull("charge", pull_id="one", again=True))
    await found.wait()
    overtaken.cancel()
    await asyncio.wait([overtaken])
    if line._giving:
        await asyncio.wait(line._giving)
    monkeypatch.undo()

    assert await app.remote.beat(task.ticket)
    await app.remote.complete(task.ticket)
