"""The short form of settling: results of calls of their own, which change nothing but their visit. No I/O.

What it does not find as it was handed out is judged by settling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.db.sql import Steps, one
from mainspring.kernel import KERNEL_SQL, DoneAnswer, DoneRow, done_row_values
from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.remote.settling import Settling, stored_result
from mainspring.processes.statements import SQL


def is_plain(item: Settling) -> bool:
    """Whether it is a result of a call of its own, and nothing more."""
    answer = item.answer
    return (
        not item.ticket.process_id
        and isinstance(answer, Decision)
        and answer == Decision(result=answer.result)
        and validate(answer, ()) is None
    )


class Begun(NamedTuple):
    """A row of begin_answers.sql."""

    now: float
    bundles: bool
    lock_timeout: str


def plain_steps(items: Sequence[tuple[Settling, str]]) -> Steps[set[int]]:
    """Settle results alone, as a worker settles its own: each visit is found where it lay when it was
    handed out, if it has its version still. Answers the runs that were settled; what is left is judged."""
    begun = yield from one(SQL["begin_answers"], Begun)
    by_worker: dict[UUID, list[DoneRow]] = {}
    for item, address in items:
        assert isinstance(item.answer, Decision)
        ticket, result = item.ticket, stored_result(item.answer)
        took = max(0.0, begun.now - ticket.started)
        row = DoneRow(ticket.version, address, ticket.run, ticket.started, took, result)
        by_worker.setdefault(item.worker_id, []).append(row)
    settled: set[int] = set()
    for worker_id, done in by_worker.items():
        values = done_row_values(done, worker_id, bundles=begun.bundles)
        found = yield from one(KERNEL_SQL["settle_done"], DoneAnswer, **values)
        settled.update(
            [row.run for row in done] if found.settled == len(done) else found.runs or ()
        )
    return settled
