"""A stage's state from outside: read it, and replace it only if nobody did since (S11).

The stage's own save compares the version too, so neither overwrites the other. A replaced state asks the
stage again. `mainspring.set_state(...)` is the same in SQL.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import psycopg

from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.keys import refused
from mainspring.entities.declare.stage import Stage, find
from mainspring.entities.declare.state import Stored
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, NotFound, UnreadableState


async def read_state(
    kind: DeclaredKind, stage: str | Stage, id: Any, connection: Any = None
) -> tuple[Any, int]:
    """The state's value and version; (None, 0) if there is none."""
    found = find(kind, stage)
    values = {"kind": kind.name, "id": kind.key_of(id), "stage": found.name}
    row = await _ask(kind, "read_state", values, connection)
    if row is None:
        return (None, 0)
    version, schema, body, message, message_type = row
    try:
        return (found.state.decode(Stored(schema, body, message, message_type)), version)
    except UnreadableState as error:
        raise UnreadableState(f"{error} (it has version {version})") from error


async def set_state(
    kind: DeclaredKind,
    stage: str | Stage,
    id: Any,
    value: Any,
    version: int,
    connection: Any = None,
) -> bool:
    """Replace the state if it still has this version (0: if there is none); whether it was done."""
    found = find(kind, stage)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise InvalidSetting(f"version must be one that state() answered, or 0, got {version!r}")
    stored = found.state.encode(value)
    values = {
        "kind": kind.name,
        "id": kind.key_of(id),
        "stage": found.name,
        "version": version,
        "body": stored.body,
        "schema": stored.schema,
        "message": stored.message,
        "message_type": stored.message_type,
    }
    row = await _ask(kind, "set_state", values, connection)
    if row is None or row[0] is None:
        raise NotFound(f"kind {kind.name!r} has no entity {id!r}, so it has no state")
    return bool(row[0])


async def _ask(kind: DeclaredKind, name: str, values: dict[str, Any], connection: Any) -> Any:
    """Run a statement on the caller's connection (asyncpg or psycopg), or on one of our own."""
    statement = SQL[name]
    arguments = statement.arguments(values)
    try:
        if isinstance(connection, psycopg.AsyncConnection):
            cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
            return await (await cursor.execute(statement.text, values)).fetchone()
        if isinstance(connection, psycopg.Connection):
            raise InvalidSetting("a sync psycopg connection was given; use an AsyncConnection")
        if connection is not None:
            return await connection.fetchrow(statement.numbered, *arguments)
        pool = await kind.host.pool()
        async with pool.connection() as own:
            return await own.fetchrow(statement.numbered, *arguments)
    except (asyncpg.DataError, psycopg.DataError) as error:
        raise refused(kind.name, [values["id"]], error) from error
