"""The rights that an application's role needs (T11). `docs/operate/rights.md` has the grants."""

from __future__ import annotations

from typing import Any

from mainspring.db.connect import Database
from mainspring.kernel.ask import ask

_READ = ("SELECT",)
_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")

# What enqueueing and asking for results needs.
ENQUEUE: tuple[tuple[str, str], ...] = (
    ("USAGE", "mainspring"),
    *((p, "mainspring.migration") for p in _READ),
    *((p, "mainspring.install") for p in _READ),
    *((p, "mainspring.queue") for p in _READ),
    *((p, "mainspring.worker") for p in _READ),
    *((p, "mainspring.lease") for p in _READ),
    *((p, "mainspring.band") for p in _READ),
    *((p, "mainspring.visit_status") for p in _READ),
    *(
        (p, f"mainspring.{name}")
        for name in ("history", "history_run", "history_bundle")
        for p in _READ
    ),
    *((p, "mainspring.visit") for p in ("SELECT", "INSERT")),
    ("EXECUTE", "mainspring.now()"),
    ("EXECUTE", "mainspring.shard(text, integer)"),
    ("EXECUTE", "mainspring.wake(text, timestamptz)"),
    ("EXECUTE", "mainspring.enqueue(text, jsonb, timestamptz, integer, text, text)"),
)
# What a worker and an operator need besides. New days of history are made by their table's owner.
WORK: tuple[tuple[str, str], ...] = (
    *(
        (privilege, f"mainspring.{table}")
        for table in (
            "visit",
            "queue",
            "worker",
            "reach",
            "death",
            "blame",
            "lease",
            "band",
            "part",
            "history_run",
            "history_other",
            "history_bundle",
            "history_bundle_other",
            "operation",
            "operation_item",
            "recurring",
        )
        for privilege in _ALL
    ),
    ("SELECT", "mainspring.violation"),
    ("OWNER", "mainspring.history_run"),
    ("OWNER", "mainspring.history_bundle"),
)


async def missing_rights(
    database: Database, connection: Any, wanted: tuple[tuple[str, str], ...]
) -> list[tuple[str, str]]:
    """Which of these the connected role lacks."""
    rows = await ask(
        database,
        connection,
        "list_missing_rights",
        privileges=[privilege for privilege, _ in wanted],
        objects=[name for _, name in wanted],
    )
    return [(row["privilege"], row["object"]) for row in rows]
