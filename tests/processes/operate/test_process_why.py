"""Why a process does not go on: each cause by its name, with what to do about it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle
from visits import Visits


@pytest.fixture
async def order(app: Mainspring) -> Any:
    @app.process
    def order() -> int:
        return 1

    await app.migrate()
    return order


async def causes(app: Mainspring, id: str) -> dict[str, Any]:
    return {cause.name: cause for cause in (await app.operator.processes.why(id)).causes}


async def test_a_task_in_a_queue_has_its_place_in_it(
    app: Mainspring, order: Any, visits: Visits
) -> None:
    """P8: backlog, and the position in it; a worker is there and others are before it."""
    visits.take(visits.join(queues=["order"]))
    for number in range(3):
        await order.options(id=f"o{number}").start()

    found = await causes(app, "o2")

    assert set(found) == {"backlog"}
    assert found["backlog"].text == "'order' is queued behind 2 others"
    assert found["backlog"].remedy == "wait, start more workers, or raise the queue's limit"


async def test_a_paused_actor_is_the_cause(app: Mainspring, order: Any, visits: Visits) -> None:
    """P8: actor paused; looked up, not inferred."""
    visits.take(visits.join(queues=["order"]))
    await order.options(id="o").start()

    await app.operator.pause("order")

    assert set(await causes(app, "o")) == {"paused"}


async def test_a_parent_waits_for_its_child_process(app: Mainspring) -> None:
    """P8: and says which one."""
    paid = app.signal("paid", bool)

    @app.process
    def payment() -> Promise[bool]:
        return paid.wait()

    @app.process
    def order() -> Promise[bool]:
        return payment.child()

    await app.migrate()
    await order.options(id="o").start()
    await run_until_idle(app)
    [(child,)] = await rows(app, "select id::text from mainspring.process where type = 'payment'")

    found = await causes(app, "o")

    assert found["waiting_for_child"].text == f"it waits for the process {child}"
    assert found["waiting_for_child"].remedy == "ask why that process waits"


async def test_a_broken_invariant_is_named(app: Mainspring, order: Any, database_url: str) -> None:
    """P8: which one; the check repairs what is safe."""
    await order.options(id="o").start()
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from mainspring.visit where queue = 'order'")

    found = await causes(app, "o")

    assert "broken_invariant" in found
    assert found["broken_invariant"].text.startswith("I")
    assert found["broken_invariant"].remedy.startswith("run the check, which repairs what is safe")


async def rows(app: Mainspring, text: str) -> list[Any]:
    pool = await app.pool()
    async with pool.connection() as connection:
        return [tuple(row) for row in await connection.fetch(text)]
