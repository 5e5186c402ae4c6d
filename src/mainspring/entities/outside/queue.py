"""The queues of a kind, asked and changed directly: offer, check, peek, delete (S20).

The same functions are there in SQL: `mainspring.offer`, `mainspring.check_entity`, `mainspring.peek` and
`mainspring.delete_visit`. In a transaction that also writes entities they come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import asyncpg
import psycopg

from mainspring.entities.declare.keys import refused
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKey, InvalidSetting, InvalidTime, UnknownKind, UnknownStage

PEEK_MOST = 10_000


class QueueKind(Protocol):
    """What is needed of a kind: its name, its stages' names, and connections."""

    @property
    def name(self) -> str: ...

    @property
    def stages(self) -> Iterable[str]: ...

    @property
    def host(self) -> Any: ...

    def key_of(self, id: Any) -> str: ...

    def id_from(self, key: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """An entity in one queue. `stage` is None in the system's; `lane` is live, crawl or relay."""

    queue: str
    stage: str | None
    lane: str
    due_at: datetime
    state: str  # waiting, scheduled, running or parked
    attempt: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Peeked:
    """One of the first entities of a queue. `key` is the text of its id."""

    key: str
    due_at: datetime
    priority: int
    attempt: int
    id: Any = None


async def offer(
    kind: QueueKind, id: Any, stage: str | None, at: datetime | None, connection: Any
) -> bool:
    """Offer an entity; whether it was not in the queue, or is now due earlier."""
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        raise InvalidTime(
            f"at must be a datetime with a time zone, got {at!r}; use mainspring.now() + ... or "
            ".replace(tzinfo=...)"
        )
    rows = await call(kind, "offer_entity", connection, id=kind.key_of(id), stage=stage, at=at)
    return bool(rows[0][0])


async def check(kind: QueueKind, id: Any, connection: Any) -> list[Entry]:
    """In which queues an entity is, the one that is due first first."""
    rows = await call(kind, "check_entity", connection, id=kind.key_of(id))
    return [Entry(*tuple(row)[:7]) for row in rows]


async def peek(
    kind: QueueKind, stage: str | None, limit: int, crawl: bool, connection: Any
) -> list[Peeked]:
    """The first entities of a stage's queue, in the order in which they will be visited."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PEEK_MOST:
        raise InvalidSetting(f"limit must be 1 to {PEEK_MOST}, got {limit!r}")
    rows = await call(kind, "peek_stage", connection, stage=stage, most=limit, crawl=crawl)
    return [
        Peeked(key, due_at, priority, attempt, _id(kind, key))
        for key, due_at, priority, attempt in rows
    ]


def _id(kind: QueueKind, key: str) -> Any:
    """The id of a key; its text where the kind's codec cannot read it: one such row hides no other."""
    try:
        return kind.id_from(key)
    except InvalidKey:
        return key


async def delete(
    kind: QueueKind, id: Any, stage: str | None, crawl: bool, force: bool, connection: Any
) -> bool:
    """Take an entity out of a queue; whether it was there."""
    if stage is None and not force:
        raise InvalidSetting(
            f"the system visit of {kind.name} {id!r} may carry a change that no stage has seen; "
            "say force=True to drop it all the same, or name a stage"
        )
    rows = await call(
        kind,
        "delete_visit",
        connection,
        id=kind.key_of(id),
        stage=stage,
        crawl=crawl,
        force=force,
    )
    return bool(rows[0][0])


async def call(kind: QueueKind, name: str, connection: Any, **values: Any) -> list[Any]:
    """Run a statement of the queue API on someone's connection, or on one of ours."""
    statement, values = SQL[name], {"kind": kind.name, **values}
    if isinstance(connection, psycopg.Connection):
        raise InvalidSetting("a sync psycopg connection was given; an AsyncConnection is needed")
    try:
        if isinstance(connection, psycopg.AsyncConnection):
            cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
            await cursor.execute(statement.text, values)
            return await cursor.fetchall()
        if connection is not None:
            return list(await connection.fetch(statement.numbered, *statement.arguments(values)))
        pool = await kind.host.pool()
        async with pool.connection() as own:
            return list(await own.fetch(statement.numbered, *statement.arguments(values)))
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise _explained(kind, values, error) from error


def _explained(kind: QueueKind, values: Mapping[str, Any], error: Exception) -> Exception:
    state = str(getattr(error, "sqlstate", "") or "")
    if state == "42704" and "stage" in str(error):
        return UnknownStage(kind.name, str(values.get("stage")), kind.stages)
    if state == "42704":
        return UnknownKind(
            f"kind {kind.name!r} is not in the database; run mainspring migrate module:app, "
            "or start a worker"
        )
    if state == "22023":
        return InvalidTime(str(error)) if "time" in str(error) else InvalidSetting(str(error))
    if state.startswith("22") and "id" in values:
        return refused(kind.name, [values["id"]], error)
    return error
