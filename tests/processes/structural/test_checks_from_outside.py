"""What becomes of broken and left over processes, with an operator's check and without, from outside."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import First, Mainspring, Promise, first_of, gather, sleep
from mainspring.testing import Clock, run_until_idle


def execute(url: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


async def checked(app: Mainspring) -> tuple[int, int]:
    """A forced check of everything: how many processes were fine, and how many were not."""
    begun = await app.operator.processes.check_all(source="test")
    await run_until_idle(app)
    found = await app.operator.operation(begun.id or 0)
    assert found.state == "done"
    return found.done, found.failed


async def test_a_check_marks_a_process_whose_task_is_gone_and_repairs_nothing(
    app: Mainspring, mainspring_url: str
) -> None:
    """P7: one of two inputs of a join is deleted; its check does not die of it, as often as it comes."""
    paid, packed = app.signal("paid", bool), app.signal("packed", bool)

    @app.process
    def order() -> Promise[list[bool]]:
        return gather([paid.wait(), packed.wait()])

    handle = await order.start()
    await run_until_idle(app)
    lost = "(select task from mainspring.external where name = 'paid')"
    execute(mainspring_url, f"delete from mainspring.task where id = {lost}")
    execute(mainspring_url, "delete from mainspring.external where name = 'paid'")

    for _ in range(2):
        assert await checked(app) == (0, 1)
        found = await app.operator.processes.find(handle.id)
        assert (found.inconsistent or "").startswith("I12: an input is gone")
    assert await app.operator.processes.repairs() == []


async def test_a_check_ends_a_process_of_which_all_has_ended(
    app: Mainspring, clock: Clock, mainspring_url: str
) -> None:
    """P7, P8: `why` names what is broken, and the check mends it without waiting for the planned look."""

    @app.process
    def order() -> str:
        return "sent"

    handle = await order.start()
    await run_until_idle(app)
    execute(mainspring_url, "update mainspring.process set state = 'open', ended_at = null")
    await clock.advance(timedelta(minutes=1))
    causes = (await app.operator.processes.why(handle.id)).causes
    assert [cause.name for cause in causes] == ["broken_invariant"]

    assert await checked(app) == (0, 1)
    assert await handle.status() == "finished"


@pytest.mark.parametrize("answered", [False, True])
async def test_an_approval_with_reminders_ends_though_its_wait_is_never_read_again(
    app: Mainspring, clock: Clock, mainspring_url: str, answered: bool
) -> None:
    """P15: one wait is handed from step to step; when the last reminder gave up, nobody reads it."""
    approved = app.signal("approved", bool)

    @app.process
    def remind(answer: Promise[bool], count: int) -> Promise[str]:
        return conclude(first_of([answer, sleep(60)]), answer, count)

    @app.process
    def conclude(first: First, answer: Promise[bool], count: int) -> Promise[str] | str:
        if first.index == 0:
            return "approved"
        return "given up" if count == 2 else remind(answer, count + 1)

    @app.process
    def approval() -> Promise[str]:
        return remind(approved.wait(), 0)

    handle = await approval.start()
    for round in range(3):
        await run_until_idle(app)
        if answered and round == 1:
            await handle.signal(approved, True)
            await run_until_idle(app)
        await clock.advance(timedelta(seconds=61))
    await run_until_idle(app)

    assert await handle.result(5) == ("approved" if answered else "given up")
    assert await handle.status() == "finished"
    assert execute(mainspring_url, "select key from mainspring.visit where payload ? '@'") == []
