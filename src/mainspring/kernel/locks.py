"""Locking the visits of runs: what a layer does first when it writes more than a settle.

No write of a layer may stand without its visit. So the visits are locked before anything is
written, and runs whose visit is gone or somebody else's are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run


async def lock_visits(connection: Any, runs: Sequence[Run]) -> list[str]:
    """How the visit of each run stands, locked until the transaction ends unless 'locked' or 'gone'.

    'same': as it was read. 'moved': offered again meanwhile, so it stays due when it is settled.
    'settled': by this run before, its answer was lost. 'locked': somebody has it, try again soon.
    'gone': the result counts for nothing.
    """
    values = {
        "shards": [run.visit.shard for run in runs],
        "keys": [run.visit.key for run in runs],
        "queues": [run.visit.queue for run in runs],
        "ids": [run.visit.id for run in runs],
        "versions": [run.visit.version for run in runs],
        "runs": [run.token for run in runs],
        "any_pass": [run.settings.any_pass for run in runs],
    }
    locking = SQL["lock_visits"]
    rows = await connection.fetch(locking.numbered, *locking.arguments(values))
    answers = {row["n"] - 1: row["answer"] for row in rows}
    if len(answers) < len(runs):
        finding = SQL["find_visits"]
        rows = await connection.fetch(finding.numbered, *finding.arguments(values))
        there = {(row["queue"], row["key"]) for row in rows}
        for n, run in enumerate(runs):
            found = (run.visit.queue, run.visit.key) in there
            answers.setdefault(n, "locked" if found else "gone")
    return [answers[n] for n in range(len(runs))]
