"""The short form of settling: results of calls of their own, which change nothing but their visit. No I/O.

What it does not find as it was handed out is judged by settling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.db.sql import Steps, numbers, one, quoted, texts
from mainspring.kernel import KERNEL_SQL
from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.remote.settling import Settling, stored_result
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.sealing import Sealing

BUNDLE_LEAST, BUNDLE_PAYLOAD = (
    250,
    2_000,
)  # as a worker's results share rows of history (kernel/tuning.py)


def is_plain(item: Settling) -> bool:
    """Whether it is a result of a call of its own, and nothing more."""
    answer = item.answer
    return (
        not item.ticket.process_id
        and isinstance(answer, Decision)
        and answer == Decision(result=answer.result)
        and validate(answer, ()) is None
    )


class AnswersBegun(NamedTuple):
    """A row of begin_answers.sql."""

    now: float
    bundles: bool
    lock_timeout: str


class SettledDone(NamedTuple):
    """A row of settle_done.sql: how many were settled, and their runs if not all were."""

    settled: int
    runs: list[int] | None


class DoneRow(NamedTuple):
    """A run that is done; its visit lay at this address."""

    version: int
    address: str
    run: int
    started: float
    seconds: float
    result: str | None


def plain_steps(items: Sequence[tuple[Settling, str]], sealing: Sealing | None) -> Steps[set[int]]:
    """Settle results alone, as a worker settles its own: each visit is found where it lay when it was
    handed out, if it has its version still. Answers the runs that were settled; what is left is judged."""
    begun = yield from one(SQL["begin_answers"], AnswersBegun)
    by_worker: dict[UUID, list[DoneRow]] = {}
    for item, address in items:
        assert isinstance(item.answer, Decision)
        ticket, result = item.ticket, stored_result(item.answer)
        if result is not None and sealing is not None:
            result = sealing.result(result)
        took = max(0.0, begun.now - ticket.started)
        row = DoneRow(ticket.version, address, ticket.run, ticket.started, took, result)
        by_worker.setdefault(item.worker_id, []).append(row)
    settled: set[int] = set()
    for worker_id, done in by_worker.items():
        values = done_values(done, worker_id, bundles=begun.bundles)
        found = yield from one(KERNEL_SQL["settle_done"], SettledDone, **values)
        settled.update(
            [row.run for row in done] if found.settled == len(done) else found.runs or ()
        )
    return settled


def done_values(batch: list[DoneRow], worker_id: UUID, *, bundles: bool) -> dict[str, object]:
    """The arguments of settle_done.sql, in the order of versions. `bundles`: whether all workers find what
    is in bundles of history."""
    batch = sorted(batch)
    results = [row.result for row in batch]
    return {
        "addresses": quoted([row.address for row in batch]),
        "versions": numbers([row.version for row in batch]),
        "runs": numbers([row.run for row in batch]),
        "started": numbers([int(row.started * 1e6) for row in batch]),
        "took": numbers([int(row.seconds * 1e6) for row in batch]),
        "results": texts(results) if any(results) else None,
        "worker_id": worker_id,
        "count": len(batch),
        "bundle_from": BUNDLE_LEAST if bundles and len(batch) >= BUNDLE_LEAST else None,
        "payload_most": BUNDLE_PAYLOAD,
    }
