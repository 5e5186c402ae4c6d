"""Parked visits: those that need an operator. They keep payload and error until somebody decides.

Restarting frees a visit with nothing counted against it and the id (idempotency key) that it had,
unless fresh ids are asked for (T6). Deleting one calls it off: it is gone, and history says
'cancelled', so that whoever waits for its result is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.db.database import Database
from mainspring.db.literals import numbers, texts
from mainspring.kernel.keys import stored_keys
from mainspring.kernel.query import ask, check_page, decoded
from mainspring.kernel.visit import tokens


@dataclass(frozen=True, slots=True)
class ParkedFilter:
    """Which parked visits. `key` is an id or the key within `group`; `error` is a part of the error's
    text, in any case."""

    queue: str | None = None
    key: str | None = None
    group: str | None = None
    error: str | None = None
    error_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it means all of them: an empty text is no condition."""
        return not any(asdict(self).values())


@dataclass(frozen=True, slots=True)
class ParkedPosition:
    """Where a page of parked visits ends: the next one begins below it."""

    at: datetime
    queue: str
    key: str


@dataclass(frozen=True, slots=True)
class ParkedVisit:
    """A visit that waits for an operator."""

    shard: int
    key: str
    queue: str
    id: UUID
    group: str | None
    priority: int
    attempt: int  # of its last run; 1 is the first
    crashes: int
    parked_at: datetime
    offered_while_parked: bool
    error_type: str
    error: str | None
    payload: Any
    created_at: datetime

    @property
    def position(self) -> ParkedPosition:
        return ParkedPosition(self.parked_at, self.queue, self.key)


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    """Parked visits of one queue that failed alike."""

    queue: str
    error_type: str
    count: int
    first_at: datetime
    last_at: datetime
    example: str | None


@dataclass(frozen=True, slots=True)
class ParkedPlace:
    """Where a visit lies: its primary key."""

    shard: int
    key: str
    queue: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A visit that an order was carried out on."""

    queue: str
    key: str
    id: UUID


async def list_parked(
    database: Database,
    connection: Any,
    wanted: ParkedFilter,
    *,
    limit: int = 100,
    before: ParkedPosition | None = None,
) -> list[ParkedVisit]:
    """A page of parked visits, newest first; the next page begins before its last one."""
    await ask(database, connection, "walk_in_order")
    rows = await ask(
        database,
        connection,
        "list_parked",
        **_values(wanted),
        most=check_page(limit),
        before_at=before.at if before else None,
        before_queue=before.queue if before else None,
        before_key=before.key if before else None,
    )
    return [_parked(row) for row in rows]


def _values(wanted: ParkedFilter) -> dict[str, Any]:
    values = asdict(wanted)
    values["grp"] = values.pop("group")
    key = values.pop("key")
    values["keys"] = None if key is None else stored_keys(key, wanted.group)
    return values


def _parked(row: Any) -> ParkedVisit:
    values = dict(row)
    values["payload"] = decoded(values["payload"])
    return ParkedVisit(group=values.pop("grp"), **values)


async def group_parked(
    database: Database, connection: Any, wanted: ParkedFilter
) -> list[ParkedGroup]:
    """Parked visits counted by queue and type of error, the most first."""
    rows = await ask(database, connection, "group_parked", **_values(wanted))
    return [ParkedGroup(**dict(row)) for row in rows]


async def count_parked(database: Database, connection: Any, wanted: ParkedFilter) -> int:
    """How many parked visits there are."""
    return sum(group.count for group in await group_parked(database, connection, wanted))


async def restart_parked(
    database: Database, connection: Any, places: Sequence[ParkedPlace], *, fresh_ids: bool = False
) -> list[Changed]:
    """Free these parked visits; what is not answered was not parked any more, or is locked."""
    rows = await ask(
        database,
        connection,
        "restart_parked",
        shards=numbers([p.shard for p in places]),
        keys=texts([p.key for p in places]),
        queues=texts([p.queue for p in places]),
        versions=numbers(tokens(len(places))),
        fresh_ids=fresh_ids,
        priority=None,
    )
    return [Changed(row["queue"], row["key"], row["id"]) for row in rows]


async def cancel_visits(
    database: Database,
    connection: Any,
    places: Sequence[ParkedPlace],
    *,
    reason: str,
    parked_only: bool = False,
) -> list[Changed]:
    """Call visits off that no run holds: they are gone, and history says so."""
    rows = await ask(
        database,
        connection,
        "cancel_visits",
        **place_values(places),
        parked_only=parked_only,
        reason=reason,
    )
    return [Changed(row["queue"], row["key"], row["id"]) for row in rows]


def place_values(places: Sequence[ParkedPlace]) -> dict[str, Any]:
    """Places as the statements take them."""
    return {
        "shards": [p.shard for p in places],
        "keys": [p.key for p in places],
        "queues": [p.queue for p in places],
    }
