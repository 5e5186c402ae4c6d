"""The kernel's statements by name, and what is common to those who ask; queues become known by them.

The rooms' `sql/` are the whole protocol with the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainspring.db.sql import Statement, load
from mainspring.db.tx import Tx

if TYPE_CHECKING:
    from mainspring.kernel.settings import QueueSettings

SQL: dict[str, Statement] = load("mainspring.kernel")


class ClockReading(NamedTuple):
    """What the database's clock says."""

    now: datetime


async def read_now(tx: Tx) -> datetime:
    """The engine's time."""
    return (await tx.one(SQL["read_clock"], ClockReading)).now


async def register_queues(tx: Tx, queues: Iterable[QueueSettings], *, update: bool) -> None:
    """Write the queues' settings; an operator's change stands until the declaration changes."""
    await tx.run(SQL["register_queues"], update=update, **register_arguments(queues))


def register_arguments(queues: Iterable[QueueSettings]) -> dict[str, object]:
    """Names and declarations, as register_queues.sql takes them."""
    listed = list(queues)
    return {
        "names": [q.name for q in listed],
        "declared": [msgspec.json.encode(q.declared()).decode() for q in listed],
    }
