"""What is known of one entity: its queues and timers, states, events on their way, and who changed what.

Everything comes from the database, so it can be asked without the application's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.entities.declare.ids import id_text
from mainspring.entities.outside.queue import Entry
from mainspring.entities.statements import SQL
from mainspring.errors import NotFound
from mainspring.operate import why_visit
from mainspring.phrases import nearest

LAST_RUNS = 30


@dataclass(frozen=True, slots=True)
class KindLoad:
    """A kind as it is registered, and what lies in its queues. `crawl`: the operation under way."""

    name: str
    source: str
    pool: str
    capture: str
    version_column: str
    generation: int
    stages: list[str]
    consumers: list[str]
    waiting: int
    scheduled: int
    running: int
    parked: int
    crawl: int | None
    keys: list[str]


@dataclass(frozen=True, slots=True)
class Queued:
    """An entity in a queue, and why it has not been visited there yet."""

    entry: Entry
    cause: str
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class StateOf:
    """A stage's private state of the entity, as it is stored."""

    stage: str
    version: int
    schema: int
    body: Any
    message_type: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Events that wait for a consumer."""

    consumer: str
    events: int
    first: int


@dataclass(frozen=True, slots=True)
class Happened:
    """One run on the entity: who looked at it, why, and what it changed.

    `who` is a stage, "system" or "relay to ..."; `because` says what brought the run; `changed` has
    before and after of each field; `asked` what the stages answered a system visit.
    """

    at: datetime
    who: str
    lane: str
    outcome: str
    because: list[str] = field(default_factory=list)
    changed: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    version: int | None = None
    state_version: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EntityWhy:
    """Everything `mainspring why <kind> <id>` shows."""

    kind: str
    key: str
    entity: Any
    queues: list[Queued]
    states: list[StateOf]
    undelivered: list[Undelivered]
    happened: list[Happened]

    @property
    def is_known(self) -> bool:
        return bool(self.entity or self.queues or self.states or self.undelivered or self.happened)


class ListedState(NamedTuple):
    """A row of list_entity_states.sql."""

    stage: str
    version: int
    schema: int
    body: str | None
    message_type: str | None
    changed_at: datetime


class RunRow(NamedTuple):
    """A row of list_entity_runs.sql."""

    queue: str
    ended_at: datetime
    outcome: str
    superseded: bool
    error: str | None
    payload: str | None
    result: str | None


class EntityRow(NamedTuple):
    """The row of canonical_key.sql."""

    key: str
    entity: str | None


async def why_entity(
    database: Database, connection: Connection, kind: str, id: object
) -> EntityWhy:
    """All that the database knows of an entity."""
    key, entity = await find(connection, kind, id)
    one = {"kind": kind, "key": key}
    entries = await connection.rows(SQL["check_entity"], Entry, kind=kind, id=key)
    states = await connection.rows(SQL["list_entity_states"], ListedState, **one)
    runs = await connection.rows(SQL["list_entity_runs"], RunRow, **one, most=LAST_RUNS)
    return EntityWhy(
        kind,
        key,
        entity,
        [await _queued(database, connection, entry, key) for entry in entries],
        [StateOf(**{**row._asdict(), "body": _json(row.body)}) for row in states],
        await connection.rows(SQL["list_entity_deliveries"], Undelivered, **one),
        [happened(row) for row in runs],
    )


async def find(tx: Tx, kind: str, id: object) -> tuple[str, Any]:
    """The canonical key of an id and the entity itself; an error for a kind that is not there."""
    keys = {load.name: load.keys for load in await tx.rows(SQL["list_loads"], KindLoad, kind=None)}
    if kind not in keys:
        raise NotFound(f"no kind of entities is named {kind!r}{nearest(kind, keys)}")
    found = await tx.one(SQL["canonical_key"], EntityRow, kind=kind, id=id_text(id, keys[kind]))
    return found.key, _json(found.entity)


async def _queued(database: Database, connection: Connection, entry: Entry, key: str) -> Queued:
    found = (await why_visit(database, connection, entry.queue, key)).causes[0]
    return Queued(entry, found.name, found.text, found.remedy)


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def happened(row: RunRow) -> Happened:
    """A row of history as a line of an entity's story."""
    payload, result = _json(row.payload) or {}, _json(row.result)
    said = result if isinstance(result, dict) else {}
    changed = {n: v for n, v in (said.get("changed") or {}).items() if n != "version"}
    consumer = row.queue.partition("!")[2]
    stage = row.queue.rstrip("~").partition("/")[2]
    return Happened(
        at=row.ended_at,
        who=f"relay to {consumer}" if consumer else stage or "system",
        lane="relay" if consumer else "crawl" if row.queue.endswith("~") else "live",
        outcome="superseded" if row.superseded else _outcome(row.outcome, result),
        because=because(payload) if not stage and not consumer else [],
        changed=changed,
        asked=said.get("asked") or {},
        version=said.get("version"),
        state_version=said.get("state"),
        error=row.error,
    )


def _outcome(outcome: str, result: object) -> str:
    return f"{outcome} ({result})" if isinstance(result, str) else outcome


def because(payload: Mapping[str, object]) -> list[str]:
    """What a system visit was about: "outside", "new", fields, stages that made or asked for it."""
    found = []
    if "out" in payload:
        found.append("from outside")
    if "new" in payload:
        found.append("new, or fields unknown")
    found += [f"by {name[3:]}" for name in sorted(payload) if name.startswith("by:")]
    found += [f"{name[4:]} was asked for" for name in sorted(payload) if name.startswith("ask:")]
    if fields := [name[2:] for name in sorted(payload) if name.startswith("f:")]:
        found.append(f"changed: {', '.join(fields)}")
    return found
