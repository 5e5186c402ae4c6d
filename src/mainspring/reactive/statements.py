"""The statements of reactive tasks, by name."""

from __future__ import annotations

from typing import Any

from mainspring.db.database import Database
from mainspring.db.sql import Statement, load

SQL: dict[str, Statement] = load("mainspring.reactive")
_LOCKED = "55P03"
PATIENCE = 10  # waits of a lock timeout each


async def ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    """Run the statement of that name; answers its rows."""
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))


async def ask_patiently(
    database: Database, connection: Any, name: str, /, **values: Any
) -> list[Any]:
    """The same, sent again while another scheduler has what it waits for.

    For a statement alone in its transaction that compares what it writes to: it may be sent twice.
    """
    for _ in range(PATIENCE):
        try:
            return await ask(database, connection, name, **values)
        except Exception as error:
            if getattr(error, "sqlstate", None) != _LOCKED:
                raise
    return await ask(database, connection, name, **values)
