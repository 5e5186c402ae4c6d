"""Locking the visits of runs: what a layer does first when it writes more than a settle.

No write of a layer may stand without its visit. So the visits are locked before anything is
written, and runs whose visit is gone or somebody else's are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.db.sql import Steps, numbers, rows, texts, words
from mainspring.db.tx import Tx
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run


class FoundVisit(NamedTuple):
    queue: str
    key: str
    id: UUID


class LockedVisit(NamedTuple):
    n: int  # of the run, from 1
    answer: str


async def lock_visits(tx: Tx, runs: Sequence[Run]) -> list[str]:
    """How the visit of each run stands, locked until the transaction ends unless 'locked' or 'gone'.

    'same': as it was read. 'moved': offered again meanwhile, so it stays due when it is settled.
    'settled': by this run before, its answer was lost. 'locked': somebody has it, try again soon.
    'gone': the result counts for nothing.
    """
    return await tx.follow(lock_steps(runs))


def lock_steps(runs: Sequence[Run]) -> Steps[list[str]]:
    """The same as steps."""
    locked = yield from rows(SQL["lock_visits"], LockedVisit, **lock_values(runs))
    answers = {n - 1: answer for n, answer in locked}
    if len(answers) < len(runs):
        found = yield from rows(SQL["find_visits"], FoundVisit, **find_values(runs))
        there = {(visit.queue, visit.key) for visit in found}
        for n, run in enumerate(runs):
            is_there = (run.visit.queue, run.visit.key) in there
            answers.setdefault(n, "locked" if is_there else "gone")
    return [answers[n] for n in range(len(runs))]


def lock_values(runs: Sequence[Run]) -> dict[str, object]:
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


def find_values(runs: Sequence[Run]) -> dict[str, object]:
    """The arguments of find_visits.sql and lock_free.sql."""
    return {
        "shards": [run.visit.shard for run in runs],
        "keys": [run.visit.key for run in runs],
        "queues": [run.visit.queue for run in runs],
    }
