"""No default of the database weakens a promise: the engine's transactions are READ COMMITTED."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.db.shared import SharedConnections
from mainspring.db.sql import Statement
from mainspring.kernel.port import WorkerPort
from mainspring.processes.connections import Lines
from mainspring.processes.structural.change import run_alone

ASKED = "select current_setting('transaction_isolation') as level"
IN_FORCE = Statement(
    "in_force",
    "select current_setting('transaction_isolation'), current_setting('lock_timeout'),"
    " current_setting('enable_seqscan')",
)


@pytest.fixture
def strict_url(database_url: str) -> str:
    """A database whose transactions see one snapshot unless they say otherwise."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        text = f"alter database {name} set default_transaction_isolation = 'repeatable read'"
        connection.execute(text.encode())
    return database_url


@pytest.mark.parametrize("pooled", [False, True])
def test_plain_code_reads_what_is_committed(strict_url: str, pooled: bool) -> None:
    """T13: a part of a limit is counted after the queue's row is locked, not as it was before."""
    database = Database(strict_url, pooled=pooled)
    with database.connect_sync("heart") as connection, database.transaction_sync(connection):
        assert connection.execute(ASKED).fetchone() == ("read committed",)

    pool = SyncPool(database, most=1)
    with pool.connection() as connection:
        assert connection.execute(ASKED).fetchone() == ("read committed",)
    pool.close()


@pytest.mark.parametrize("pooled", [False, True])
async def test_async_code_reads_what_is_committed(strict_url: str, pooled: bool) -> None:
    database = Database(strict_url, pooled=pooled)
    connection = await database.connect("reader")
    async with database.transaction(connection):
        assert await connection.fetchval(ASKED) == "read committed"
    await connection.close()

    pool = AsyncPool(database, most=1)
    async with pool.connection() as connection:
        assert await connection.fetchval(ASKED) == "read committed"
    await pool.close()


@pytest.mark.parametrize("pooled", [False, True])
async def test_structural_changes_have_the_engines_settings(strict_url: str, pooled: bool) -> None:
    """T13, P13: behind a pooler too they see what is committed, and wait for nobody without end."""
    database = Database(strict_url, pooled=pooled)
    connections = SharedConnections(database, 1)
    lines = Lines(database, WorkerPort(connections))

    async with lines.transaction() as connection:
        [recovering] = await connection.fetch(IN_FORCE.numbered)

    def asking() -> Generator[Any, list[Any], Any]:
        rows = yield IN_FORCE, {}
        return rows[0]

    async with lines.connection() as connection:
        changing = await run_alone(connection, str(uuid4()), asking())
    await connections.close()

    wait = "200ms" if pooled else "2s"
    assert tuple(recovering) == tuple(changing) == ("read committed", wait, "off")


async def test_a_transaction_inside_of_another_keeps_its_settings(strict_url: str) -> None:
    pool = AsyncPool(Database(strict_url, pooled=True), most=1)
    async with pool.connection() as connection, pool.database.transaction(connection):
        assert await connection.fetchval("show lock_timeout") == "10s"
    await pool.close()
