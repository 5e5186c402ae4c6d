"""The statements of reactive tasks, by name."""

from __future__ import annotations

from typing import Any

from mainspring.db.connect import Database
from mainspring.db.sql import Statement, load

SQL: dict[str, Statement] = load("mainspring.reactive")


async def ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    """Run the statement of that name; answers its rows."""
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))
