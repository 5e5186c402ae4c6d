"""Retention of one task: its results and its history go earlier than those of others.

Any worker's upkeep does it, by the rules in the database, some rows at a time; each batch is a
transaction. One that dies in between has dropped what it has, and the next goes on. Results are looked for
where the last round ended, and once a day from the beginning: one may be written long after its run.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.db.sql import as_rows
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.tasks.declare.task import TaskSettings
from mainspring.tasks.statements import SQL

BATCH = 2_000  # runs; of a bundle each has up to a thousand
BUNDLES = 20


class RetentionRow(NamedTuple):
    """A row of list_retention.sql."""

    queue: str
    keep_result: float | None  # seconds
    keep_history: float | None
    dropped_until: datetime
    dropped_run: int


class DroppedRuns(NamedTuple):
    """A row of drop_history.sql."""

    runs: int
    bundles: int


class DroppedResults(NamedTuple):
    """A row of drop_results.sql."""

    seen: int
    since: datetime | None
    run: int | None


def check_keep(setting: str, given: object) -> float | None:
    """A time for which something is kept, in seconds."""
    value = given.total_seconds() if isinstance(given, timedelta) else given
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 1e10:
        raise InvalidSetting(
            f"{setting} must be 1 second or more (a number, or a timedelta), got {given!r}; a result that "
            "nobody is to have is not returned"
        )
    return float(value)


async def keep_retention(tx: Tx, declared: Collection[TaskSettings]) -> None:
    """Make the rules of these tasks what the code declares."""
    rules = [
        {"queue": s.name, "keep_result": s.keep_result, "keep_history": s.keep_history}
        for s in declared
        if s.keep_result is not None or s.keep_history is not None
    ]
    await tx.run(SQL["keep_retention"], rules=as_rows(rules), queues=[s.name for s in declared])


async def drop_old(database: Database, connection: Connection, *, days: int) -> None:
    """A chore: drop what is older than its queue says."""
    for row in await connection.rows(SQL["list_retention"], RetentionRow):
        if row.keep_history is not None:
            await _drop_history(connection, row.queue, row.keep_history)
        if row.keep_result is not None:
            await _drop_results(connection, row, row.keep_result)


async def _drop_history(connection: Connection, queue: str, keep: float) -> None:
    found = DroppedRuns(BATCH, BUNDLES)
    while found.runs == BATCH or found.bundles == BUNDLES:
        values = {"queue": queue, "keep": keep, "most": BATCH, "most_bundles": BUNDLES}
        found = await connection.one(SQL["drop_history"], DroppedRuns, **values)


async def _drop_results(connection: Connection, row: RetentionRow, keep: float) -> None:
    since, run, seen = row.dropped_until, row.dropped_run, BATCH
    while seen == BATCH:
        values = {"queue": row.queue, "keep": keep, "since": since, "run": run, "most": BATCH}
        found = await connection.one(SQL["drop_results"], DroppedResults, **values)
        seen, since, run = found.seen, found.since or since, found.run or run
