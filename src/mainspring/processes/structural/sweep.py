"""The sweep: open processes whose look was lost get one again (P2, P7).

A look is a visit, and all recovery of a process hangs on it. It goes only by hand, or where a restore
brought the process without it. So a process has a recovery time of its own: long after its look was
due, the visit is looked for. Any worker's upkeep does it, page by page, along an index; a process
that ends soon is never touched.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from mainspring.db.database import Connection, Database
from mainspring.db.sql import Steps, one
from mainspring.processes.statements import SQL
from mainspring.processes.structural.repair import AUTOMATIC, ProcessViolation, note_repairs
from mainspring.processes.structural.request import request_look, request_steps

log = logging.getLogger("mainspring")
# Seconds after its look was due, or after its start.
GRACE = 600.0
BATCH = 500
# In one turn of the upkeep: a backlog is left to the next.
MOST = 20_000
NO_LOOK = "an open process has no visit that looks at it"


class SweptPage(NamedTuple):
    """A row of sweep_processes.sql."""

    swept: int  # how many were looked for
    lost: list[str]  # the processes that had no look
    roots: list[str]  # their first tasks


async def sweep(database: Database, connection: Connection, *, days: int) -> int:
    """Give every process a look that has lost it; answers how many had."""
    total = 0
    for _ in range(MOST // BATCH):
        async with connection.atomic():
            page = await connection.follow(sweep_steps(database.shard_count))
        total += len(page.lost)
        if page.swept < BATCH:
            break
    return total


def sweep_steps(shard_count: int) -> Steps[SweptPage]:
    """A page of processes; those that have lost their look get one."""
    page = yield from one(SQL["sweep_processes"], SweptPage, grace=GRACE, limit=BATCH)
    if page.lost:
        yield from request_steps([request_look(id) for id in page.lost], shard_count)
    for process_id, root in zip(page.lost, page.roots, strict=True):
        yield from note_repairs(process_id, [ProcessViolation("I1", NO_LOOK, root)], AUTOMATIC)
        log.error("process.defect", extra={"process_id": process_id, "detail": NO_LOOK})
    return page
