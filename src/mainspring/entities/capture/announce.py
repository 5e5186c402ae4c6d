"""Changes that are announced by a call, in the writer's own transaction: what `capture="call"` rests on.

The same functions are there in SQL: `mainspring.changed(kind, ids, fields)` and
`mainspring.deleted(kind, ids)`. Call them last in a transaction that also writes entities: everywhere
rows of entities are locked before visits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import asyncpg
import psycopg

from mainspring.db.caller import Caller, Verb, tx_on, tx_on_sync
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.ids import refused
from mainspring.entities.statements import SQL
from mainspring.errors import MainspringError, UnknownKind


async def announce(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    on: Caller | None,
) -> int:
    """Run the function `what` ('changed' or 'deleted') on someone's connection, or on one of ours."""
    verb, pool = Verb(what, f"{what}_sync"), await kind.host.pool()
    try:
        async with tx_on(on, pool, verb, transaction=False) as tx:
            return await tx.one(SQL[what], int, **_values(kind, keys, what, fields))
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise _explained(kind, keys, error) from error


def announce_sync(
    kind: DeclaredKind,
    keys: Sequence[str],
    what: str,
    fields: Iterable[str] | None,
    on: Caller | None,
) -> int:
    """The same for code that is not async."""
    values = _values(kind, keys, what, fields)
    verb = Verb(f"{what}_sync", what)
    try:
        with tx_on_sync(on, kind.host.sync_pool(), verb) as tx:
            return tx.one(SQL[what], int, **values)
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
