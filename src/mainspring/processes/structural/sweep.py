"""The sweep: open processes whose look was lost get one again (P2, P7).

A look is a visit, and all recovery of a process hangs on it. It goes only by hand, or where a restore
brought the process without it. So a process has a recovery time of its own: long after its look was
due, the visit is looked for. Any worker's upkeep does it, page by page, along an index; a process
that ends soon is never touched.
"""

from __future__ import annotations

import logging
from typing import Any

from mainspring.db.database import Database
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Steps, run_steps
from mainspring.processes.structural.change import request_look, request_steps
from mainspring.processes.structural.repair import note_values

log = logging.getLogger("mainspring")
# Seconds after its look was due, or after its start.
GRACE = 600.0
BATCH = 500
# In one turn of the upkeep: a backlog is left to the next.
MOST = 20_000
NO_LOOK = "an open process has no visit that looks at it"


async def sweep(database: Database, connection: Any, *, days: int) -> int:
    """Give every process a look that has lost it; answers how many had."""
    total = 0
    for _ in range(MOST // BATCH):
        async with database.transaction(connection):
            swept, found = await run_steps(connection, sweep_steps(database.shard_count))
        total += found
        if swept < BATCH:
            break
    return total


def sweep_steps(shard_count: int) -> Steps[Any]:
    """A page: how many were looked for, and how many had none."""
    values = {"grace": GRACE, "limit": BATCH}
    [(swept, lost, roots)] = yield SQL["sweep_processes"], values
    if lost:
        yield from request_steps([request_look(id) for id in lost], shard_count)
    for process_id, root in zip(lost, roots, strict=True):
        yield SQL["note_repairs"], note_values(process_id, [("I1", NO_LOOK, root)], "automatic")
        log.error("process.defect", extra={"process_id": process_id, "detail": NO_LOOK})
    return swept, len(lost)
