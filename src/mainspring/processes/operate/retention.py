"""Retention: processes that ended long ago are thinned, as old as history is kept.

Their tasks, edges, scopes and signals go. Of a process whose id a user chose the row stays, so that the
same id never starts twice; nameless ones go altogether.
"""

from __future__ import annotations

import logging
from typing import Any

from mainspring.db.database import Database
from mainspring.processes.statements import SQL

log = logging.getLogger("mainspring")
# Thinned in one transaction: a wide process may have ten thousand tasks.
BATCH = 200


async def thin(database: Database, connection: Any, *, days: int) -> int:
    """Thin all that is old; answers how many processes."""
    statement = SQL["thin_processes"]
    total = 0
    while True:
        values = statement.arguments({"days": days, "limit": BATCH})
        [row] = await database.fetch(connection, statement, *values)
        count = int(row[0])
        total += count
        if count < BATCH:
            break
    if total:
        log.info("process.thinned", extra={"processes": total, "days": days})
    return total
