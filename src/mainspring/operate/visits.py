"""Live visits as an operator sees them: found by key, listed by queue. Nothing here locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.errors import InvalidSetting
from mainspring.operate.history import field_text
from mainspring.operate.keys import stored_keys
from mainspring.operate.parked import ParkedPlace
from mainspring.operate.statements import SQL
from mainspring.redact import read_rules
from mainspring.redact.shown import shown_visit

# Of each priority: whoever looks for a field of payloads looks so far, and is told.
LOOKED = 10_000
STATES = ("waiting", "scheduled", "running", "parked")


@dataclass(frozen=True, slots=True)
class LiveVisit:
    """A visit that is in the table now. `state` is one of STATES (T4)."""

    queue: str
    key: str
    id: UUID
    group: str | None
    priority: int
    state: str
    due_at: datetime
    attempt: int  # of the run under way or to come, of a parked one its last; 1 is the first
    crashes: int
    holder: UUID | None
    started_at: datetime | None
    held_until: datetime | None
    expires_at: datetime | None
    parked_at: datetime | None
    error: str | None
    payload: Any
    created_at: datetime
    changed_at: datetime
    shard: int
    called_off: str | None  # why its run is told to end

    @property
    def place(self) -> ParkedPlace:
        return ParkedPlace(self.shard, self.key, self.queue)


async def find_visit(
    database: Database,
    tx: Tx,
    key: str,
    *,
    queue: str | None = None,
    group: str | None = None,
) -> list[LiveVisit]:
    """Visits of a key (a task's id, or its key within a group), of one queue or of all."""
    keys = stored_keys(key, group)
    found = await tx.rows(SQL["find_visit"], LiveVisit, keys=keys, queue=queue, grp=group)
    return await _live(tx, found)


async def list_visits(
    database: Database,
    tx: Tx,
    *,
    queue: str | None = None,
    state: str | None = None,
    limit: int = 100,
    fields: Mapping[str, object] | None = None,
) -> list[LiveVisit]:
    """Visits in the order in which they will run, running ones first; parked ones are apart.

    `fields`: whose payload has these; of a queue, and of its next LOOKED of each priority.
    """
    if state not in (None, "waiting", "scheduled", "running"):
        raise InvalidSetting(
            f"state must be 'waiting', 'scheduled' or 'running', got {state!r}; "
            "parked visits have a list of their own"
        )
    most = check_page(limit)
    found: list[LiveVisit] = []
    if fields:
        if queue is None:
            raise InvalidSetting("a field of payloads is looked for in a queue: name one")
        texts = {name: field_text(value) for name, value in fields.items()}
        (await read_rules(tx)).check_search(queue, texts)
    if state in (None, "running"):
        found += await tx.rows(SQL["list_held"], LiveVisit, queue=queue, most=most)
    if fields:
        found = [v for v in await _live(tx, found) if _has(v.payload, fields)]
        if state != "running":
            wanted = msgspec.json.encode(fields).decode()
            values = {"queue": queue, "state": state, "fields": wanted, "looked": LOOKED}
            rows = await tx.rows(SQL["find_by_fields"], LiveVisit, **values, most=most)
            found += await _live(tx, rows)
        return found[:most]
    if state != "running":
        found += await tx.rows(SQL["list_visits"], LiveVisit, queue=queue, state=state, most=most)
    return await _live(tx, found[:most])


def _has(payload: object, fields: Mapping[str, object]) -> bool:
    return isinstance(payload, dict) and all(
        name in payload and payload[name] == value for name, value in fields.items()
    )


async def _live(tx: Tx, visits: Sequence[LiveVisit]) -> list[LiveVisit]:
    """Visits as they are shown."""
    return [
        shown_visit(visit, rules, visit.changed_at)
        for rules in [await read_rules(tx)]
        for visit in visits
    ]
