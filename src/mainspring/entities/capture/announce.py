"""Changes that are announced by a call, in the writer's own transaction: what `capture="call"` rests on.

The same functions are there in SQL: `mainspring.changed(kind, ids, fields)` and
`mainspring.deleted(kind, ids)`. Call them last in a transaction that also writes entities: everywhere
rows of entities are locked before visits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import asyncpg
import psycopg

from mainspring.db.tx import SyncTx
from mainspring.entities.declare.declared_kind import CallerConnection, DeclaredKind, tx_on
from mainspring.entities.declare.ids import refused
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, MainspringError, UnknownKind


async def announce(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    connection: CallerConnection | None,
) -> int:
    """Run the function `what` ('changed' or 'deleted') on someone's connection, or on one of ours."""
    if isinstance(connection, psycopg.Connection):
        raise InvalidSetting(
            f"a sync psycopg connection was given to {what}; use {what}_sync, or an AsyncConnection"
        )
    try:
        async with tx_on(kind.host, connection) as tx:
            return await tx.one(SQL[what], int, **_values(kind, keys, what, fields))
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise _explained(kind, keys, error) from error


def announce_sync(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    connection: CallerConnection | None,
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
            return SyncTx(connection).one(SQL[what], int, **values)
        with kind.host.sync_pool().connection() as own:
            return SyncTx(own).one(SQL[what], int, **values)
    except psycopg.Error as error:
        raise _explained(kind, keys, error) from error


def _values(
    kind: DeclaredKind, keys: Sequence[str], what: str, fields: Iterable[str] | None
) -> dict[str, object]:
    values: dict[str, object] = {"kind": kind.name, "ids": list(keys)}
    if what == "changed":
        values["fields"] = None if fields is None else sorted(set(fields))
    return values


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
