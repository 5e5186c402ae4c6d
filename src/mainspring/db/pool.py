"""Small pools of the application's own connections, for enqueueing and looking things up.

asyncpg for async code, psycopg for the rest. A connection is opened when first asked for, kept for
the next caller, and dropped when it broke.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import asyncpg
import psycopg
from psycopg.pq import TransactionStatus

from mainspring.db.connect import COMMAND_SECONDS, Database, is_usable, read_committed
from mainspring.db.sql import Statement

T = TypeVar("T")
log = logging.getLogger("mainspring")
LOOKS = 10  # at what waits for an answer, within the time after which it is given up

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
    """asyncpg connections of one event loop.

    A server that does not answer is given up by one look at all of them now and then: a timer for each
    statement is a tenth of what an enqueue costs its caller.
    """

    def __init__(self, database: Database, *, most: int, patience: float = COMMAND_SECONDS) -> None:
        self.database = database
        self._idle: list[Any] = []
        self._room = asyncio.Semaphore(most)
        self._patience = patience
        self._in_use: set[Any] = set()
        # By connection and number of the statement that it is at: when that was first seen.
        self._seen: dict[tuple[Any, int], float] = {}
        self._look: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, *, transaction: bool = False) -> AsyncIterator[Any]:
        """A connection in autocommit, or in a transaction that commits at the end."""
        async with self._room:
            connection = self._take_idle() or await self._open()
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
        async with self.connection() as connection:
            return await connection.fetch(statement.numbered, *statement.arguments(values))  # type: ignore[no-any-return]

    async def run(self, statement: Statement, values: Mapping[str, Any]) -> None:
        """Run one statement alone, which answers no rows: the shortest way there is."""
        if self.database.pooled:
            async with self.connection() as connection:
                await connection.execute(statement.numbered, *statement.arguments(values))
            return
        await self._room.acquire()
        try:
            connection = self._take_idle() or await self._open()
            try:
                await connection.run(statement, values)
            except BaseException as error:
                self._give_back(connection, error)
                raise
            self._in_use.discard(connection)
            self._idle.append(connection)  # one statement leaves no transaction behind
        finally:
            self._room.release()

    def _give_back(self, connection: Any, error: BaseException | None = None) -> None:
        """Keep a connection if the server has answered for all that was sent on it.

        A caller that was cancelled may have left a transaction behind, even one whose BEGIN is still
        on its way: what the next caller adds would be in it, answered and never committed.
        """
        self._in_use.discard(connection)
        answered = error is None or isinstance(error, asyncpg.PostgresError)
        if connection.is_closed():
            return
        if not answered or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)

    def _take_idle(self) -> Any:
        while (connection := pop_idle(self._idle)) is not None:
            if not connection.is_closed():
                return self._used(connection)
        return None

    async def _open(self) -> Any:
        return self._used(await self.database.connect("client", client=True, command_timeout=None))

    def _used(self, connection: Any) -> Any:
        self._in_use.add(connection)
        if self._look is None:
            self._look_later()
        return connection

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(self._patience / LOOKS, self._give_up_unanswered)

    def _give_up_unanswered(self) -> None:
        """Cut what has been at one statement for too long; whoever waits for it gets an error."""
        now = asyncio.get_running_loop().time()
        at = [(c, c._protocol.queries_count) for c in self._in_use if not c.is_closed()]
        self._seen = {statement: self._seen.get(statement, now) for statement in at}
        for (connection, _), since in self._seen.items():
            if now - since >= self._patience:
                log.warning("database.unanswered", extra={"seconds": round(now - since, 1)})
                connection.terminate()
        self._look = None
        if self._in_use:
            self._look_later()

    async def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
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
