"""No default of the database weakens a promise: the engine's transactions are READ COMMITTED."""

from __future__ import annotations

import psycopg
import pytest

from mainspring.db.connect import Database
from mainspring.db.pool import AsyncPool, SyncPool

ASKED = "select current_setting('transaction_isolation') as level"


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
