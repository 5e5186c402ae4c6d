"""Breakers as an operator sees and orders them: which are not closed and why; open one, close one.

An order reaches every worker at once by a notification, and at its next beat without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.errors import NotFound
from mainspring.failure_text import clean_text
from mainspring.operate.queues import REASON_BYTES, ChangedQueue, check_end, unknown_queue
from mainspring.operate.statements import SQL
from mainspring.phrases import counted, instant

LISTED_MOST = 1000
BREAKERS = 5  # so many that are not closed are named at a glance


class OpenBreaker(msgspec.Struct, frozen=True):
    """A breaker that is not closed: of a queue, or of one of its groups."""

    queue: str
    group: str | None
    opened_at: datetime
    until: datetime
    is_open: bool  # else it is tried: `at_once` runs at a time
    at_once: int
    failures: int  # in a row
    reason: str | None

    @property
    def name(self) -> str:
        """Whose it is, in words."""
        of = f"queue {self.queue!r}"
        return of if self.group is None else f"group {self.group!r} of {of}"

    @property
    def text(self) -> str:
        """How it stands, in words."""
        runs = counted(self.at_once, "run")
        stands = (
            f"nothing of it starts until {instant(self.until)}"
            if self.is_open
            else f"it is tried again, {runs} at once"
        )
        failed = f" ({self.failures} in a row)" if self.failures else ""
        why = f": {self.reason}{failed}" if self.reason else failed
        return f"the breaker of {self.name} is open since {instant(self.opened_at)}, {stands}{why}"


async def list_breakers(
    tx: Tx, *, queue: str | None = None, limit: int = LISTED_MOST
) -> list[OpenBreaker]:
    """Breakers that are not closed, the oldest first."""
    return await tx.rows(SQL["list_breakers"], OpenBreaker, queue=queue, limit=limit)


async def open_breaker(
    database: Database,
    tx: Tx,
    queue: str,
    *,
    until: datetime,
    group: str | None = None,
    reason: str | None = None,
) -> None:
    """Start nothing of a queue or group until a time; then it is tried as after failures."""
    await check_end(tx, until, "a breaker's opening")
    reason = clean_text(reason or "an operator opened it", REASON_BYTES)
    values = {"name": queue, "group": group or "", "until": until, "reason": reason}
    if await tx.first(SQL["open_breaker"], ChangedQueue, **values) is None:
        raise await unknown_queue(database, tx, queue)


async def close_breaker(
    database: Database, tx: Tx, queue: str, *, group: str | None = None
) -> None:
    """Let a queue or group run on at once, as much as its limits allow."""
    if await tx.first(SQL["close_breaker"], ChangedQueue, name=queue, group=group or "") is None:
        of = f"queue {queue!r}" if group is None else f"group {group!r} of queue {queue!r}"
        raise NotFound(f"the breaker of {of} is not open")


def told(breakers: Sequence[OpenBreaker]) -> Iterator[tuple[str, str]]:
    """What the doctor says of those that are not closed, and what to do."""
    for breaker in breakers[:BREAKERS]:
        yield breaker.text, "see whom it calls; to go on at once: mainspring queues close-breaker"
    if (more := len(breakers) - BREAKERS) > 0:
        text = f"{counted(more, 'more breaker', 'is', 'are')} not closed"
        yield text, "mainspring queues breakers lists them"
