"""A task's own SQL, its decision and its end are one transaction."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle


@pytest.fixture
def ledger(database_url: str) -> str:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table ledger (n integer)")
    return database_url


def entries(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("select n from ledger order by n")]


async def test_a_worker_commits_its_sql_with_its_result(app: Mainspring, ledger: str) -> None:
    """P1, T6: exactly-once effect in the same database."""

    @app.task
    async def book(ctx: Context, n: int) -> int:
        async with ctx.transaction() as connection:
            await connection.execute("insert into ledger values (%s)", (n,))
            ctx.set_result(n * 2)
        return 0

    @app.task
    def book_plainly(ctx: Context, n: int) -> int:
        with ctx.transaction() as connection:
            connection.execute("insert into ledger values (%s)", (n,))
            ctx.set_result(n * 2)
        return 0

    @app.process
    def order(n: int) -> Promise[int]:
        return book_plainly(book(n))

    handle = await order.start(7)
    await run_until_idle(app)

    assert await handle.result(5) == 28
    assert entries(ledger) == [7, 14]


async def test_a_decider_commits_its_sql_with_its_decision(app: Mainspring, ledger: str) -> None:
    """P1: children, edges and the decider's own SQL are committed together."""

    @app.task
    def charge(n: int) -> int:
        return n + 1

    @app.process
    async def order(ctx: Context, n: int) -> Promise[Any] | None:
        async with ctx.transaction() as connection:
            await connection.execute("insert into ledger values (%s)", (n,))
            ctx.set_result(charge(charge(n)))
        return None

    handle = await order.start(7)
    await run_until_idle(app)

    assert await handle.result(5) == 9
    assert entries(ledger) == [7]


async def test_a_failed_attempt_leaves_neither_sql_nor_children(
    app: Mainspring, ledger: str
) -> None:
    """P1: the attempt is rolled back as a whole, and made again."""
    attempts: list[int] = []
    ran: list[int] = []

    @app.task
    def charge(n: int) -> int:
        ran.append(n)
        return n

    @app.process(retry=RetryPolicy(attempts=2, first=0.0))
    async def order(ctx: Context) -> Promise[Any] | None:
        attempts.append(1)
        async with ctx.transaction() as connection:
            await connection.execute("insert into ledger values (%s)", (len(attempts),))
            ctx.set_result(charge(len(attempts)))
            if len(attempts) == 1:
                raise ConnectionError("not now")
        return None

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == 2
    assert (entries(ledger), ran) == ([2], [2])
