"""Locking the visits of runs: what a layer does first when it writes more than a settle.

No write of a layer may stand without its visit. So the visits are locked before anything is
written, and runs whose visit is gone or somebody else's are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run

_encode = msgspec.json.Encoder().encode


def lock_values(runs: Sequence[Run]) -> dict[str, Any]:
    """The parameters of lock_visits.sql: encoded whole, as those of settle.sql."""
    return {
        "shards": _array([run.visit.shard for run in runs]),
        "keys": _encode([run.visit.key for run in runs]).decode(),
        "queues": _encode([run.visit.queue for run in runs]).decode(),
        "ids": "{" + ",".join([str(run.visit.id) for run in runs]) + "}",
        "versions": _array([run.visit.version for run in runs]),
        "runs": _array([run.token for run in runs]),
        "any_pass": _array([run.settings.any_pass for run in runs]),
    }


def find_values(runs: Sequence[Run]) -> dict[str, Any]:
    """The parameters of find_visits.sql."""
    return {
        "shards": [run.visit.shard for run in runs],
        "keys": [run.visit.key for run in runs],
        "queues": [run.visit.queue for run in runs],
    }


def _array(values: Sequence[int]) -> str:
    return "{" + _encode(values).decode()[1:-1] + "}"


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
