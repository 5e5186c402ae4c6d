"""Params as the database has them: made, moved back, and whom that affects.

What is asked of the database is a generator of statements (db/sql.py), for the application's own
connections and for the caller's. The database returns why a value cannot be set, and raises nothing: so the
caller's transaction stays usable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, one, rows
from mainspring.errors import InvalidValue, UnknownParam
from mainspring.reactive.model.values import (
    AnyParam,
    Kind,
    Raw,
    RawSeen,
    Value,
    check_value,
    dump_value,
    from_raw,
)
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
_seen = msgspec.json.Decoder(RawSeen | None).decode


class RewoundParam(NamedTuple):
    """What came of moving a param back: 'rewound', or why it cannot be."""

    answer: str
    kind: str
    old: str | None


class MadeParam(NamedTuple):
    """A param as the database has it."""

    name: str
    kind: str


class AffectedTask(NamedTuple):
    """A task that saw more of a param; what it saw and its tree as JSON."""

    task: str
    in_flight: bool
    running: bool
    seen: str | None
    on_rewind: str
    tree: str


@dataclass(frozen=True, slots=True)
class Affected:
    """A task that saw more of a param than it has now, and what repairs it (R13).

    `repair` is 'rerun' (the task does it itself), 'held' (nothing runs until it is repaired), 'move or
    delete' its last seen value, or 'run and record'.
    """

    task: str
    seen: Value | None
    in_flight: bool
    running: bool
    repair: str


def stored(param: AnyParam, raw: Raw | None) -> Value | None:
    """A value as its row has it."""
    return None if raw is None else from_raw(param.kind, raw)


def rewind(
    param: AnyParam,
    to: object,
    *,
    chunks: Sequence[object] = (),
    by: str | None = None,
    why: str | None = None,
) -> Steps[list[Affected]]:
    """Move a param back; returns the tasks that have seen more, with the repair of each."""
    value = check_value(param, to)
    found = yield from one(
        SQL["rewind"],
        RewoundParam,
        name=param.key,
        kind=param.kind,
        given=str(dump_value(value)),
        chunks=sorted(_chunk(param, chunk) for chunk in chunks),
        changed_by=by,
        why=why,
    )
    match found.answer:
        case "unknown":
            raise (yield from unknown(param))
        case "kind":
            raise other_kind(param, found.kind)
        case "empty":
            raise InvalidValue(f"param {param.key!r} has no value to move back from; advance it")
        case "higher":
            old = stored(param, found.old)
            raise InvalidValue(
                f"param {param.key!r} is {_shown(old)}: {_shown(value)} is no way back; use advance"
            )
        case "same":
            raise InvalidValue(
                f"param {param.key!r} is {_shown(value)} already; to have data at or below it done "
                "anew, name the chunks that were restated: rewind(..., chunks=[...])"
            )
    affected = yield from rows(SQL["affected"], AffectedTask, name=param.key)
    return affected_of(param.kind, affected)


def unknown(param: AnyParam) -> Steps[UnknownParam]:
    """The error of a param that the database does not know."""
    names = yield from rows(SQL["list_param_names"], str)
    return UnknownParam(param.key, names)


def _chunk(param: AnyParam, chunk: object) -> int:
    if param.kind == "version":
        raise InvalidValue(f"param {param.key!r} is a version, which has no chunks; got {chunk!r}")
    return int(dump_value(check_value(param, chunk)))


def affected_of(kind: Kind, tasks: Iterable[AffectedTask]) -> list[Affected]:
    """These tasks with what repairs each."""
    found = []
    for task in tasks:
        seen = _seen(task.seen or "null")
        value = None if seen is None or seen.value is None else from_raw(kind, seen.value)
        repair = _repair(task.on_rewind, task.tree)
        found.append(Affected(task.task, value, task.in_flight, task.running, repair))
    return found


def _repair(on_rewind: str, tree: str) -> str:
    if on_rewind == "rerun":
        return "rerun"
    if on_rewind == "hold":
        return "held"
    return "move or delete" if "delta" in tree.lower() else "run and record"


def make(params: Iterable[AnyParam]) -> Steps[list[MadeParam]]:
    """Make params that are not there yet; returns all as the database has them."""
    ordered = sorted(set(params), key=lambda p: p.key)
    return rows(
        SQL["make_params"],
        MadeParam,
        names=[param.key for param in ordered],
        kinds=[param.kind for param in ordered],
    )


def check_made(params: Iterable[AnyParam], made: Iterable[MadeParam]) -> None:
    """Refuse a param that the database knows as another kind."""
    kinds = {param.name: param.kind for param in made}
    for param in params:
        if kinds.get(param.key, param.kind) != param.kind:
            raise other_kind(param, kinds[param.key])


def other_kind(param: AnyParam, kind: str) -> InvalidValue:
    """The error of a param that the database has as another kind."""
    return InvalidValue(
        f"param {param.key!r} is declared as {param.kind!r}, the database has it as {kind!r}; declare "
        f"it with kind={kind!r}, or give it another name"
    )


def _shown(value: Value | None) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
