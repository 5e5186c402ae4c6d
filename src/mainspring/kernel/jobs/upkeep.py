"""Upkeep: history's days are made ahead and dropped by age, notes of dead workers forgotten.

Any worker may do it; a lock lets one at a time. A day that cannot be made (its rows are already in
the catch-all partition) is left there: nothing is lost, and it is deleted by age.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any

import asyncpg

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.errors import MissingRights
from mainspring.kernel.layer import Chore
from mainspring.kernel.query import ask
from mainspring.kernel.statements import SQL

log = logging.getLogger("mainspring")
DAYS_AHEAD = 7
EVERY_SECONDS = 600.0


async def run(database: Database, *, history_days: int, chores: Sequence[Chore] = ()) -> None:
    """Look after the tables for ever; on a connection of its own while it does, for it may take long."""
    line = Line(database, "upkeep")

    async def keep_days(database: Database, connection: Any, *, days: int) -> None:
        await turn(database, connection, history_days=days)

    while True:
        # Each by itself: where this role may not make days, or one fails, the others are done.
        for chore in (keep_days, *chores):
            try:
                await chore(database, await line.get(), days=history_days)
            except BaseException as error:
                await line.lost()
                if not isinstance(error, Exception):
                    raise
                log.warning("upkeep.waiting", extra={"error": str(error)})
        await line.lost()
        await asyncio.sleep(EVERY_SECONDS * random.uniform(0.8, 1.2))


async def turn(database: Database, connection: Any, *, history_days: int) -> None:
    """One round of all of it."""
    missing = await database.fetch(connection, SQL["keep_days"], DAYS_AHEAD)
    try:
        for row in missing:
            await _make_day(database, connection, row)
        for row in await database.fetch(connection, SQL["old_days"], history_days):
            await _drop_day(database, connection, row["name"])
    except asyncpg.InsufficientPrivilegeError as error:
        raise MissingRights(
            f"this role may not make or drop history's days: {error}; mainspring rights worker ROLE prints "
            "the grants of a worker"
        ) from None
    await database.fetch(connection, SQL["delete_old_history"], history_days)
    await database.fetch(connection, SQL["forget_reach"])


async def _make_day(database: Database, connection: Any, missing: Any) -> None:
    """The day belongs to the schema's owner. Another upkeep may have the lock: then that one makes it."""
    day = missing["day"].isoformat()
    try:
        async with database.transaction(connection):
            await ask(
                database, connection, "make_day", parent=missing["parent"], day=missing["day"]
            )
    except (asyncpg.CheckViolationError, asyncpg.LockNotAvailableError) as error:
        log.info("history.day_not_made", extra={"day": day, "error": str(error)})


async def _drop_day(database: Database, connection: Any, name: str) -> None:
    try:
        async with database.transaction(connection):
            (row,) = await ask(database, connection, "drop_day", name=name)
        if row["done"]:
            log.info("history.day_dropped", extra={"day": name})
    except asyncpg.LockNotAvailableError:
        log.info("history.day_in_use", extra={"day": name})
