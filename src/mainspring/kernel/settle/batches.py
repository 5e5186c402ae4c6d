"""What a settle says and is told: arguments and answers of settle.sql, its short form settle_done.sql, and
lock_visits.sql.

The settler sends many runs at once; a task's own transaction and an actor elsewhere send one. A layer that
writes more than a settle locks the visits first: no write of a layer may stand without its visit. Runs
whose visit is gone or somebody else's are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.sql import Record, Steps, numbers, quoted, rows, texts, words
from mainspring.db.tx import Tx
from mainspring.failure_text import ERROR_BYTES, clean_text, fingerprint_of
from mainspring.kernel.outcome import (
    DONE,
    Again,
    Cancelled,
    Done,
    Expired,
    Failed,
    Outcome,
    Parked,
    Postponed,
    Retry,
    Writer,
)
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run

_encode = msgspec.json.Encoder().encode
# The last by a transaction of their own; known only when they are sent again, they are judged as others.
PLAIN, OTHER, SETTLED = "plain", "other", "settled"
BatchKind = Writer | str  # of results that are settled together
_version = attrgetter("visit.version")


class SettleAnswer(NamedTuple):
    """For a run by its number; number 0 says how many were settled now."""

    n: int
    answer: str


class DoneAnswer(NamedTuple):
    """How many were settled, and their tokens if not all were."""

    settled: int
    runs: list[int] | None


def in_order(rows: Sequence[Record], count: int) -> list[str]:
    """The answers by run: all are settled but those that are named."""
    answers = ["settled"] * count
    settled = 0
    for n, answer in rows:
        if n == 0:
            settled = int(answer)
        else:
            answers[n - 1] = answer
    if settled + len(rows) - 1 != count:
        raise RuntimeError(f"a settle of {count} runs was answered for {settled + len(rows) - 1}")
    return answers


def settle_arguments(batch: Sequence[Run], worker_id: object) -> Sequence[object]:
    """The arguments of settle.sql, in their order."""
    return SQL["settle"].arguments(settle_values(batch, worker_id))


def settle_values(batch: Sequence[Run], worker_id: object) -> dict[str, object]:
    """The arguments of settle.sql."""
    visits = [run.visit for run in batch]
    results = [getattr(run.outcome, "result", None) for run in batch]
    details = [_detail(run) for run in batch]
    ids = [_id(run) for run in batch]
    any_pass = [run.settings is not None and run.settings.any_pass for run in batch]
    return {
        "shards": numbers([visit.shard for visit in visits]),
        "keys": texts([visit.key for visit in visits]),
        "queues": texts([visit.queue for visit in visits]),
        "versions": numbers([visit.version for visit in visits]),
        "runs": numbers([run.token for run in batch]),
        "started": numbers([run.started for run in batch]),
        "seconds": numbers([run.seconds for run in batch]),
        "any_pass": numbers(any_pass) if any(any_pass) else None,
        "results": texts(results) if any(results) else None,
        "details": texts(details) if any(details) else None,
        "ids": words([id or "null" for id in ids]) if any(ids) else None,
        "worker_id": worker_id,
    }


def is_plain(run: Run) -> bool:
    """Whether settle_done.sql can settle it: done, nothing more to say of it, its row where it was read."""
    settings: QueueSettings | None = run.settings
    return (
        type(run.outcome) is Done
        and not run.held
        and not run.strayed
        and run.visit.address is not None
        and (settings is None or not (settings.any_pass or settings.quiet or settings.searchable))
    )


def kind_of(run: Run) -> BatchKind:
    """With which others a result is settled."""
    if run.settled:
        return SETTLED
    outcome = run.outcome
    form = type(outcome)
    if (form is Done or form is Again) and outcome.writer is not None:
        writer: Writer = outcome.writer
        return writer
    return PLAIN if is_plain(run) else OTHER


def by_kind(runs: Sequence[Run]) -> Iterable[tuple[BatchKind, Sequence[Run]]]:
    """Runs as they are settled together. Those that followed each other in a slot are nearly all alike and
    plain, which is asked first: to find the kind of each would be a tenth of what a short run costs."""
    kind, settings = kind_of(runs[0]), runs[0].settings
    if len(runs) == 1:
        return [(kind, runs)]
    if kind is PLAIN and all(
        run.outcome == DONE
        and run.settings is settings
        and not (run.settled or run.held or run.strayed)
        and run.visit.address is not None
        for run in runs
    ):
        return [(PLAIN, runs)]
    return [(kind, list(same)) for kind, same in groupby(runs, kind_of)]


def done_values(
    batch: Sequence[Run],
    worker_id: object,
    bundle_from: int | None = None,
    tuning: Tuning = DEFAULT,
) -> dict[str, object]:
    """The arguments of settle_done.sql, in the order of versions. Times as whole microseconds: the server
    reads them faster."""
    batch = sorted(batch, key=_version)
    visits = [run.visit for run in batch]
    results = [run.outcome.result for run in batch]
    return {
        "addresses": quoted([visit.address for visit in visits]),
        "versions": numbers([visit.version for visit in visits]),
        "runs": numbers([run.token for run in batch]),
        "started": numbers([int(run.started * 1e6) for run in batch]),
        "took": numbers([int(run.seconds * 1e6) for run in batch]),
        "results": texts(results) if any(results) else None,
        "worker_id": worker_id,
        "count": len(batch),
        "bundle_from": bundle_from,
        "payload_most": tuning.bundle_payload,
    }


def done_in_order(found: DoneAnswer, batch: Sequence[Run]) -> list[str]:
    """The answers of a short form by run. What it did not find is to be sent again, and judged."""
    if found.settled == len(batch):
        return ["settled"] * found.settled
    settled = set(found.runs or ())
    answers = []
    for run in batch:
        run.strayed = run.token not in settled
        answers.append("changed" if run.strayed else "settled")
    return answers


def _id(run: Run) -> str | None:
    """The visit's id, where its key may by now be another visit's: one of the user's, or a task's that was
    restarted. What is done under a fresh id has none of that: its version says all."""
    id = str(run.visit.id)
    return None if run.visit.key == id and type(run.outcome) is Done else id


def _detail(run: Run) -> str | None:
    """What settle.sql must know beyond "done" (None), as JSON."""
    outcome: Outcome = run.outcome
    settings: QueueSettings | None = run.settings
    searchable = settings.searchable if settings is not None else ()
    quiet = settings is not None and settings.quiet
    if type(outcome) is Done and not (searchable or quiet):
        return None
    # An update answers the new due time only, so the one that was read goes along for history.
    due_at = run.visit.due_at.isoformat()
    detail: dict[str, object] = {"was_due_at": due_at}
    if quiet:
        detail["quiet"] = True
    if searchable:
        detail["searchable"] = searchable_values(run.visit.payload, searchable)
    match outcome:
        case Done():
            detail["outcome"] = "done"
        case Again(at=at, after=after, payload=payload, error=error):
            detail |= {"outcome": "again", "due_at": _iso(at), "delay": after}
            if payload is not None:
                detail["payload"] = msgspec.Raw(payload.encode())
            if error is not None:
                detail["error"] = error
        case Retry(after=after, error_type=kind, error=error):
            detail |= {"outcome": "retry", "delay": after, "attempt": run.visit.attempt + 1}
            detail |= {"error_type": kind, "error": error}
        case Postponed(after=after, error=error, crash=crash):
            # As again, but what is counted stays, and history is told nothing.
            detail |= {"outcome": "again", "delay": after, "attempt": run.visit.attempt}
            detail |= {"error": error, "kept": True, "crash": crash, "quiet": True}
        case Parked(error_type=kind, error=error):
            detail |= {"outcome": "parked", "attempt": run.visit.attempt + 1, "error_type": kind}
            detail |= {"error": error, "fingerprint": fingerprint_of(run.visit.queue, kind, error)}
        case Failed(error_type=kind, error=error):
            detail |= {"outcome": "retry", "ends": True, "error_type": kind, "error": error}
        case Cancelled(error=error):
            detail |= {"outcome": "cancelled", "error": error}
        case Expired():
            detail |= {"outcome": "expired"}
    return _encode(detail).decode()


def searchable_values(payload: str, fields: Sequence[str]) -> list[str]:
    """'field=value' for each declared field that the payload has: what history is indexed by."""
    try:
        arguments = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return []
    if not isinstance(arguments, dict):
        return []
    found = []
    for field in fields:
        if field in arguments:
            value = arguments[field]
            text = value if isinstance(value, str) else _encode(value).decode()
            found.append(f"{field}={text}"[:500])
    return found


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def explained(kind: object, run: Run, error: Exception, outcome: Outcome) -> Outcome:
    """A failure in the words of who wrote, if they have any: the server's own name no run."""
    explain = getattr(kind, "explain", None)
    text = None if explain is None else explain(run, error)
    if text is None or not isinstance(outcome, Retry | Parked):
        return outcome
    return msgspec.structs.replace(
        outcome, error=clean_text(f"{outcome.error_type}: {text}", ERROR_BYTES)
    )


# -- locks


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
    others = [run for n, run in enumerate(runs) if n not in answers]
    rest = iter((yield from not_had(others)) if others else ())
    return [answers[n] if n in answers else next(rest) for n in range(len(runs))]


def not_had(runs: Sequence[Run]) -> Steps[list[str]]:
    """Of runs whose visits could not be locked: 'locked' by somebody, or 'gone'."""
    found = yield from rows(SQL["find_visits"], FoundVisit, **find_values(runs))
    there = {(visit.queue, visit.key) for visit in found}
    return ["locked" if (run.visit.queue, run.visit.key) in there else "gone" for run in runs]


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
