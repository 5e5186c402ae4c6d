"""Setting params: advance, advance many, move back. The SQL is one function; this goes round it.

What is asked of the database is a generator of statements without I/O, walked by three small drivers:
asyncpg for the application's own connections, psycopg (async and sync) for the caller's. A value that
cannot be set is answered by the database, never raised there, so the caller's transaction stays usable.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import psycopg

from mainspring.db.sql import Statement
from mainspring.errors import InvalidValue, UnknownParam, WentBack
from mainspring.reactive.model.values import Kind, Param, Value, check_value, micros, moment_of
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
T = TypeVar("T")
Fetch = tuple[Statement, dict[str, Any]]
Steps = Generator[Fetch, list[Any], T]


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


def to_raw(value: Value) -> int | str:
    """A value as tables have it: instants in microseconds."""
    return micros(value) if isinstance(value, datetime) else value


def from_raw(kind: Kind, raw: int | str) -> Value:
    """The value that a table has."""
    return moment_of(int(raw)) if kind == "instant" else int(raw) if kind == "integer" else str(raw)


def advance(
    changes: Iterable[tuple[Param, object]],
    *,
    declared: Container[str],
    if_greater: bool,
    by: str | None,
    why: str | None,
) -> Steps[dict[Param, bool]]:
    """Set params, all or none; answers which were moved. The last value of a param counts.

    One that the database does not know is made if the application declares it, else refused.
    """
    last: dict[str, tuple[Param, Value]] = {}
    for param, given in changes:
        last[param.key] = (param, check_value(param, given))
    if not last:
        return {}
    rows = yield _advance(last, if_greater, by, why)
    if unknown := [last[row["name"]][0] for row in rows if row["answer"] == "unknown"]:
        for param in unknown:
            if param.key not in declared:
                raise (yield from _unknown(param))
        yield make(unknown)
        log.info("param.created", extra={"params": [param.key for param in unknown]})
        rows = yield _advance(last, if_greater, by, why)
    for row in rows:
        param, value = last[row["name"]]
        _check(param, value, row, if_greater=if_greater)
        if row["ahead"] and row["answer"] == "set":
            log.warning("param.far_ahead", extra={"param": param.key, "value": str(value)})
    return {last[row["name"]][0]: row["answer"] == "set" for row in rows}


def _advance(
    last: dict[str, tuple[Param, Value]], if_greater: bool, by: str | None, why: str | None
) -> Fetch:
    names = sorted(last)  # everybody locks params in this order
    return SQL["advance"], {
        "names": names,
        "kinds": [last[name][0].kind for name in names],
        "given": [str(to_raw(last[name][1])) for name in names],
        "only_greater": if_greater,
        "changed_by": by,
        "why": why,
    }


def _check(param: Param, value: Value, row: Any, *, if_greater: bool) -> None:
    if row["answer"] == "kind":
        raise _other_kind(param, row["kind"])
    if row["answer"] == "range":
        raise InvalidValue(f"param {param.key!r} takes instants from 1970 to 9000, got {value}")
    if row["answer"] == "lower" and not if_greater:
        raise WentBack(param.key, from_raw(param.kind, row["old"]), value)


def rewind(
    param: Param,
    to: object,
    *,
    chunks: Sequence[object] = (),
    by: str | None = None,
    why: str | None = None,
) -> Steps[list[Affected]]:
    """Move a param back; answers the tasks that have seen more, with the repair of each."""
    value = check_value(param, to)
    values = {
        "name": param.key,
        "kind": param.kind,
        "given": str(to_raw(value)),
        "chunks": sorted(_chunk(param, chunk) for chunk in chunks),
        "changed_by": by,
        "why": why,
    }
    rows = yield SQL["rewind"], values
    match rows[0]["answer"]:
        case "unknown":
            raise (yield from _unknown(param))
        case "kind":
            raise _other_kind(param, rows[0]["kind"])
        case "empty":
            raise InvalidValue(f"param {param.key!r} has no value to move back from; advance it")
        case "higher":
            old = from_raw(param.kind, rows[0]["old"])
            raise InvalidValue(
                f"param {param.key!r} is {_shown(old)}: {_shown(value)} is no way back; use advance"
            )
        case "same":
            raise InvalidValue(
                f"param {param.key!r} is {_shown(value)} already; to have data at or below it done "
                "anew, name the chunks that were restated: rewind(..., chunks=[...])"
            )
    return affected_of(param.kind, (yield SQL["affected"], {"name": param.key}))


def _unknown(param: Param) -> Steps[UnknownParam]:
    rows = yield SQL["list_param_names"], {}
    return UnknownParam(param.key, [row["name"] for row in rows])


def _chunk(param: Param, chunk: object) -> int:
    if param.kind == "version":
        raise InvalidValue(f"param {param.key!r} is a version, which has no chunks; got {chunk!r}")
    return int(to_raw(check_value(param, chunk)))


def affected_of(kind: Kind, rows: Sequence[Any]) -> list[Affected]:
    """The rows of affected.sql."""
    found = []
    for row in rows:
        seen = _json(row["seen"])
        value = None if seen is None or seen[0] is None else from_raw(kind, seen[0])
        repair = _repair(row["on_rewind"], row["tree"])
        found.append(Affected(row["task"], value, row["in_flight"], row["running"], repair))
    return found


def _repair(on_rewind: str, tree: str) -> str:
    if on_rewind == "rerun":
        return "rerun"
    if on_rewind == "hold":
        return "held"
    return "move or delete" if "delta" in tree.lower() else "run and record"


def _json(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) else value


def make(params: Iterable[Param]) -> Fetch:
    """Make params that are not there yet."""
    ordered = sorted(set(params), key=lambda p: p.key)
    return SQL["make_params"], {
        "names": [param.key for param in ordered],
        "kinds": [param.kind for param in ordered],
    }


def check_made(params: Iterable[Param], rows: Sequence[Any]) -> None:
    """Refuse a param that the database knows as another kind."""
    kinds = {row["name"]: row["kind"] for row in rows}
    for param in params:
        if kinds.get(param.key, param.kind) != param.kind:
            raise _other_kind(param, kinds[param.key])


def _other_kind(param: Param, kind: str) -> InvalidValue:
    return InvalidValue(
        f"param {param.key!r} is declared as {param.kind!r}, the database has it as {kind!r}; declare "
        f"it with kind={kind!r}, or give it another name"
    )


def _shown(value: Value) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


# -- drivers


async def on_asyncpg(connection: Any, steps: Steps[T]) -> T:
    """Walk on an asyncpg connection of the application."""
    answer: Any = None
    while True:
        try:
            statement, values = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = await connection.fetch(statement.numbered, *statement.arguments(values))


async def on_psycopg(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    """Walk on the caller's async psycopg connection, in its transaction."""
    answer: Any = None
    async with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                statement, values = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            await cursor.execute(statement.text, values)
            answer = await cursor.fetchall()


def on_psycopg_sync(connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
    """Walk on a sync psycopg connection, in its transaction."""
    answer: Any = None
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                statement, values = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = cursor.execute(statement.text, values).fetchall()
