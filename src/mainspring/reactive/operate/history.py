"""Past runs of a reactive task, by the name that people know: history has them under its pool's queue."""

from __future__ import annotations

from dataclasses import replace

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.operate import HistoryFilter, HistoryPosition, PastRun, search_history
from mainspring.reactive.statements import SQL


async def run_queues(database: Database, tx: Tx, task: str) -> list[str]:
    """The queues that may have had runs of a reactive task; none if there is no such task."""
    return await tx.rows(SQL["list_run_queues"], str, task=task)


async def search_past(
    database: Database,
    tx: Tx,
    wanted: HistoryFilter,
    *,
    limit: int = 100,
    before: HistoryPosition | None = None,
) -> list[PastRun]:
    """Search history; a queue may be named by a reactive task, whose runs then come too."""
    parts = [wanted]
    if (task := wanted.queue) is not None and wanted.key in (None, task):
        for queue in await run_queues(database, tx, task):
            parts.append(replace(wanted, queue=queue, key=task))
    found: list[PastRun] = []
    for part in parts:
        found += await search_history(database, tx, part, limit=limit, before=before)
    if len(parts) > 1:
        found.sort(key=lambda past: (past.ended_at, past.run), reverse=True)
    return found[:limit]
