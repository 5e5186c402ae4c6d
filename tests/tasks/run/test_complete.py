"""T6, T8: a task's completion is part of its own transaction, of whatever library that is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.errors import InvalidSetting, MainspringError
from mainspring.testing import TestServer

sys.path.insert(0, str(Path(__file__).parents[2] / "db"))

from callers import ASYNC, SYNC, configured

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def written(database_url: str) -> Any:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table written (n int)")
        yield lambda: [n for (n,) in connection.execute("select n from written order by n")]


def ends(url: str) -> list[tuple[str, str | None]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "select outcome::text, result::text from mainspring.history where not superseded"
        ).fetchall()  # type: ignore[return-value]


@pytest.mark.parametrize("library", ASYNC)
async def test_it_is_done_if_and_only_if_that_commits(
    app: Mainspring, database_url: str, written: Any, library: str
) -> None:
    """What comes after the commit, a failure too, changes nothing; after a rollback it does."""
    seen = []

    @app.task(retry=RetryPolicy(attempts=3, first=0.0))
    async def work(ctx: Context, n: int) -> str:
        async with ASYNC[library](database_url) as own:
            await own.execute(f"insert into written values ({n})")
            await ctx.complete("mine", on=own.on)
            with psycopg.connect(database_url) as other:
                seen.append(other.execute("select count(*) from mainspring.visit").fetchone())
            is_undone = ctx.attempt == 1 and n == 2
            await (own.rollback() if is_undone else own.commit())
        if is_undone:
            raise LookupError("once more")
        if n == 3:
            raise LookupError("too late")
        return "too late"

    async with app.worker(poll=0.05):
        handles = [await work.enqueue(n) for n in (1, 2, 3)]
        assert [await handle.result(timeout=30) for handle in handles] == ["mine"] * 3
    assert written() == [1, 2, 3]
    assert len(seen) == 4, "the second one ran twice"
    assert sorted(ends(database_url)) == [("done", '"mine"')] * 3 + [("retry", None)]


@pytest.mark.parametrize("library", SYNC)
async def test_plain_functions_can_do_so_too(
    app: Mainspring, database_url: str, written: Any, library: str
) -> None:
    if library.startswith("Django"):
        await asyncio.to_thread(configured, database_url)

    @app.task(retry=ONCE)
    def work(ctx: Context, n: int) -> str:
        with SYNC[library](database_url) as own:
            own.execute(f"insert into written values ({n})")
            ctx.complete_sync("mine", on=own.on)
            if n == 2:
                own.rollback()
                return "by its return"
            own.commit()
        return "too late"

    async with app.worker(poll=0.05):
        one, two = await work.enqueue(1), await work.enqueue(2)
        assert await one.result(timeout=30) == "mine"
        assert await two.result(timeout=30) == "by its return"
    assert written() == [1]


async def test_a_run_that_no_longer_counts_is_rolled_back(
    app: Mainspring, database_url: str, written: Any
) -> None:
    """T6: every write is fenced."""
    refused = []

    @app.task(retry=ONCE)
    async def work(ctx: Context) -> None:
        with psycopg.connect(database_url) as other:
            other.execute("delete from mainspring.visit")
        try:
            async with await psycopg.AsyncConnection.connect(database_url) as own:
                await own.execute("insert into written values (1)")
                await ctx.complete(on=own)
        except MainspringError as error:
            refused.append(str(error))

    async with app.worker(poll=0.05) as worker:
        await work.enqueue()
        await worker.drained()
    assert "no longer counts" in refused[0]
    assert written() == []


async def test_what_cannot_be_is_said(
    app: Mainspring, database_url: str, mainspring_server: TestServer
) -> None:
    said = []

    async def refused(call: Any) -> None:
        with pytest.raises((InvalidSetting, MainspringError)) as found:
            await call
        said.append(str(found.value))

    @app.task
    async def step(ctx: Context) -> None:
        await refused(ctx.complete(on=None))

    @app.process
    async def process() -> Any:
        return step()

    @app.task
    async def work(ctx: Context) -> None:
        await refused(ctx.complete(on=5))
        with mainspring_server.database() as other:
            async with await psycopg.AsyncConnection.connect(other) as own:
                await refused(ctx.complete(on=own))
        async with ASYNC["psycopg"](database_url) as own:
            await ctx.complete(on=own.on)
            await own.commit()

    async with app.worker(poll=0.05):
        await (await work.enqueue()).result(timeout=30)
        await (await process.start()).result(timeout=30)
    assert "on= takes an asyncpg Connection, a psycopg AsyncConnection" in said[0]
    assert "another installation" in said[1]
    assert "runs as a step of a process, which ctx.transaction() completes" in said[2]
