"""Calls that wait, or are parked, and are encrypted with a key that the cipher does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.db.database import Database
from mainspring.db.pool import SyncPool
from mainspring.db.tx import SyncTx, Tx
from mainspring.operate import Finding
from mainspring.phrases import counted
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.statements import SQL

MOST_LOOKED_AT = 100_000  # visits


class KnownKeys(NamedTuple):
    """A row of known_keys.sql."""

    workers: int
    keys: list[str]


class SealedCalls(NamedTuple):
    """Calls of a task under one key."""

    queue: str
    key: str
    calls: int


async def tell_keys(tx: Tx, worker_id: UUID, keys: Sequence[str]) -> None:
    """Which keys a worker can open."""
    await tx.run(SQL["tell_keys"], worker_id=worker_id, keys=list(keys))


async def examine(database: Database, tx: Tx) -> list[Finding]:
    """For the doctor: calls that wait or are parked under keys that no worker can open."""
    known = await tx.first(SQL["known_keys"], KnownKeys)
    if known is None or not known.workers:  # nobody runs: that is another finding
        return []
    rows = await tx.rows(SQL["cipher_keys"], SealedCalls, most=MOST_LOOKED_AT)
    remedy = "give the cipher of the workers that key too; what is parked is then restarted"
    return [
        Finding(
            "cipher_key",
            "warn",
            f"{counted(row.calls, 'call')} of {row.queue!r} encrypted with key {row.key!r}, which no "
            "worker that runs can open",
            remedy,
        )
        for row in rows
        if row.key not in known.keys
    ]


def unreadable(sealing: Sealing, pool: SyncPool) -> list[SealedCalls]:
    """Those whose key is unknown, by task."""
    with pool.connection() as connection:
        found = SyncTx(connection).rows(SQL["cipher_keys"], SealedCalls, most=MOST_LOOKED_AT)
    return [row for row in found if row.key not in sealing.cipher.key_ids]
