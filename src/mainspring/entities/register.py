"""Registering kinds: their tables are looked at, and what the code declares is made known."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.db.sql import Statement
from mainspring.entities.capture.triggers import PREFIX, FoundTrigger, faults, own
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.table import Shape
from mainspring.entities.source.choose import checked
from mainspring.entities.statements import SQL

log = logging.getLogger("mainspring")


async def register_kinds(
    database: Database, connection: Any, kinds: Iterable[DeclaredKind]
) -> dict[str, Shape]:
    """Look at the tables of kinds and register them (asyncpg); answers the shapes by kind."""

    async def fetch(statement: Statement, values: dict[str, Any]) -> list[Any]:
        return await database.fetch(connection, statement, *statement.arguments(values))

    shapes: dict[str, Shape] = {}
    for kind in sorted(kinds, key=lambda k: k.name):
        shape = None
        if (table := kind.settings.table) is not None:
            shape = checked(kind, await fetch(SQL["inspect_table"], {"name": table}))
            shapes[kind.name] = shape
        await fetch(SQL["register_kind"], registration(kind, shape))
        if shape is not None:
            _warn(kind, shape, await find_triggers(database, connection, kind.settings))
    return shapes


def _warn(kind: DeclaredKind, shape: Shape, there: list[FoundTrigger]) -> None:
    """A worker runs without triggers, but somebody should know that changes are not seen."""
    for fault, places in faults(kind.settings, shape, there).items():
        log.warning(
            "capture.faulty",
            extra={
                "kind": kind.name,
                "fault": fault,
                "triggers": places[:10],
                "remedy": "run mainspring migrate module:app",
            },
        )


async def find_triggers(
    database: Database, connection: Any, kind: KindSettings
) -> list[FoundTrigger]:
    """Our triggers of a kind, as they are (asyncpg)."""
    statement = SQL["list_triggers"]
    rows = await database.fetch(connection, statement, trigger_prefix(kind.name))
    return own(kind.name, map(found, rows))


def registration(kind: DeclaredKind, shape: Shape | None) -> dict[str, Any]:
    """The values of register_kind.sql."""
    s = kind.settings
    declared = {"serial": s.serial, "jitter": s.jitter}
    return {
        "name": s.name,
        "pool": s.pool,
        "source": s.source,
        "keys": list(s.keys),
        "key_types": [] if shape is None or kind.is_document else shape.types(s.keys),
        "version": s.version,
        "capture": s.capture,
        "ignored": list(s.ignore),
        "notify": s.notify,
        "declared": msgspec.json.encode(declared).decode(),
        "crawl_seconds": s.crawl_every.total_seconds() if s.crawl_every else None,
    }


def trigger_prefix(kind: str) -> str:
    """The value of list_triggers.sql."""
    return f"{PREFIX}{kind}_"


def found(row: Mapping[str, Any]) -> FoundTrigger:
    """A row of list_triggers.sql."""
    return FoundTrigger(
        oid=row["oid"],
        table=row["table_name"],
        name=row["name"],
        function=row["function"],
        arguments=tuple(part.decode() for part in bytes(row["arguments"]).split(b"\0")[:-1]),
        enabled=row["enabled"],
    )
