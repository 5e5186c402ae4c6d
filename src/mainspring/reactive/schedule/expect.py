"""Missed expectations: a task that says within what time it expects a success is reported (R14)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.db.tx import Tx
from mainspring.kernel import Again, Done, Outcome
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")


class Expectation(NamedTuple):
    """When a success of a task is due, whether it was missed just now, and when to look again."""

    task: str
    due_at: datetime
    newly_missed: bool
    again_at: datetime


async def expect(tx: Tx, tasks: Sequence[str]) -> list[Outcome]:
    """Serve expect visits: report the expected successes that did not come, once each."""
    names = sorted(set(tasks))
    # One without an expectation, paused or retired is offered again then.
    outcomes: dict[str, Outcome] = dict.fromkeys(names, Done())
    for row in await tx.rows(SQL["miss_expectations"], Expectation, tasks=names):
        if row.newly_missed:
            facts = {"task": row.task, "expected_by": str(row.due_at)}
            log.error("reactive.expectation_missed", extra=facts)
        outcomes[row.task] = Again(at=row.again_at)
    return [outcomes[task] for task in tasks]
