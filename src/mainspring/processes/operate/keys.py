"""Steps of open processes that are encrypted with a key which the cipher does not have."""

from __future__ import annotations

from typing import NamedTuple

from mainspring.db.pool import SyncPool
from mainspring.db.tx import SyncTx
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.sealing import Sealing

MOST_LOOKED_AT = 100_000  # tasks


class SealedSteps(NamedTuple):
    """Steps of an actor whose arguments, results or signals are under one key."""

    actor: str
    key: str
    steps: int


def unreadable_steps(sealing: Sealing, pool: SyncPool) -> list[SealedSteps]:
    """Those whose key is unknown, by actor."""
    with pool.connection() as connection:
        found = SyncTx(connection).rows(SQL["step_keys"], SealedSteps, most=MOST_LOOKED_AT)
    return [row for row in found if row.key not in sealing.cipher.key_ids]
