"""The audit: each order leaves one row, in its own transaction, with who, by which door and to what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import NotFound
from mainspring.kernel.outcome import Parked
from mainspring.operate.audit import Origin, process_user
from mainspring.operate.parked import ParkedFilter
from visits import QUEUE, Visits


def park(visits: Visits, me: UUID, key: str) -> None:
    visits.offer(key)
    failure = Parked(error_type="ValueError", error="ValueError: no")
    visits.settle(me, (visits.start(visits.visit(key, QUEUE)), failure))


async def test_each_order_is_noted_with_who_gave_it(visits: Visits, me: UUID, app: Mainspring):
    park(visits, me, "a")
    park(visits, me, "b")
    operator = app.operator
    with operator.ordered_by(Origin("ann", "console", "10.0.0.7", "the bank is back")):
        await operator.pause(QUEUE)
        await operator.restart(QUEUE, "a")
    await operator.delete(QUEUE, "b")
    begun = await operator.restart_parked(ParkedFilter(queue=QUEUE), source="bob")

    found = await operator.orders()

    assert [(o.actor, o.via, o.action, o.target) for o in found] == [
        ("bob", "python", "operations.restart_parked", str(begun.id)),
        (process_user(), "python", "parked.delete", f"{QUEUE} b"),
        ("ann", "console", "parked.restart", f"{QUEUE} a"),
        ("ann", "console", "queues.pause", QUEUE),
    ]
    assert found[0].operation == begun.id
    assert (found[2].address, found[2].reason) == ("10.0.0.7", "the bank is back")


async def test_orders_are_found_by_who_what_and_of_what_page_by_page(
    app: Mainspring, visits: Visits
):
    operator = app.operator
    with operator.ordered_by(Origin("ann")):
        for _ in range(3):
            await operator.pause(QUEUE)
            await operator.resume(QUEUE)
    with operator.ordered_by(Origin("bob")):
        await operator.limit(QUEUE, concurrency=3)

    first = await operator.orders(limit=4)
    rest = await operator.orders(limit=4, before=first[-1].id)
    assert [o.id for o in first + rest] == sorted((o.id for o in first + rest), reverse=True)
    assert len(first + rest) == 7
    assert len(await operator.orders(action="queues")) == 7
    assert len(await operator.orders(action="queues.resume")) == 3
    assert len(await operator.orders(action="queue")) == 0
    assert [o.action for o in await operator.orders(actor="bob")] == ["queues.limit"]
    assert len(await operator.orders(target=QUEUE)) == 7


async def test_what_was_refused_or_only_looked_at_leaves_no_row(app: Mainspring, visits: Visits):
    operator = app.operator
    with pytest.raises(NotFound):
        await operator.pause("nowhere")
    with pytest.raises(NotFound):
        await operator.restart(QUEUE, "nobody")
    await operator.status()
    await operator.restart_parked(ParkedFilter(), source="ann", dry_run=True)
    assert await operator.orders() == []


async def test_an_order_that_cannot_be_noted_is_not_carried_out(
    app: Mainspring, visits: Visits, mainspring_url: str
):
    """One transaction: neither an order without its row, nor a row without its order."""
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        connection.execute(
            "alter table mainspring.audit add constraint closed check (actor <> 'eve')"
        )
    operator = app.operator
    with operator.ordered_by(Origin("eve")), pytest.raises(Exception, match="closed"):
        await operator.pause(QUEUE)
    (queue,) = await operator.queues(name=QUEUE)
    assert queue.paused_at is None
    assert await operator.orders() == []


async def test_no_payload_is_in_the_audit(app: Mainspring, mainspring_url: str, visits: Visits):
    @app.task
    async def pay(card: str) -> None: ...

    await app.migrate()
    await app.operator.enqueue("pay", {"card": "4111-secret"})
    with psycopg.connect(mainspring_url) as connection:
        rows: list[Any] = connection.execute("select a::text from mainspring.audit a").fetchall()
    assert len(rows) == 1
    assert "secret" not in rows[0][0]
