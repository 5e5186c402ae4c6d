"""Registering queues: what the code declares becomes known to the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.statements import SQL


async def register_queues(
    database: Database, connection: Any, queues: Iterable[QueueSettings], *, update: bool
) -> None:
    """Write the queues' settings; an operator's change stands until the declaration changes."""
    values = {"update": update, **register_arguments(queues)}
    await database.fetch(
        connection, SQL["register_queues"], *SQL["register_queues"].arguments(values)
    )


def register_arguments(queues: Iterable[QueueSettings]) -> dict[str, Any]:
    """Names and declarations, as register_queues.sql takes them."""
    listed = list(queues)
    return {
        "names": [q.name for q in listed],
        "declared": [msgspec.json.encode(q.declared()).decode() for q in listed],
    }
