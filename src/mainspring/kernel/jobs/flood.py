"""Floods: a role that only enqueues can fill a queue faster than anybody notices.

An operator bounds how many visits of a queue may wait. Workers count now and then, and flag the queue
when so many do; the functions that such a role calls read the flag with the queue's row. So nothing is
written for a call, and more than the bound may come in before the flag is seen.
"""

from __future__ import annotations

import asyncio
import logging
import random

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.kernel import clock
from mainspring.kernel.query import ask

log = logging.getLogger("mainspring")
EVERY_SECONDS = 2.0
REST = 50  # times as long as a count took: a long one must not become a worker's main work


async def run(database: Database, side: Line) -> None:
    """Look for ever. Any worker does it, for the queues of all pools."""
    while True:
        seconds = 0.0
        try:
            began = clock.local()
            async with side.lock:
                await mark(database, await side.get())
            seconds = clock.local() - began
        except Exception as error:
            log.warning("flood.waiting", extra={"error": str(error)})
            await side.lost()
        await asyncio.sleep(max(EVERY_SECONDS, REST * seconds) * random.uniform(0.8, 1.2))


async def mark(database: Database, connection: object) -> None:
    """One look at all queues that are bounded."""
    for row in await ask(database, connection, "mark_full"):
        event = "queue.full" if row["is_full"] else "queue.has_room"
        log.warning(event, extra={"queue": row["name"], "waiting_max": row["waiting_max"]})
