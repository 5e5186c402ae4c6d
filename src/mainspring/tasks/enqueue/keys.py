"""Calls that wait, or are parked, and are encrypted with a key that the cipher does not have."""

from __future__ import annotations

from typing import NamedTuple

from mainspring.db.pool import SyncPool
from mainspring.db.tx import SyncTx
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.statements import SQL

MOST_LOOKED_AT = 100_000  # visits


class SealedCalls(NamedTuple):
    """Calls of a task under one key."""

    queue: str
    key: str
    calls: int


def unreadable(sealing: Sealing, pool: SyncPool) -> list[SealedCalls]:
    """Those whose key is unknown, by task."""
    with pool.connection() as connection:
        found = SyncTx(connection).rows(SQL["cipher_keys"], SealedCalls, most=MOST_LOOKED_AT)
    return [row for row in found if row.key not in sealing.cipher.key_ids]
