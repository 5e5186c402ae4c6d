"""The invariants (`mainspring.violation`), looked at within a time that an operator waits.

A full look reads every visit and every run of history, which takes minutes at size. So a look is a page
of visits after another, from a place at random on, until its time is over, and today's history. It says
how much it has seen. `exact` looks at everything, however long that takes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from mainspring.db.database import Database
from mainspring.kernel.query import ask

MOST = 20  # what is broken is broken in many places: a few of each tell
PAGE = 20_000
HISTORY_BYTES = 50_000_000  # of a smaller history all days are looked at
LOOK_SECONDS = 0.4  # for the visits, for history, and for the rest
_EXACT_SECONDS = 3600.0


@dataclass(slots=True)
class InvariantReport:
    """What was looked at and what was found broken, as (rule, detail)."""

    found: list[tuple[str, str]] = field(default_factory=list)
    visits: int = 0  # how many were looked at
    about: int = 0  # how many there are, by the server's estimate
    unseen: list[str] = field(default_factory=list)  # what was not looked at, or not all of it


async def look(database: Database, connection: Any, *, exact: bool = False) -> InvariantReport:
    """Look at the invariants; of all there is if `exact`, else for a second or so."""
    seen = InvariantReport()
    seconds = _EXACT_SECONDS if exact else LOOK_SECONDS
    picked = (await ask(database, connection, "pick_visit"))[0]
    seen.about = picked["about"]
    begin = picked["key"] if seen.about > PAGE and not exact else None
    await _look_at_visits(database, connection, seen, begin, seconds)
    day = None
    if picked["history_bytes"] > HISTORY_BYTES and not exact:
        day = (await ask(database, connection, "read_clock"))[0]["now"].date()
    rows = await _limited(database, connection, seconds, "list_history_violations", day=day)
    if rows is None or day is not None:
        seen.unseen.append("history" if rows is None else "history before today")
    others = await _limited(database, connection, seconds, "list_violations")
    if others is None:
        seen.unseen.append("stages, reactive tasks and leases")
    seen.found += [(row["rule"], row["detail"]) for row in [*(rows or ()), *(others or ())]]
    return seen


async def _look_at_visits(
    database: Database, connection: Any, seen: InvariantReport, begin: str | None, seconds: float
) -> None:
    over_at = time.monotonic() + seconds
    async for after, upto, count in _pages(database, connection, begin):
        if (seen.visits and time.monotonic() > over_at) or len(seen.found) >= MOST:
            seen.unseen.append("some visits")
            return
        rows = await _limited(
            database, connection, seconds, "list_visit_violations", after=after, upto=upto
        )
        if rows is None:
            seen.unseen.append("some visits")
            return
        seen.visits += count
        seen.found += [(row["rule"], row["detail"]) for row in rows]


async def _pages(
    database: Database, connection: Any, begin: str | None
) -> AsyncIterator[tuple[str | None, str | None, int]]:
    """Pages as (after, up to, count): from a key to the end, then from the start to that key."""
    for first, end in ((begin, None), (None, begin)) if begin is not None else ((None, None),):
        after: str | None = first
        while True:
            page = (await ask(database, connection, "page_visits", after=after, most=PAGE))[0]
            last = page["last"]
            past_end = last is None or (end is not None and last >= end)
            if page["count"]:
                yield after, end if past_end else last, page["count"]
            if past_end:
                break
            after = last


async def _limited(
    database: Database, connection: Any, seconds: float, name: str, **values: Any
) -> list[Any] | None:
    """The rows of a statement, or None where it takes longer."""
    try:
        async with database.transaction(connection):
            await ask(database, connection, "limit_time", milliseconds=str(int(seconds * 1000)))
            return await ask(database, connection, name, most=MOST, **values)
    except asyncpg.QueryCanceledError:
        return None
