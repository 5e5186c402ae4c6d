"""Orders of an operator: what they count, what they refuse, and that a refusal stops nobody."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from mainspring import Failure, Mainspring, Outcome, ProcessFilter, Promise, RetryPolicy, scope
from mainspring.errors import NotFound, Refused
from mainspring.processes.structural.change import Structural, run_alone
from mainspring.testing import run_until_idle, wait_until

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
async def shop(app: Mainspring) -> Mainspring:
    """Three orders whose scope failed and was undone, and one that is finished."""

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        if order < 4:
            raise ConnectionError("bank is closed")
        return order

    @app.task
    def release(order: int, held: Outcome[int]) -> None: ...

    @app.task
    def hold(order: int) -> int:
        return order

    @app.task
    def apologise(failure: Failure) -> int:
        return 0

    @app.process
    def order(number: int) -> Promise[int]:
        with scope() as s:
            s.on_error(apologise)
            held = hold(number)
            held.compensate(release, number, held)
            s.returns(charge(held))
        return s.promise

    for number in range(1, 5):
        await order.options(id=f"order-{number}").start(number)
    await run_until_idle(app)
    return app


async def ended(app: Mainspring, begun: Any) -> tuple[str, int, int]:
    await run_until_idle(app)
    found = await app.operator.operation(begun.id)
    return (found.state, found.done, found.failed)


async def test_an_operation_counts_what_happened_and_lists_what_was_refused(
    shop: Mainspring,
) -> None:
    """P10: what a process itself refuses when its turn comes is an item that failed, with the reason."""
    operator = shop.operator.processes
    begun = await operator.restart_all(ProcessFilter(type="order"), task="hold")
    assert await ended(shop, begun) == ("done", 1, 3)

    items = await shop.operator.operation_items(begun.id or 0)
    refused = {item.key: item.error for item in items if item.error is not None}
    for number in range(1, 4):
        why = refused[(await operator.find(f"order-{number}")).id]
        assert "lies in a scope that has failed and was undone: restart from the task that" in why
    fine = (await operator.find("order-4")).id
    assert [item.key for item in items if item.error is None] == [fine]


async def test_an_operation_is_done_when_its_items_have_ended(
    shop: Mainspring, database_url: str
) -> None:
    """P10: a process that somebody has locked is waited for, and counted when its turn has come."""
    operator = shop.operator.processes
    busy = (await operator.find("order-4")).id
    with psycopg.connect(database_url) as changing:
        changing.execute("select from mainspring.process where id = %s for update", [busy])
        begun = await operator.restart_all(ProcessFilter(type="order"))
        assert begun.id is not None

        async def others_are_done() -> bool:
            return (await shop.operator.operation(begun.id)).done == 3

        async with shop.worker(poll=0.1):
            await wait_until(others_are_done, 20)
            assert (await shop.operator.operation(begun.id)).state == "running"
            changing.rollback()
            await wait_until(lambda: is_done(shop, begun.id), 20)
    assert await ended(shop, begun) == ("done", 4, 0)


async def is_done(app: Mainspring, id: int | None) -> bool:
    return (await app.operator.operation(id or 0)).state == "done"


async def test_an_operation_goes_on_that_the_last_release_began(
    shop: Mainspring, database_url: str
) -> None:
    """P10, rolling deploy: its position was that of the next page alone."""
    operator = shop.operator.processes
    found = await operator.search(ProcessFilter(type="order"))
    begun = await operator.restart_all(ProcessFilter(type="order"))
    at, id = found[1].position  # two of four were asked for
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "update mainspring.operation set done = 2, position = jsonb_build_array(%s::text, %s::text)",
            [at.isoformat(), id],
        )
    assert await ended(shop, begun) == ("done", 4, 0)


async def test_a_refused_order_does_not_stop_its_process(
    shop: Mainspring, database_url: str
) -> None:
    """P13: the mark of the change is taken back with the refusal, and by one that fails half way."""
    operator = shop.operator.processes
    found = await operator.find("order-4")
    with pytest.raises(Refused, match="the process is finished"):
        await operator.cancel(found.id)
    with psycopg.connect(database_url, autocommit=True) as connection:
        marks = "select id from mainspring.process where closing_at is not null"
        assert connection.execute(marks).fetchall() == []

        database = await shop.database()

        def broken() -> Any:
            yield from Structural(found.id, database.shard_count).lock()
            raise RuntimeError("half way")

        own = await database.connect("test")
        with pytest.raises(RuntimeError, match="half way"):
            await run_alone(own, found.id, broken())
        await own.close()
        assert connection.execute(marks).fetchall() == []


async def test_restarts_take_the_id_of_a_task_or_an_actor(shop: Mainspring) -> None:
    """P12: in Python as on the command line, of one process and of many."""
    operator = shop.operator.processes
    graph = await operator.graph("order-4")
    task = next(t.id for t in graph.tasks if t.actor == "charge")

    assert (await operator.restart("order-4", task)).tasks == 2
    await run_until_idle(shop)
    assert (await operator.restart("order-4", "charge")).tasks == 2
    await run_until_idle(shop)
    begun = await operator.restart_all(ProcessFilter(type="order"), task=task)
    assert await ended(shop, begun) == ("done", 1, 3)
    items = await shop.operator.operation_items(begun.id or 0, failed_only=True)
    assert all(f"has no task {task}; it may have been pruned" in (i.error or "") for i in items)
    with pytest.raises(NotFound, match="has no task of 'chrage' that has ended"):
        await operator.restart("order-4", "chrage")


def test_a_decider_has_a_limit_of_crashes(app: Mainspring) -> None:
    """P7: how many deaths of its workers are pinned on it, as with tasks."""

    @app.process(crash_limit=7)
    def patient() -> None: ...

    async def never(run: Any) -> Any: ...

    assert patient.settings.queue(never).crash_limit == 7
