"""A server that takes nobody more: tasks wait for a connection, and no attempt is counted (T9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.testing import wait_until


@asynccontextmanager
async def limited(url: str, most: int) -> AsyncIterator[str]:
    """An address whose role may have so many connections."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create role crowd superuser login")
        connection.execute(f"alter role crowd connection limit {most}")
        connection.execute("alter role crowd nosuperuser")
        connection.execute("grant all on all tables in schema mainspring to crowd")
        connection.execute("grant all on all functions in schema mainspring to crowd")
        connection.execute("grant all on all sequences in schema mainspring to crowd")
        connection.execute("grant usage on schema mainspring to crowd")
        connection.execute("create table paid (number int); grant all on paid to crowd")
        try:
            yield url.replace("postgres@", "crowd@")
        finally:
            connection.execute("drop owned by crowd; drop role crowd")


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_task_waits_for_a_connection_where_the_server_is_full(
    database_url: str, caplog: pytest.LogCaptureFixture, plain: bool
) -> None:
    """T9: with one attempt each; forty slots want connections and the server has a dozen."""
    caplog.set_level(logging.WARNING, "mainspring")
    async with limited(database_url, 16) as url:
        app = Mainspring(url)

        async def pay(ctx: Context, number: int) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (%s)", (number,))
                await connection.execute("select pg_sleep(0.05)")

        def pay_plainly(ctx: Context, number: int) -> None:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (%s)", (number,))
                connection.execute("select pg_sleep(0.05)")

        wanted: Any = pay_plainly if plain else pay
        task = app.task(name="pay", retry=RetryPolicy(attempts=1))(wanted)
        async with app:
            await task.enqueue_many([{"number": n} for n in range(120)])
            async with app.worker(concurrency=40):
                await wait_until(lambda: _count(database_url, "paid") == 120, 60)
                await wait_until(lambda: _count(database_url, "mainspring.visit") == 0, 20)
    said = [r for r in caplog.records if r.getMessage().startswith("task.waits_for_connection")]
    assert len(said) == 1, "once a minute, not once a task"


def _count(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()
    return int(row[0]) if row else 0


async def test_a_run_is_settled_before_its_connection_is_made_ready_for_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T6: its visit is gone from then on; the heart would take a run that is not settled for a lost one."""
    from mainspring.tasks.run import connections

    app, seen = Mainspring(database_url), []
    give_back = connections.Connections._give_back

    async def look(self: Any, connection: Any) -> None:
        seen.extend(run.settled for run in worker.owned.snapshot())
        await give_back(self, connection)

    monkeypatch.setattr(connections.Connections, "_give_back", look)

    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("select 1")

    async with app, app.worker() as worker:
        handle = await pay.enqueue()
        async with asyncio.timeout(30):
            await handle.result()
    assert seen == [True]
