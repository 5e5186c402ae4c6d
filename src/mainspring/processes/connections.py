"""How the layer uses the connections of its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection, Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.db.sql import Record, Statement, Values
from mainspring.kernel import WorkerPort

R = TypeVar("R")

# Structural changes under way at once; each has a connection for as long as it lasts.
CHANGES_AT_ONCE = 2


class Lines:
    """One line to read what is handed out, and a few for structural changes."""

    def __init__(self, database: Database, worker: WorkerPort) -> None:
        self.database = database
        self._desk = worker.line()
        self._idle = [
            worker.line("process", settings={"lock_timeout": "2s"}) for _ in range(CHANGES_AT_ONCE)
        ]
        self._room = asyncio.Semaphore(CHANGES_AT_ONCE)

    async def rows(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> list[R]:
        """Read on the desk's line, through any outage: a task is not to blame for one."""
        return [row(*record) for record in await self._send(statement, values)]

    async def first(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> R | None:
        """The first row, if there is any."""
        found = await self._send(statement, values)
        return row(*found[0]) if found else None

    async def run(self, statement: Statement, /, **values: object) -> None:
        """A statement whose rows, if any, nobody wants."""
        await self._send(statement, values)

    async def _send(self, statement: Statement, values: Values) -> Sequence[Record]:
        outage: Reconnecting | None = None
        while True:
            try:
                async with self._desk.use() as connection:
                    return await connection.send(statement, values)
            except Exception as error:
                if not is_transient(error):
                    raise
                outage = outage or Reconnecting("desk.waiting")
                await outage.wait(error)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one structural change."""
        async with self._room:
            line = self._idle.pop()
            try:
                async with line.use() as connection:
                    yield connection
            finally:
                self._idle.append(line)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """The same, in a transaction."""
        async with self.connection() as connection, connection.atomic():
            yield connection
