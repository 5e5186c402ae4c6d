"""Offering the engine's own visits: added, or merged into the one that is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mainspring.db.database import Database
from mainspring.db.sql import CopyStep
from mainspring.db.tx import Tx
from mainspring.ids import new_ids, shard_of, token
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import DEFAULT_PRIORITY


@dataclass(frozen=True, slots=True)
class Offer:
    """A wish that a queue looks at a key, now or at a time."""

    queue: str
    key: str
    due_at: datetime | None = None
    priority: int = DEFAULT_PRIORITY
    payload: str = "{}"  # a JSON object, united with that of the visit that is there


async def offer_visits(database: Database, tx: Tx, offers: Sequence[Offer]) -> None:
    """Offer visits: a run under way that has not settled yet will be followed by another."""
    await tx.run(SQL["offer"], **_values(database, offers))


async def offer_new_visits(database: Database, tx: Tx, offers: Sequence[Offer]) -> None:
    """Offer visits where there are none; one that is there is left as it is."""
    values = _values(database, offers)
    await tx.run(SQL["insert_new"], expires_ats=[None] * len(offers), **values)


def copy_visits(columns: Sequence[str], chunks: Iterator[bytes]) -> CopyStep:
    """Copy visits in, under fresh keys that nobody can have. A column that is not named has its default."""
    return CopyStep("mainspring.visit", columns, chunks)


def _values(database: Database, offers: Sequence[Offer]) -> dict[str, object]:
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
