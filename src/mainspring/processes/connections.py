"""Connections of the layer's own in a worker: a few, opened when first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mainspring.db.database import Database, backoff, is_transient
from mainspring.db.reconnecting import Line
from mainspring.db.sql import Statement

log = logging.getLogger("mainspring")
# Structural changes under way at once; each has a connection for as long as it lasts.
CHANGES_AT_ONCE = 2


class Lines:
    """One line to read what is handed out, and a few for structural changes."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._desk = Line(database, "desk")
        self._idle = [Line(database, "process", lock_timeout="2s") for _ in range(CHANGES_AT_ONCE)]
        self._all = [self._desk, *self._idle]
        self._room = asyncio.Semaphore(CHANGES_AT_ONCE)

    async def fetch(self, statement: Statement, values: dict[str, Any]) -> list[Any]:
        """Read on the desk's line, through any outage: a task is not to blame for one."""
        tries = 0
        while True:
            async with self._desk.lock:
                try:
                    connection = await self._desk.get()
                    return await self.database.fetch(
                        connection, statement, *statement.arguments(values)
                    )
                except Exception as error:
                    await self._desk.lost()
                    if not is_transient(error):
                        raise
                    if tries % 20 == 0:
                        log.warning("desk.waiting", extra={"error": str(error)})
            await asyncio.sleep(backoff(tries))
            tries += 1

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection for one structural change."""
        async with self._room:
            line = self._idle.pop()
            try:
                yield await line.get()
            except BaseException:
                await line.lost()
                raise
            finally:
                self._idle.append(line)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """The same, in a transaction."""
        async with self.connection() as connection, self.database.transaction(connection):
            yield connection

    async def close(self) -> None:
        for line in self._all:
            await line.close()
