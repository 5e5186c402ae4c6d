"""Asking the database by a statement's name: what operators' questions and orders are made of."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting
from mainspring.kernel.statements import SQL

PAGE_MOST = 500


async def ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    """Run the statement of that name; answers its rows."""
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))


def check_page(limit: int) -> int:
    """The size of a page, if it can be one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PAGE_MOST:
        raise InvalidSetting(f"limit must be 1 to {PAGE_MOST}, got {limit!r}; read page by page")
    return limit


def decoded(text: str | None) -> Any:
    """A JSON column, which travels as text."""
    return None if text is None else msgspec.json.decode(text)
