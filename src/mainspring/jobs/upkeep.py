"""Upkeep: history's days are made ahead and dropped by age, notes of dead workers forgotten.

Any worker may do it; a lock lets one at a time. A day that cannot be made (its rows are already in
the catch-all partition) is left there: nothing is lost, and it is deleted by age.
"""

from __future__ import annotations

import logging
from datetime import date
from typing import NamedTuple

import asyncpg

from mainspring.db.database import Connection, Database
from mainspring.errors import MissingRights
from mainspring.jobs.statements import SQL
from mainspring.kernel import KERNEL_SQL

log = logging.getLogger("mainspring")
DAYS_AHEAD = 7
AUDIT_DAYS = 400  # more than a year: an auditor comes once a year


class MissingDay(NamedTuple):
    """A day that history lacks, in one of its tables; `has_none`: it has no day at all yet."""

    day: date
    name: str
    parent: str
    has_none: bool


async def keep_up(database: Database, connection: Connection, *, days: int) -> None:
    """One round of all of it."""
    try:
        for missing in await connection.rows(SQL["keep_days"], MissingDay, ahead=DAYS_AHEAD):
            await _make_day(connection, missing)
        for name in await connection.rows(SQL["old_days"], str, keep=days):
            await _drop_day(connection, name)
    except asyncpg.InsufficientPrivilegeError as error:
        raise MissingRights(
            f"this role may not make or drop history's days: {error}; mainspring rights worker ROLE prints "
            "the grants of a worker"
        ) from None
    await connection.run(SQL["delete_old_history"], keep=days)
    await connection.run(SQL["delete_old_orders"], keep=AUDIT_DAYS)
    await connection.run(KERNEL_SQL["forget_reach"])


async def _make_day(connection: Connection, missing: MissingDay) -> None:
    """The day belongs to the schema's owner. Another upkeep may have the lock: then that one makes it."""
    day = missing.day.isoformat()
    try:
        async with connection.atomic():
            await connection.run(SQL["make_day"], parent=missing.parent, day=missing.day)
    except (asyncpg.CheckViolationError, asyncpg.LockNotAvailableError) as error:
        log.info("history.day_not_made", extra={"day": day, "error": str(error)})


async def _drop_day(connection: Connection, name: str) -> None:
    try:
        async with connection.atomic():
            done = await connection.one(SQL["drop_day"], bool, name=name)
        if done:
            log.info("history.day_dropped", extra={"day": name})
    except asyncpg.LockNotAvailableError:
        log.info("history.day_in_use", extra={"day": name})
