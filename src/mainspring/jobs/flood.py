"""Floods: a role that only enqueues can fill a queue faster than anybody notices.

An operator bounds how many visits of a queue may wait. Workers count now and then, and flag the queue
when so many do; the functions that such a role calls read the flag with the queue's row. So nothing is
written for a call, and more than the bound may come in before the flag is seen.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.jobs.statements import SQL

log = logging.getLogger("mainspring")


class BoundedQueue(NamedTuple):
    """A queue that an operator has bounded."""

    name: str
    waiting_max: int
    is_full: bool
    has_changed: bool  # its flag, just now


async def mark(database: Database, connection: Connection, *, days: int) -> bool:
    """One look at all queues that are bounded, of all pools; returns whether there are any. Any worker
    does it."""
    bounded = await connection.rows(SQL["mark_full"], BoundedQueue)
    for queue in bounded:
        if queue.has_changed:
            event = "queue.full" if queue.is_full else "queue.has_room"
            log.warning(event, extra={"queue": queue.name, "waiting_max": queue.waiting_max})
    return bool(bounded)
