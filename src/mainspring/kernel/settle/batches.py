"""What a settle says and is told: arguments and answers of settle.sql and its short forms, settle_done.sql
and settle_bundle.sql. Pure, no I/O.

The settler sends many runs at once; a task's own transaction and an actor elsewhere send one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from mainspring.db.literals import numbers, quoted, texts, words
from mainspring.kernel.outcome import (
    DONE,
    Again,
    Cancelled,
    Done,
    Expired,
    Failed,
    Outcome,
    Parked,
    Retry,
    Writer,
)
from mainspring.kernel.retry import ERROR_BYTES, clean_text
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run

_encode = msgspec.json.Encoder().encode
# The last by a transaction of their own; known only when they are sent again, they are judged as others.
PLAIN, OTHER, SETTLED = "plain", "other", "settled"
BatchKind = Writer | str  # of results that are settled together
_version = attrgetter("visit.version")
# From so many runs on a bundle costs less than a row each in a batch with others. Payloads longer than
# this (characters) have a row each: an array of them is made whole in the server's memory.
BUNDLE_LEAST = 250
_BUNDLE_PAYLOAD = 2_000
# Between the queue and the rest of what the runs of a bundle have in common; no queue's name contains it.
_UNIT = "\x1f"
_KIN = 8  # characters with which ids of the same 65 seconds begin


def lock_arguments(batch: Sequence[Run]) -> tuple[list[int], list[str], list[str]]:
    """Shards, keys and queues: the arguments of lock_free.sql and find_visits.sql."""
    return (
        [run.visit.shard for run in batch],
        [run.visit.key for run in batch],
        [run.visit.queue for run in batch],
    )


def in_order(rows: Sequence[Any], count: int) -> list[str]:
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


def settle_arguments(batch: Sequence[Run], worker_id: Any) -> Sequence[Any]:
    """The arguments of settle.sql."""
    visits = [run.visit for run in batch]
    results = [getattr(run.outcome, "result", None) for run in batch]
    details = [_detail(run) for run in batch]
    ids = [_id(run) for run in batch]
    any_pass = [run.settings is not None and run.settings.any_pass for run in batch]
    values = {
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
        "addresses": quoted([visit.address for visit in visits]),
        "worker_id": worker_id,
    }
    return SQL["settle"].arguments(values)


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
    if not is_plain(run):
        return OTHER
    visit = run.visit
    queue, priority, head = visit.queue, visit.priority, visit.key[:_KIN]
    return f"{queue}{_UNIT}{priority}{head}" if _joins(run, queue, priority, head) else PLAIN


def by_kind(runs: Sequence[Run]) -> Iterable[tuple[BatchKind, Sequence[Run]]]:
    """Runs as they are settled together. Those that followed each other in a slot are nearly all of one
    kin, which is asked first: to find the kind of each would be a tenth of what a short run costs."""
    first = runs[0].visit
    kind = kind_of(runs[0])
    if is_kin(kind):
        queue, priority, head = first.queue, first.priority, first.key[:_KIN]
        settings = runs[0].settings
        for run in runs:
            if run.settings is not settings or not _joins(run, queue, priority, head):
                break
        else:
            return [(kind, runs)]
    return [(kind, list(same)) for kind, same in groupby(runs, kind_of)]


def _joins(run: Run, queue: str, priority: int, head: str) -> bool:
    """Whether a run can be in a bundle of this queue and priority, with keys that begin so, as far as its
    queue's settings do not forbid it (`is_plain`)."""
    visit = run.visit
    return (
        run.outcome == DONE
        and not (run.settled or run.held or run.strayed or visit.attempt)
        and visit.address is not None
        and visit.group is None
        and visit.priority == priority
        and visit.queue == queue
        and visit.key.startswith(head)
        and len(visit.payload) <= _BUNDLE_PAYLOAD
        and str(visit.id) == visit.key
    )


def is_kin(kind: BatchKind) -> bool:
    """Whether runs of this kind can become a bundle of history together."""
    return isinstance(kind, str) and _UNIT in kind


def short_form(kind: BatchKind, *, bundled: bool) -> str | None:
    """The statement that settles runs of a kind, if not the long one."""
    if is_kin(kind) and bundled:
        return "settle_bundle"
    return "settle_done" if kind == PLAIN or is_kin(kind) else None


def bundle_arguments(batch: Sequence[Run], worker_id: Any) -> Sequence[Any]:
    """The arguments of settle_bundle.sql, as those of settle_done.sql."""
    keys = [run.visit.key for run in batch]
    first = batch[0].visit
    values = _done_values(sorted(batch, key=_version), worker_id)
    values |= {"queue": first.queue, "priority": first.priority}
    values |= {"first_key": min(keys), "last_key": max(keys)}
    return SQL["settle_bundle"].arguments(values)


def done_arguments(batch: Sequence[Run], worker_id: Any) -> Sequence[Any]:
    """The arguments of settle_done.sql."""
    batch = sorted(batch, key=_version)
    values = _done_values(batch, worker_id)
    results = [run.outcome.result for run in batch]
    values["results"] = texts(results) if any(results) else None
    return SQL["settle_done"].arguments(values)


def _done_values(batch: Sequence[Run], worker_id: Any) -> dict[str, Any]:
    """Of runs in the order of their versions. Times as whole microseconds: the server reads them faster."""
    visits = [run.visit for run in batch]
    return {
        "addresses": quoted([visit.address for visit in visits]),
        "versions": numbers([visit.version for visit in visits]),
        "runs": numbers([run.token for run in batch]),
        "started": numbers([int(run.started * 1e6) for run in batch]),
        "took": numbers([int(run.seconds * 1e6) for run in batch]),
        "worker_id": worker_id,
        "count": len(batch),
    }


def done_in_order(rows: Sequence[Any], batch: Sequence[Run]) -> list[str]:
    """The answers of a short form by run. What it did not find is to be sent again, and judged."""
    [(count, tokens)] = rows
    if count == len(batch):
        return ["settled"] * count
    settled = set(tokens or ())
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
        case Parked(error_type=kind, error=error):
            detail |= {"outcome": "parked", "attempt": run.visit.attempt + 1}
            detail |= {"error_type": kind, "error": error}
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
