"""Actors elsewhere: calls of their own, of no process, and answers of attempts that are over."""

from __future__ import annotations

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
