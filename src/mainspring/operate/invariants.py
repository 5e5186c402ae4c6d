"""The invariants (`mainspring.violation`), looked at within a time that an operator waits.

A full look reads every visit and every run of history, which takes minutes at size. So a look is a page
of visits after another, from a place at random on, until its time is over, and today's history. It says
how much it has seen. `exact` looks at everything, however long that takes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple

import asyncpg
import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.sql import Statement
from mainspring.kernel import read_now
from mainspring.operate.statements import SQL

MOST = 20  # what is broken is broken in many places: a few of each tell
PAGE = 20_000
HISTORY_BYTES = 50_000_000  # of a smaller history all days are looked at
LOOK_SECONDS = 0.4  # for the visits, for history, and for the rest
_EXACT_SECONDS = 3600.0


@dataclass(slots=True)
class InvariantReport:
    """What was looked at and what was found broken."""

    found: list[Violation] = field(default_factory=list)
    visits: int = 0  # how many were looked at
    about: int = 0  # how many there are, by the server's estimate
    unseen: list[str] = field(default_factory=list)  # what was not looked at, or not all of it


class PickedVisit(NamedTuple):
    """A visit at random, how many there are by the server's estimate, and how large history is."""

    key: str | None
    about: int
    history_bytes: int


class VisitPage(msgspec.Struct):
    """A page of visits: how many, and the last of them."""

    count: int
    last: str | None


class Violation(NamedTuple):
    """An invariant that is broken, and where."""

    rule: str
    detail: str


async def look(
    database: Database, connection: Connection, *, exact: bool = False
) -> InvariantReport:
    """Look at the invariants; of all there is if `exact`, else for a second or so."""
    seen = InvariantReport()
    seconds = _EXACT_SECONDS if exact else LOOK_SECONDS
    picked = await connection.one(SQL["pick_visit"], PickedVisit)
    seen.about = picked.about
    begin = picked.key if seen.about > PAGE and not exact else None
    await _look_at_visits(connection, seen, begin, seconds)
    day = None
    if picked.history_bytes > HISTORY_BYTES and not exact:
        day = (await read_now(connection)).date()
    found = await _limited(connection, seconds, SQL["list_history_violations"], day=day)
    if found is None or day is not None:
        seen.unseen.append("history" if found is None else "history before today")
    others = await _limited(connection, seconds, SQL["list_violations"])
    if others is None:
        seen.unseen.append("stages, reactive tasks and leases")
    seen.found += [*(found or ()), *(others or ())]
    return seen


async def _look_at_visits(
    connection: Connection, seen: InvariantReport, begin: str | None, seconds: float
) -> None:
    over_at = time.monotonic() + seconds
    async for after, upto, count in _pages(connection, begin):
        if (seen.visits and time.monotonic() > over_at) or len(seen.found) >= MOST:
            seen.unseen.append("some visits")
            return
        found = await _limited(
            connection, seconds, SQL["list_visit_violations"], after=after, upto=upto
        )
        if found is None:
            seen.unseen.append("some visits")
            return
        seen.visits += count
        seen.found += found


async def _pages(
    connection: Connection, begin: str | None
) -> AsyncIterator[tuple[str | None, str | None, int]]:
    """Pages as (after, up to, count): from a key to the end, then from the start to that key."""
    for first, end in ((begin, None), (None, begin)) if begin is not None else ((None, None),):
        after: str | None = first
        while True:
            page = await connection.one(SQL["page_visits"], VisitPage, after=after, most=PAGE)
            last = page.last
            past_end = last is None or (end is not None and last >= end)
            if page.count:
                yield after, end if past_end else last, page.count
            if past_end:
                break
            after = last


async def _limited(
    connection: Connection, seconds: float, statement: Statement, **values: object
) -> list[Violation] | None:
    """What a statement finds, or None where it takes longer."""
    try:
        async with connection.atomic():
            await connection.run(SQL["limit_time"], milliseconds=str(int(seconds * 1000)))
            return await connection.rows(statement, Violation, most=MOST, **values)
    except asyncpg.QueryCanceledError:
        return None
