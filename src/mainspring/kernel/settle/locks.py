"""Locking the visits of runs: what a layer does first when it writes more than a settle.

No write of a layer may stand without its visit. So the visits are locked before anything is
written, and runs whose visit is gone or somebody else's are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.db.literals import numbers, texts, words
from mainspring.kernel.settle.batches import lock_arguments
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run


async def lock_visits(connection: Any, runs: Sequence[Run]) -> list[str]:
    """How the visit of each run stands, locked until the transaction ends unless 'locked' or 'gone'.

    'same': as it was read. 'moved': offered again meanwhile, so it stays due when it is settled.
    'settled': by this run before, its answer was lost. 'locked': somebody has it, try again soon.
    'gone': the result counts for nothing.
    """
    locking = SQL["lock_visits"]
    rows = await connection.fetch(locking.numbered, *locking.arguments(lock_values(runs)))
    answers = {row["n"] - 1: row["answer"] for row in rows}
    if len(answers) < len(runs):
        finding = SQL["find_visits"]
        rows = await connection.fetch(finding.numbered, *finding.arguments(find_values(runs)))
        there = {(row["queue"], row["key"]) for row in rows}
        for n, run in enumerate(runs):
            found = (run.visit.queue, run.visit.key) in there
            answers.setdefault(n, "locked" if found else "gone")
    return [answers[n] for n in range(len(runs))]


def lock_values(runs: Sequence[Run]) -> dict[str, Any]:
    """The arguments of lock_visits.sql."""
    visits = [run.visit for run in runs]
    return {
        "shards": numbers([visit.shard for visit in visits]),
        "keys": texts([visit.key for visit in visits]),
        "queues": texts([visit.queue for visit in visits]),
        "ids": words([str(visit.id) for visit in visits]),
        "versions": numbers([visit.version for visit in visits]),
        "runs": numbers([run.token for run in runs]),
        "any_pass": numbers([run.settings.any_pass for run in runs]),
    }


def find_values(runs: Sequence[Run]) -> dict[str, Any]:
    """The arguments of find_visits.sql."""
    shards, keys, queues = lock_arguments(runs)
    return {"shards": shards, "keys": keys, "queues": queues}
