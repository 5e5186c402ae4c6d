"""Looking after reactive tasks: what must not be and what is old hourly, the missing each minute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel import Again, Offer, Outcome, offer_visits
from mainspring.reactive.queues import ADMIT, CHECK, FIRST
from mainspring.reactive.statements import ask

log = logging.getLogger("mainspring")
KEY = "all"
EVERY_SECONDS = 3600.0
KEEP_DAYS = 30
RETIRE_SECONDS = 600.0


class Audit:
    """Serves the audit visit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, connection: Any, keys: Sequence[str]) -> list[Outcome]:
        """End firings that nobody can run; drop what is old."""
        await end_orphans(self._database, connection)
        while (await ask(self._database, connection, "forget_old", days=KEEP_DAYS))[0]["gone"]:
            pass
        return [Again(after=EVERY_SECONDS) for _ in keys]


async def end_orphans(database: Database, connection: Any) -> list[str]:
    """End admitted firings without a run visit, seen twice: a defect, reported as one."""
    first = await ask(database, connection, "find_orphans")
    if not first:
        return []
    again = {row["firing"] for row in await ask(database, connection, "find_orphans")}
    found = [row for row in first if row["firing"] in again]
    async with database.transaction(connection):
        rows = await ask(
            database,
            connection,
            "end_orphans",
            tasks=[row["task"] for row in found],
            firings=[row["firing"] for row in found],
        )
        await _offer(database, connection, rows)
    for row in rows:
        log.error("reactive.orphan_ended", extra={"task": row["task"]})
    return [row["task"] for row in rows]


async def retire(
    database: Database, connection: Any, *, living: float, after: float = RETIRE_SECONDS
) -> list[str]:
    """Retire tasks that no living process declares any more."""
    async with database.transaction(connection):
        rows = await ask(database, connection, "retire", living=living, after=after)
        retired = [row for row in rows if row["retired"]]
        pools = sorted({row["pool"] for row in retired})
        await offer_visits(
            database, connection, [Offer(ADMIT, pool, None, FIRST) for pool in pools]
        )
    for row in retired:
        log.warning("reactive.retired", extra={"task": row["task"]})
    return [row["task"] for row in retired]


async def _offer(database: Database, connection: Any, rows: Sequence[Any]) -> None:
    offers = [Offer(CHECK, row["task"], None, FIRST) for row in rows]
    offers += [Offer(ADMIT, pool, None, FIRST) for pool in sorted({row["pool"] for row in rows})]
    await offer_visits(database, connection, offers)
