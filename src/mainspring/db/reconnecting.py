"""A line to the database: one connection that is opened again when it breaks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from mainspring.db.database import Database


class Line:
    """One asyncpg connection of a worker, for one loop or under its lock."""

    def __init__(self, database: Database, role: str, **settings: str) -> None:
        self.lock = asyncio.Lock()
        self._database = database
        self._role = role
        self._settings = settings
        self._connection: Any = None

    async def get(self) -> Any:
        """The connection, opened if there is none that lives."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(self._role, settings=self._settings)
        return self._connection

    async def lost(self) -> None:
        """Something went wrong on it: the next user gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(Exception):
                await connection.close(timeout=2)
