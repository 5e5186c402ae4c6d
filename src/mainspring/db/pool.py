"""Small pools of the application's own connections, for enqueueing and looking things up.

asyncpg for async code, psycopg for the rest. A connection is opened when first asked for, kept for
the next caller, and dropped when it broke.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import asyncpg
import psycopg
from psycopg.pq import TransactionStatus

from mainspring.db.connect import Database, is_usable, read_committed
from mainspring.db.sql import Statement

T = TypeVar("T")

# What a forked child has of its parent's. Even collecting a connection would reach the parent: asyncpg
# then takes its socket out of an event loop whose selector both share.
_inherited: list[Any] = []


def abandon(*pools: Any) -> None:
    """In a forked child: neither use nor close the parent's connections."""
    _inherited.extend(pools)


def pop_idle(idle: list[T]) -> T | None:
    """The connection that was used last, if any: other threads take from the same list."""
    try:
        return idle.pop()
    except IndexError:
        return None


class AsyncPool:
    """asyncpg connections of one event loop."""

    def __init__(self, database: Database, *, most: int) -> None:
        self.database = database
        self._idle: list[Any] = []
        self._room = asyncio.Semaphore(most)

    @asynccontextmanager
    async def connection(self, *, transaction: bool = False) -> AsyncIterator[Any]:
        """A connection in autocommit, or in a transaction that commits at the end."""
        async with self._room:
            connection = await self._take()
            try:
                if transaction or self.database.pooled:
                    async with read_committed(connection):
                        if (local := self.database.local_settings(client=True)) is not None:
                            await connection.execute(local)
                        yield connection
                else:
                    yield connection
            except BaseException as error:
                self._give_back(connection, error)
                raise
            self._give_back(connection)

    async def fetch(self, statement: Statement, values: Mapping[str, Any]) -> list[Any]:
        """Run one statement alone."""
        arguments = statement.arguments(values)
        if self.database.pooled:
            async with self.connection() as connection:
                return await connection.fetch(statement.numbered, *arguments)  # type: ignore[no-any-return]
        async with self._room:
            connection = await self._take()
            try:
                rows = await connection.fetch(statement.numbered, *arguments)
            except BaseException as error:
                self._give_back(connection, error)
                raise
            self._give_back(connection)
            return rows  # type: ignore[no-any-return]

    def _give_back(self, connection: Any, error: BaseException | None = None) -> None:
        """Keep a connection if the server has answered for all that was sent on it.

        A caller that was cancelled may have left a transaction behind, even one whose BEGIN is still
        on its way: what the next caller adds would be in it, answered and never committed.
        """
        answered = error is None or isinstance(error, asyncpg.PostgresError)
        if not answered or connection.is_in_transaction():
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    async def _take(self) -> Any:
        while (connection := pop_idle(self._idle)) is not None:
            if not connection.is_closed():
                return connection
        return await self.database.connect("client", client=True)

    async def close(self) -> None:
        for connection in self._idle:
            await connection.close(timeout=5)
        self._idle.clear()


class SyncPool:
    """psycopg connections for all threads."""

    def __init__(self, database: Database, *, most: int) -> None:
        self._database = database
        self._idle: list[psycopg.Connection[Any]] = []
        self._room = threading.BoundedSemaphore(most)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection in a transaction that commits at the end."""
        with self._room:
            connection = self._take()
            try:
                with connection.transaction():
                    if (local := self._database.local_settings(client=True)) is not None:
                        connection.execute(local)
                    yield connection
            finally:
                # One whose thread was stopped in the middle of a statement is no use to the next.
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()

    def _take(self) -> psycopg.Connection[Any]:
        while (connection := pop_idle(self._idle)) is not None:
            if is_usable(connection):
                return connection
            connection.close()
        return self._database.connect_sync("client", client=True)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()
