"""Registering queues: what the code declares becomes known to the database."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainspring.db.tx import Tx
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.statements import SQL


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
