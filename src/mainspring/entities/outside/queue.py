"""The queues of a kind, asked and changed directly: offer, check, peek, delete (S20).

The same functions are there in SQL: `mainspring.offer`, `mainspring.check_entity`, `mainspring.peek` and
`mainspring.delete_visit`. In a transaction that also writes entities they come last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import asyncpg
import psycopg

from mainspring.db.caller import Caller, Verb, tx_on
from mainspring.db.tx import Tx
from mainspring.entities.declare.declared_kind import KindHost
from mainspring.entities.declare.ids import refused
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKey, InvalidSetting, InvalidTime, UnknownKind, UnknownStage

PEEK_MOST = 10_000
Note = Callable[[Tx], Awaitable[None]]


class QueueKind(Protocol):
    """What is needed of a kind: its name, its stages' names, and connections."""

    @property
    def name(self) -> str: ...

    @property
    def stages(self) -> Iterable[str]: ...

    @property
    def host(self) -> KindHost: ...

    def key_of(self, id: object) -> str: ...

    def id_from(self, key: str) -> object: ...


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
    id: Any = None  # by the type of its key


class FirstVisit(NamedTuple):
    """A row of peek_stage.sql."""

    key: str
    due_at: datetime
    priority: int
    attempt: int


async def offer(
    kind: QueueKind,
    id: object,
    stage: str | None,
    at: datetime | None,
    on: Caller | None,
    note: Note | None = None,
) -> bool:
    """Offer an entity; whether it was not in the queue, or is now due earlier.

    `note` is written in the same transaction.
    """
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        raise InvalidTime(
            f"at must be a datetime with a time zone, got {at!r}; use mainspring.now() + ... or "
            ".replace(tzinfo=...)"
        )
    key = kind.key_of(id)
    async with asked(kind, on, "offer", id=key, stage=stage, transaction=bool(note)) as tx:
        values = {"kind": kind.name, "id": key, "stage": stage, "at": at}
        changed = await tx.one(SQL["offer_entity"], bool, **values)
        if note is not None:
            await note(tx)
        return changed


async def check(kind: QueueKind, id: object, on: Caller | None) -> list[Entry]:
    """In which queues an entity is, the one that is due first first."""
    key = kind.key_of(id)
    async with asked(kind, on, "check", id=key) as tx:
        return await tx.rows(SQL["check_entity"], Entry, kind=kind.name, id=key)


async def peek(
    kind: QueueKind, stage: str | None, limit: int, crawl: bool, on: Caller | None
) -> list[Peeked]:
    """The first entities of a stage's queue, in the order in which they will be visited."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PEEK_MOST:
        raise InvalidSetting(f"limit must be 1 to {PEEK_MOST}, got {limit!r}")
    async with asked(kind, on, "peek", stage=stage) as tx:
        rows = await tx.rows(
            SQL["peek_stage"], FirstVisit, kind=kind.name, stage=stage, most=limit, crawl=crawl
        )
    return [Peeked(*row, id=_id(kind, row.key)) for row in rows]


def _id(kind: QueueKind, key: str) -> object:
    """The id of a key; its text where the kind's codec cannot read it: one such row hides no other."""
    try:
        return kind.id_from(key)
    except InvalidKey:
        return key


async def delete(
    kind: QueueKind,
    id: object,
    stage: str | None,
    crawl: bool,
    force: bool,
    on: Caller | None,
    note: Note | None = None,
) -> bool:
    """Take an entity out of a queue; whether it was there. `note` is written in the same transaction."""
    if stage is None and not force:
        raise InvalidSetting(
            f"the system visit of {kind.name} {id!r} may carry a change that no stage has seen; "
            "say force=True to drop it all the same, or name a stage"
        )
    key = kind.key_of(id)
    async with asked(kind, on, "delete_visit", id=key, stage=stage, transaction=bool(note)) as tx:
        values = {"kind": kind.name, "id": key, "stage": stage, "crawl": crawl, "force": force}
        was_there = await tx.one(SQL["delete_visit"], bool, **values)
        if note is not None:
            await note(tx)
        return was_there


@asynccontextmanager
async def asked(
    kind: QueueKind,
    on: Caller | None,
    verb: str,
    *,
    id: str | None = None,
    stage: str | None = None,
    transaction: bool = False,
) -> AsyncIterator[Tx]:
    """Someone's connection, or one of ours. What the database refuses is said of this id and stage."""
    try:
        async with tx_on(on, await kind.host.pool(), Verb(verb), transaction=transaction) as tx:
            yield tx
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise _explained(kind, id, stage, error) from error


def _explained(kind: QueueKind, id: str | None, stage: str | None, error: Exception) -> Exception:
    state = str(getattr(error, "sqlstate", "") or "")
    if state == "42704" and "stage" in str(error):
        return UnknownStage(kind.name, str(stage), kind.stages)
    if state == "42704":
        return UnknownKind(
            f"kind {kind.name!r} is not in the database; run mainspring migrate module:app, "
            "or start a worker"
        )
    if state == "22023":
        return InvalidTime(str(error)) if "time" in str(error) else InvalidSetting(str(error))
    if state.startswith("22") and id is not None:
        return refused(kind.name, [id], error)
    return error
