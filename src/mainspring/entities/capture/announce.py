"""Changes that are announced by a call, in the writer's own transaction: what `capture="call"` rests on.

The same functions are there in SQL: `mainspring.changed(kind, ids, fields)` and
`mainspring.deleted(kind, ids)`. Call them last in a transaction that also writes entities: everywhere
rows of entities are locked before visits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import psycopg

from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.keys import refused
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, MainspringError, UnknownKind

Connection = Any  # of asyncpg, or psycopg's Connection or AsyncConnection


async def announce(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    connection: Connection | None,
) -> int:
    """Run the function `what` ('changed' or 'deleted') on someone's connection, or on one of ours."""
    values = _values(kind, keys, what, fields)
    statement = SQL[what]
    if isinstance(connection, psycopg.Connection):
        raise InvalidSetting(
            f"a sync psycopg connection was given to {what}; use {what}_sync, or an AsyncConnection"
        )
    try:
        if isinstance(connection, psycopg.AsyncConnection):
            row = await (await connection.execute(statement.text, values)).fetchone()
            return int(_first(row))
        if connection is not None:
            row = await connection.fetchrow(statement.numbered, *statement.arguments(values))
            return int(_first(row))
        pool = await kind.host.pool()
        async with pool.connection() as own:
            row = await own.fetchrow(statement.numbered, *statement.arguments(values))
        return int(_first(row))
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise _explained(kind, keys, error) from error


def announce_sync(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    connection: Connection | None,
) -> int:
    """The same for code that is not async."""
    values = _values(kind, keys, what, fields)
    if connection is not None and not isinstance(connection, psycopg.Connection):
        raise InvalidSetting(
            f"{what}_sync needs a psycopg Connection, got {type(connection).__name__}; "
            f"await {what} instead"
        )
    try:
        if connection is not None:
            return int(_first(connection.execute(SQL[what].text, values).fetchone()))
        with kind.host.sync_pool().connection() as own:
            return int(_first(own.execute(SQL[what].text, values).fetchone()))
    except psycopg.Error as error:
        raise _explained(kind, keys, error) from error


def _values(
    kind: DeclaredKind, keys: Sequence[str], what: str, fields: Iterable[str] | None
) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": kind.name, "ids": list(keys)}
    if what == "changed":
        values["fields"] = None if fields is None else sorted(set(fields))
    return values


def _first(row: Any) -> Any:
    """The one column of the one row, whatever the row factory makes of it."""
    return next(iter(row.values())) if isinstance(row, dict) else row[0]


def _explained(kind: DeclaredKind, keys: Sequence[str], error: Exception) -> Exception:
    """What a caller can do about it; other errors of the database stay what they are."""
    state = str(getattr(error, "sqlstate", "") or "")
    found: MainspringError
    if state == "42704":  # undefined_object: raised by the functions for a kind nobody registered
        found = UnknownKind(
            f"kind {kind.name!r} is not in the database; run mainspring migrate module:app, "
            "or start a worker"
        )
    elif state.startswith("22"):
        found = refused(kind.name, keys, error)
    else:
        return error
    return found
