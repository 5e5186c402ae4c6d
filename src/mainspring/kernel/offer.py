"""Offering the engine's own visits: added, or merged into the one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel.query import ask
from mainspring.kernel.visit import DEFAULT_PRIORITY, new_ids, shard_of, token


@dataclass(frozen=True, slots=True)
class Offer:
    """A wish that a queue looks at a key, now or at a time."""

    queue: str
    key: str
    due_at: datetime | None = None
    priority: int = DEFAULT_PRIORITY
    payload: str = "{}"  # a JSON object, united with that of the visit that is there


async def offer_visits(database: Database, connection: Any, offers: Sequence[Offer]) -> None:
    """Offer visits: a run under way that has not settled yet will be followed by another."""
    await ask(database, connection, "offer", **_values(database, offers))


async def offer_new_visits(database: Database, connection: Any, offers: Sequence[Offer]) -> None:
    """Offer visits where there are none; one that is there is left as it is."""
    values = _values(database, offers)
    await ask(database, connection, "insert_new", expires_ats=[None] * len(offers), **values)


def _values(database: Database, offers: Sequence[Offer]) -> dict[str, Any]:
    return {
        "shards": [shard_of(o.key, database.shard_count) for o in offers],
        "keys": [o.key for o in offers],
        "queues": [o.queue for o in offers],
        "ids": new_ids(len(offers)),
        "groups": [None for _ in offers],
        "priorities": [o.priority for o in offers],
        "due_ats": [o.due_at for o in offers],
        "versions": [token() for _ in offers],
        "payloads": [o.payload for o in offers],
    }
