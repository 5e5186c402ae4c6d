"""A stage's state from outside: read it, and replace it only if nobody did since (S11).

The stage's own save compares the version too, so neither overwrites the other. A replaced state asks the
stage again. `mainspring.set_state(...)` is the same in SQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg
import psycopg

from mainspring.db.caller import Caller, Verb, tx_on
from mainspring.db.tx import Tx
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.ids import refused
from mainspring.entities.declare.stage import Stage, find
from mainspring.entities.declare.state import Stored
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidSetting, NotFound, UnreadableState


class StateSet(NamedTuple):
    """A row of set_state.sql."""

    done: bool | None  # None: there is no such entity


class StoredState(NamedTuple):
    """A row of read_state.sql."""

    version: int
    schema: int
    body: str | None
    message: bytes | None
    message_type: str | None


async def read_state(
    kind: DeclaredKind,
    stage: str | Stage,
    id: object,
    on: Caller | None = None,
) -> tuple[object, int]:
    """The state's value and version; (None, 0) if there is none."""
    found = find(kind, stage)
    key = kind.key_of(id)
    async with _asked(kind, key, on, "state") as tx:
        row = await tx.first(
            SQL["read_state"], StoredState, kind=kind.name, id=key, stage=found.name
        )
    if row is None:
        return (None, 0)
    stored = Stored(row.schema, row.body, row.message, row.message_type)
    try:
        return (found.state.decode(stored), row.version)
    except UnreadableState as error:
        raise UnreadableState(f"{error} (it has version {row.version})") from error


async def set_state(
    kind: DeclaredKind,
    stage: str | Stage,
    id: object,
    value: object,
    version: int,
    on: Caller | None = None,
) -> bool:
    """Replace the state if it still has this version (0: if there is none); whether it was done."""
    found = find(kind, stage)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise InvalidSetting(f"version must be one that state() answered, or 0, got {version!r}")
    stored = found.state.encode(value)
    key = kind.key_of(id)
    async with _asked(kind, key, on, "set_state") as tx:
        done = await tx.one(
            SQL["set_state"],
            StateSet,
            kind=kind.name,
            id=key,
            stage=found.name,
            version=version,
            body=stored.body,
            schema=stored.schema,
            message=stored.message,
            message_type=stored.message_type,
        )
    if done.done is None:
        raise NotFound(f"kind {kind.name!r} has no entity {id!r}, so it has no state")
    return done.done


@asynccontextmanager
async def _asked(kind: DeclaredKind, key: str, on: Caller | None, verb: str) -> AsyncIterator[Tx]:
    """The caller's connection, or one of ours. An id that its type refuses is said to be none."""
    try:
        async with tx_on(on, await kind.host.pool(), Verb(verb), transaction=False) as tx:
            yield tx
    except (asyncpg.DataError, psycopg.DataError) as error:
        raise refused(kind.name, [key], error) from error
