"""Retention: processes that ended long ago are thinned, as old as history is kept.

Their tasks, edges, scopes and signals go. Of a process whose id a user chose the row stays, so that the
same id never starts twice; nameless ones go altogether.
"""

from __future__ import annotations

import logging

from mainspring.db.database import Connection, Database
from mainspring.processes.statements import SQL

log = logging.getLogger("mainspring")
# Thinned in one transaction: a wide process may have ten thousand tasks.
BATCH = 200


async def thin(database: Database, connection: Connection, *, days: int) -> int:
    """Thin all that is old; returns how many processes."""
    total = 0
    while True:
        count = await connection.one(SQL["thin_processes"], int, days=days, limit=BATCH)
        total += count
        if count < BATCH:
            break
    if total:
        log.info("process.thinned", extra={"processes": total, "days": days})
    return total
