"""Registering kinds: what the code declares becomes known to the database. (C1 replaces this file.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainspring.db.connect import Database
from mainspring.entities.kind import Kind
from mainspring.entities.store import SQL
from mainspring.entities.table import Shape, check_shape, shape_of

_UPSERT = """
insert into mainspring.kind (name, pool, source, keys, key_types, version_column, capture, ignored, notify)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (name) do nothing
"""


async def register_kinds(
    database: Database, connection: Any, kinds: Iterable[Kind]
) -> dict[str, Shape]:
    """Write the kinds; answers the shapes of their tables."""
    shapes = {}
    for kind in kinds:
        s = kind.settings
        types: list[str] = []
        if s.table is not None:
            rows = await connection.fetch(SQL["inspect_table"].numbered, s.table)
            shape = shape_of(rows[0]) if rows else None
            if not kind.is_document:
                shape = check_shape(
                    s.name, s.table, shape, keys=s.keys, version=s.version, ignore=s.ignore
                )
                types = shape.types(s.keys)
            assert shape is not None
            shapes[s.name] = shape
        await connection.execute(
            _UPSERT,
            s.name,
            s.pool,
            s.source,
            list(s.keys),
            types,
            s.version,
            s.capture,
            list(s.ignore),
            s.notify,
        )
    return shapes
