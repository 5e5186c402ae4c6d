"""The schema made or upgraded in a caller's transaction: by a migration of Alembic's or of Django's.

It is the script that `mainspring migrate --sql` prints, from where the schema is, without a transaction of
its own. Nothing is tried again: what stands in its way fails the caller's migration, which is run again.
"""

from __future__ import annotations

from typing import LiteralString

import asyncpg
import psycopg

from mainspring.db.caller import SyncCaller, Verb
from mainspring.db.caller.drivers import Driver
from mainspring.db.caller.from_sqlalchemy import RunAsync, async_behind, is_sync
from mainspring.db.caller.tx_on import sync_driver_of
from mainspring.db.schema.migrate import body, migrations, refuse_newer
from mainspring.errors import MigrationFailed

_IS_THERE = "select to_regclass('mainspring.migration') is not null"
_NEWEST = "select coalesce(max(number), 0) from mainspring.migration"
_AFTER = """
set local statement_timeout to default;
set local lock_timeout to default;
"""


def migrate_on(on: SyncCaller) -> list[int]:
    """Bring the schema up to date; answers the numbers that were applied now."""
    run_async: RunAsync[list[int]] | None = async_behind(on) if is_sync(on) else None
    try:
        if run_async is not None:
            return run_async(_applied_async)
        driver = sync_driver_of(on, Verb("migrate_sync"))
        with psycopg.Cursor(driver, row_factory=psycopg.rows.scalar_row) as cursor:
            newest = 0
            if cursor.execute(_IS_THERE).fetchone():
                newest = int(cursor.execute(_NEWEST).fetchone() or 0)
            cursor.execute(_text(newest))
            return _numbers(newest)
    except (psycopg.Error, asyncpg.PostgresError) as error:
        raise MigrationFailed(f"your transaction has failed, roll it back: {error}") from error


async def _applied_async(driver: Driver) -> list[int]:
    assert not isinstance(driver, psycopg.Connection)
    newest = 0
    if isinstance(driver, psycopg.AsyncConnection):
        async with psycopg.AsyncCursor(driver, row_factory=psycopg.rows.scalar_row) as cursor:
            if await (await cursor.execute(_IS_THERE)).fetchone():
                newest = int(await (await cursor.execute(_NEWEST)).fetchone() or 0)
            await cursor.execute(_text(newest))
            return _numbers(newest)
    if await driver.fetchval(_IS_THERE):
        newest = await driver.fetchval(_NEWEST)
    await driver.execute(_text(newest))
    return _numbers(newest)


def _text(newest: int) -> LiteralString:
    refuse_newer(newest)
    return body(newest) + _AFTER  # our own files and a number


def _numbers(newest: int) -> list[int]:
    return [migration.number for migration in migrations() if migration.number > newest]
