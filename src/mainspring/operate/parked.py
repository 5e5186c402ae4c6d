"""Parked visits: those that need an operator. They keep payload and error until somebody decides.

Restarting frees a visit with nothing counted against it and the id (idempotency key) that it had,
unless fresh ids are asked for (T6). Deleting one calls it off: it is gone, and history says
'cancelled', so that whoever waits for its result is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from shlex import join
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.db.database import Database
from mainspring.db.sql import numbers, texts
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.ids import tokens
from mainspring.kernel import KERNEL_SQL
from mainspring.operate.keys import stored_keys, user_key
from mainspring.operate.statements import SQL
from mainspring.redact import Rules, read_rules
from mainspring.redact.shown import shown_visit

# Errors of which no two are alike are groups of one: nobody reads more of them.
MOST_GROUPS = 500
EXAMPLE = 500  # characters of a text


@dataclass(frozen=True, slots=True)
class ParkedFilter:
    """Which parked visits. `key` is an id or the key within `group`; `error` is a part of the error's
    text, in any case; `fingerprint` is that of a group."""

    queue: str | None = None
    key: str | None = None
    group: str | None = None
    error: str | None = None
    error_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    fingerprint: str | None = None

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
    fingerprint: str | None = None

    @property
    def position(self) -> ParkedPosition:
        return ParkedPosition(self.parked_at, self.queue, self.key)


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    """Parked visits of one queue that failed alike. `fingerprint`: None where their workers died."""

    queue: str
    error_type: str
    count: int
    first_at: datetime
    last_at: datetime
    example: str | None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class ParkedExample:
    """A row of parked_examples.sql: the last visit of a group, by the group's place in the list."""

    n: int
    queue: str
    parked_at: datetime
    error: str | None
    payload: Any


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


class CalledOff(NamedTuple):
    """A visit that was called off: 'cancelled', or 'running' where its run is told to end."""

    queue: str
    key: str
    id: UUID
    answer: str


class MadeDue(NamedTuple):
    """A visit that was for later."""

    queue: str
    key: str
    id: UUID
    hints: int


class FreedVisit(NamedTuple):
    """A parked visit that was restarted."""

    queue: str
    key: str
    id: UUID
    hints: int


async def list_parked(
    database: Database,
    tx: Tx,
    wanted: ParkedFilter,
    *,
    limit: int = 100,
    before: ParkedPosition | None = None,
) -> list[ParkedVisit]:
    """A page of parked visits, newest first; the next page begins before its last one."""
    await tx.run(SQL["walk_in_order"])
    found = await tx.rows(
        SQL["list_parked"],
        ParkedVisit,
        **_values(wanted),
        most=check_page(limit),
        before_at=before.at if before else None,
        before_queue=before.queue if before else None,
        before_key=before.key if before else None,
    )
    rules = await read_rules(tx)
    return [shown_visit(visit, rules, visit.parked_at) for visit in found]


def _values(wanted: ParkedFilter) -> dict[str, object]:
    return {
        "queue": wanted.queue,
        "keys": None if wanted.key is None else stored_keys(wanted.key, wanted.group),
        "grp": wanted.group,
        "error": wanted.error,
        "error_type": wanted.error_type,
        "since": wanted.since,
        "until": wanted.until,
        "fingerprint": wanted.fingerprint,
    }


async def group_parked(
    database: Database, tx: Tx, wanted: ParkedFilter, *, limit: int = MOST_GROUPS
) -> list[ParkedGroup]:
    """Parked visits counted by queue and what is alike, the most first."""
    values = {**_values(wanted), "most": check_page(limit)}
    if _is_of_texts(wanted):
        found = await tx.rows(SQL["group_parked_rows"], ParkedGroup, **values)
    else:
        await tx.run(SQL["ride_indexes"])
        del values["keys"], values["grp"], values["error"]
        found = await tx.rows(SQL["group_parked"], ParkedGroup, **values)
    rules = await read_rules(tx)
    hidden = [n for n, group in enumerate(found) if rules.of(group.queue)]
    for n, example in await _examples(tx, [found[n] for n in hidden], rules):
        found[hidden[n]] = replace(found[hidden[n]], example=example)
    return found


async def _examples(
    tx: Tx, groups: Sequence[ParkedGroup], rules: Rules
) -> list[tuple[int, str | None]]:
    """A text of each group without what the payload of its visit hides: only of a whole text and with the
    payload that is known. One statement for all groups."""
    if not groups:
        return []
    examples = await tx.rows(
        SQL["parked_examples"],
        ParkedExample,
        queues=[g.queue for g in groups],
        error_types=[g.error_type for g in groups],
        fingerprints=[g.fingerprint for g in groups],
        times=[g.last_at for g in groups],
    )
    shown = [(each.n, shown_visit(each, rules, each.parked_at).error) for each in examples]
    return [(n, error and error[:EXAMPLE]) for n, error in shown]


async def count_parked(database: Database, tx: Tx, wanted: ParkedFilter) -> int:
    """How many parked visits there are."""
    if not _is_of_texts(wanted):
        await tx.run(SQL["ride_indexes"])
    return await tx.one(SQL["count_parked"], int, **_values(wanted))


def _is_of_texts(wanted: ParkedFilter) -> bool:
    """Whether it has a condition on what visit_alike has not."""
    return bool(wanted.key or wanted.group or wanted.error)


async def restart_parked(
    database: Database, tx: Tx, places: Sequence[ParkedPlace], *, fresh_ids: bool = False
) -> list[Changed]:
    """Free these parked visits; what is not returned was not parked any more, or is locked."""
    freed = await tx.rows(
        KERNEL_SQL["restart_parked"],
        FreedVisit,
        shards=numbers([p.shard for p in places]),
        keys=texts([p.key for p in places]),
        queues=texts([p.queue for p in places]),
        versions=numbers(tokens(len(places))),
        fresh_ids=fresh_ids,
        priority=None,
    )
    return [Changed(visit.queue, visit.key, visit.id) for visit in freed]


async def call_off_visits(
    database: Database,
    tx: Tx,
    places: Sequence[ParkedPlace],
    *,
    reason: str,
    waits: bool = False,
    spares_held: bool = False,
) -> list[CalledOff]:
    """Call visits off, waiting or running; what is not answered is gone, or somebody has it locked."""
    return await tx.rows(
        KERNEL_SQL["call_off_visits"],
        CalledOff,
        **_keys(places),
        reason=reason,
        waits=waits,
        spares_held=spares_held,
    )


async def make_due(database: Database, tx: Tx, places: Sequence[ParkedPlace]) -> list[MadeDue]:
    """Make visits due now that are for later; what is not answered was not for later, or is locked."""
    return await tx.rows(KERNEL_SQL["make_due"], MadeDue, **_keys(places))


def _keys(places: Sequence[ParkedPlace]) -> dict[str, object]:
    return {
        "shards": [p.shard for p in places],
        "keys": [p.key for p in places],
        "queues": [p.queue for p in places],
    }


async def cancel_visits(
    database: Database,
    tx: Tx,
    places: Sequence[ParkedPlace],
    *,
    reason: str,
    parked_only: bool = False,
) -> list[Changed]:
    """Call visits off that no run holds: they are gone, and history says so."""
    return await tx.rows(
        KERNEL_SQL["cancel_visits"],
        Changed,
        **_keys(places),
        parked_only=parked_only,
        reason=reason,
    )


def restart_command(queue: str, key: str, group: str | None) -> str:
    """What restarts this parked visit."""
    words = ["mainspring", "parked", "restart", "--queue", queue, "--key", user_key(key)]
    return join(words if group is None else [*words, "--group", group])
