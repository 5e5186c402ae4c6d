"""What is known of one entity: its queues and timers, states, events on their way, and who changed what.

Everything comes from the database, so it can be asked without the application's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.entities.declare.keys import id_text
from mainspring.entities.outside.queue import Entry
from mainspring.entities.statements import SQL
from mainspring.errors import NotFound
from mainspring.kernel import nearest, why_visit

LAST_RUNS = 30


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


async def why_entity(database: Database, connection: Any, kind: str, id: str) -> EntityWhy:
    """All that the database knows of an entity."""
    key, entity = await find(connection, kind, id)
    values = {"kind": kind, "key": key, "id": key, "most": LAST_RUNS}
    entries = [Entry(*tuple(row)[:7]) for row in await _fetch(connection, "check_entity", values)]
    return EntityWhy(
        kind,
        key,
        entity,
        [await _queued(database, connection, entry, key) for entry in entries],
        [_state(row) for row in await _fetch(connection, "list_entity_states", values)],
        [Undelivered(*row) for row in await _fetch(connection, "list_entity_deliveries", values)],
        [happened(row) for row in await _fetch(connection, "list_entity_runs", values)],
    )


async def find(connection: Any, kind: str, id: str) -> tuple[str, Any]:
    """The canonical key of an id and the entity itself; an error for a kind that is not there."""
    rows = await connection.fetch(SQL["list_loads"].numbered, None)
    keys = {row["name"]: row["keys"] for row in rows}
    if kind not in keys:
        raise NotFound(f"no kind of entities is named {kind!r}{nearest(kind, keys)}")
    values = {"kind": kind, "id": id_text(id, keys[kind])}
    (row,) = await _fetch(connection, "canonical_key", values)
    return row["key"], None if row["entity"] is None else msgspec.json.decode(row["entity"])


async def _fetch(connection: Any, name: str, values: Mapping[str, Any]) -> list[Any]:
    return list(await connection.fetch(SQL[name].numbered, *SQL[name].arguments(values)))


async def _queued(database: Database, connection: Any, entry: Entry, key: str) -> Queued:
    found = (await why_visit(database, connection, entry.queue, key)).causes[0]
    return Queued(entry, found.name, found.text, found.remedy)


def _state(row: Any) -> StateOf:
    body = None if row["body"] is None else msgspec.json.decode(row["body"])
    return StateOf(
        row["stage"],
        row["version"],
        row["schema"],
        body,
        row["message_type"],
        row["changed_at"],
    )


def happened(row: Mapping[str, Any]) -> Happened:
    """A row of history as a line of an entity's story."""
    queue: str = row["queue"]
    payload = msgspec.json.decode(row["payload"] or "{}")
    result = msgspec.json.decode(row["result"] or "null")
    said = result if isinstance(result, dict) else {}
    changed = {n: v for n, v in (said.get("changed") or {}).items() if n != "version"}
    consumer = queue.partition("!")[2]
    stage = queue.rstrip("~").partition("/")[2]
    return Happened(
        at=row["ended_at"],
        who=f"relay to {consumer}" if consumer else stage or "system",
        lane="relay" if consumer else "crawl" if queue.endswith("~") else "live",
        outcome="superseded" if row["superseded"] else _outcome(row["outcome"], result),
        because=because(payload) if not stage and not consumer else [],
        changed=changed,
        asked=said.get("asked") or {},
        version=said.get("version"),
        state_version=said.get("state"),
        error=row["error"],
    )


def _outcome(outcome: str, result: Any) -> str:
    return f"{outcome} ({result})" if isinstance(result, str) else outcome


def because(payload: Mapping[str, Any]) -> list[str]:
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
