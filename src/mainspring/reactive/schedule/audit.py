"""Looking after reactive tasks: what must not be and what is old hourly, the missing each minute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.kernel import Again, Offer, Outcome, offer_visits
from mainspring.reactive.queues import ADMIT, CHECK, FIRST
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
KEY = "all"
EVERY_SECONDS = 3600.0
KEEP_DAYS = 30
RETIRE_SECONDS = 600.0


class Orphan(NamedTuple):
    """An admitted firing without a run visit."""

    task: str
    firing: int


class EndedOrphan(NamedTuple):
    """A task whose orphaned firing was ended."""

    task: str
    pool: str


class UndeclaredTask(NamedTuple):
    """A task that no living process declares, and whether that has been so for long enough."""

    task: str
    pool: str
    retired: bool


class Audit:
    """Serves the audit visit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, connection: Connection, keys: Sequence[str]) -> list[Outcome]:
        """End firings that nobody can run; drop what is old."""
        await end_orphans(self._database, connection)
        while await connection.one(SQL["forget_old"], int, days=KEEP_DAYS):
            pass
        return [Again(after=EVERY_SECONDS) for _ in keys]


async def end_orphans(database: Database, connection: Connection) -> list[str]:
    """End admitted firings without a run visit, seen twice: a defect, reported as one."""
    first = await connection.rows(SQL["find_orphans"], Orphan)
    if not first:
        return []
    again = {orphan.firing for orphan in await connection.rows(SQL["find_orphans"], Orphan)}
    found = [orphan for orphan in first if orphan.firing in again]
    async with connection.atomic():
        ended = await connection.rows(
            SQL["end_orphans"],
            EndedOrphan,
            tasks=[orphan.task for orphan in found],
            firings=[orphan.firing for orphan in found],
        )
        offers = [Offer(CHECK, orphan.task, None, FIRST) for orphan in ended]
        pools = sorted({orphan.pool for orphan in ended})
        offers += [Offer(ADMIT, pool, None, FIRST) for pool in pools]
        await offer_visits(database, connection, offers)
    for orphan in ended:
        log.error("reactive.orphan_ended", extra={"task": orphan.task})
    return [orphan.task for orphan in ended]


async def retire(
    database: Database, connection: Connection, *, living: float, after: float = RETIRE_SECONDS
) -> list[str]:
    """Retire tasks that no living process declares any more."""
    async with connection.atomic():
        rows = await connection.rows(SQL["retire"], UndeclaredTask, living=living, after=after)
        retired = [row for row in rows if row.retired]
        pools = sorted({row.pool for row in retired})
        await offer_visits(
            database, connection, [Offer(ADMIT, pool, None, FIRST) for pool in pools]
        )
    for row in retired:
        log.warning("reactive.retired", extra={"task": row.task})
    return [row.task for row in retired]
