"""Connections that the parts of a worker share: within the budget, in order, each with its settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import psycopg
import pytest

from mainspring.db import shared
from mainspring.db.database import Connection, Database
from mainspring.db.shared import Haste, SharedConnections, SharedLine
from mainspring.errors import DatabaseUnavailable
from mainspring.testing import wait_until

OURS = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'test'"
)


@asynccontextmanager
async def sharing(url: str, most: int) -> AsyncIterator[SharedConnections]:
    connections = SharedConnections(Database(url), most)
    try:
        yield connections
    finally:
        await connections.close()


class User:
    """A part that has taken a connection, until it is told to give it back."""

    def __init__(self, line: SharedLine) -> None:
        self.connection: Connection | None = None
        self.done = asyncio.Event()
        self.task = asyncio.create_task(self._use(line))

    async def _use(self, line: SharedLine) -> None:
        async with line.use() as self.connection:
            await self.done.wait()

    async def has(self) -> Connection:
        await wait_until(lambda: self.connection is not None)
        assert self.connection is not None
        return self.connection

    async def end(self) -> None:
        self.done.set()
        await self.task


def opened(url: str) -> int:
    with psycopg.connect(url, autocommit=True, application_name="test") as connection:
        row = connection.execute(OURS).fetchone()
    assert row is not None
    return int(row[0])


async def test_no_more_are_opened_than_the_budget_and_who_waits_is_served_in_order(
    database_url: str,
) -> None:
    """T9"""
    async with sharing(database_url, 2) as connections:
        users = [User(connections.line(haste=Haste.FIRST)) for _ in range(5)]
        had = {await users[0].has(), await users[1].has()}
        assert opened(database_url) == 2
        for n in range(3):
            assert all(user.connection is None for user in users[n + 2 :])
            await users[n].end()
            assert await users[n + 2].has() in had
        for user in users[3:]:
            await user.end()


@pytest.mark.parametrize("most", [1, 2, 3, 4, 8])
async def test_long_ones_leave_one_to_short_ones_and_both_one_to_the_first(
    database_url: str, most: int
) -> None:
    async with sharing(database_url, most) as connections:
        long = [User(connections.line(haste=Haste.LONG)) for _ in range(most)]
        await long[0].has()
        short = User(connections.line())
        first = User(connections.line(haste=Haste.FIRST))
        if most >= 2:
            await short.has()
        if most >= 3:
            await first.has()
        for user in (*long, short, first):
            user.done.set()
        await asyncio.gather(*(user.task for user in (*long, short, first)))


async def test_who_has_work_keeps_its_connection(database_url: str) -> None:
    """What is prepared there stays so, and nobody sets anything anew."""
    async with sharing(database_url, 4) as connections:
        one, other = connections.line("one", settings={"lock_timeout": "50ms"}), connections.line()
        had: dict[SharedLine, set[Connection]] = {one: set(), other: set()}
        for n in range(20):
            for line in (one, other):
                async with line.use() as connection:
                    await connection.fetchval("select 1")
                    if n >= 2:  # it has shown that it has work
                        had[line].add(connection)
        assert [len(found) for found in had.values()] == [1, 1]


async def test_each_role_has_its_settings_and_its_name(database_url: str) -> None:
    async with sharing(database_url, 1) as connections:
        reader = connections.line("reader", settings={"synchronous_commit": "off"})
        side = connections.line()
        ask = "select current_setting('synchronous_commit'), current_setting('application_name')"
        for line, commit in ((side, "on"), (reader, "off"), (side, "on"), (reader, "off")):
            async with line.use() as connection:
                value, name = await connection.fetchrow(ask)
            assert (value, name.split(":")[1]) == (commit, line.role)
        assert opened(database_url) == 1


async def test_those_that_nobody_needs_are_closed_but_for_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "IDLE_SECONDS", 0.1)
    async with sharing(database_url, 4) as connections:
        users = [User(connections.line(haste=Haste.FIRST)) for _ in range(4)]
        for user in users:
            await user.has()
        for user in users:
            await user.end()
        await wait_until(lambda: opened(database_url) == 1)


async def test_a_part_that_works_now_and_then_shares_with_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "WARM_SECONDS", 0.0)
    async with sharing(database_url, 4) as connections:
        had = set()
        for role in ("reader", "side", "reader", "loader"):
            async with connections.line(role).use() as connection:
                had.add(connection)
        assert len(had) == 1


async def test_what_was_cancelled_or_failed_spoils_nothing(database_url: str) -> None:
    async with sharing(database_url, 1) as connections:
        line = connections.line()
        async with line.use() as connection:
            first = connection
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with line.use() as connection:
                await connection.fetchval("select 1/0")
        async with line.use() as connection:
            assert connection is first, "nothing is wrong with it"

        user = User(connections.line())
        await user.has()
        waiting = User(connections.line())
        await asyncio.sleep(0)
        waiting.task.cancel()
        user.task.cancel()
        await asyncio.wait([user.task, waiting.task])
        async with line.use() as connection:
            assert connection is not first, "something may be under way on it"
            assert await connection.fetchval("select 1") == 1


async def test_one_that_was_granted_to_a_cancelled_part_goes_to_the_next(database_url: str) -> None:
    async with sharing(database_url, 1) as connections:
        user = User(connections.line())
        await user.has()
        waiting, next_one = User(connections.line()), User(connections.line())
        await asyncio.sleep(0)
        user.done.set()
        await user.task  # granted in this moment, and not taken yet
        waiting.task.cancel()
        await next_one.has()
        await next_one.end()
        await asyncio.wait([waiting.task])


async def test_a_connection_that_was_ended_meanwhile_is_opened_anew(database_url: str) -> None:
    async with sharing(database_url, 1) as connections:
        async with connections.line("one").use() as connection:
            pid = connection.get_server_pid()
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", (pid,))
        async with connections.line("other").use() as connection:
            assert await connection.fetchval("select 1") == 1


async def test_nobody_waits_for_what_it_has_itself(database_url: str) -> None:
    async with sharing(database_url, 1) as connections, connections.line("one").use():
        with pytest.raises(RuntimeError, match="'other' would wait for a connection that it has"):
            async with connections.line("other").use():
                pass


async def test_where_the_server_is_full_those_that_are_open_are_shared(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Database.connect
    async with sharing(database_url, 4) as connections:
        user = User(connections.line())
        mine = await user.has()

        async def refused(self: Database, role: str) -> Connection:
            error = DatabaseUnavailable("too many clients")
            error.passes = True
            raise error

        monkeypatch.setattr(Database, "connect", refused)
        waiting = User(connections.line())
        await asyncio.sleep(0)
        await user.end()
        assert await waiting.has() is mine
        await waiting.end()
        monkeypatch.setattr(Database, "connect", connect)
