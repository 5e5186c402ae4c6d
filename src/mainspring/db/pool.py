"""Small pools of the application's own connections, for enqueueing and looking things up.

asyncpg for async code, psycopg for the rest. A connection is opened when first asked for, kept for
the next caller for a while, and dropped when it broke. What the database fails to do is told in one
family of errors (`outage.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import asyncpg
import psycopg
from psycopg.pq import TransactionStatus

from mainspring.db.connect.outage import is_unsent, outage
from mainspring.db.connect.settings import CLIENT_LOCAL
from mainspring.db.database import COMMAND_SECONDS, Database
from mainspring.db.idle import IDLE_SECONDS, Idle
from mainspring.db.sql import Record, Statement, Values
from mainspring.db.tx import Connection, DriverTransaction, SyncConnection
from mainspring.errors import DatabaseUnavailable

log = logging.getLogger("mainspring")
CLIENT_CONNECTIONS = 10  # of each pool of an application
LOOKS = 10  # at what waits for an answer, within the time after which it is given up

# What a forked child has of its parent's. Even collecting a connection would reach the parent: asyncpg
# then takes its socket out of an event loop whose selector both share.
_inherited: list[object] = []


class Pools:
    """The connections of an application: a pool for each event loop, and one for plain code."""

    def __init__(self, host: KnowsDatabase, *, plain_idle_for: float = IDLE_SECONDS) -> None:
        self._host = host
        self._plain_idle_for = plain_idle_for
        self._by_loop: dict[asyncio.AbstractEventLoop, AsyncPool] = {}
        self._plain: SyncPool | None = None
        self._gate = threading.Lock()  # for threads that make the pool at once

    def known(self) -> AsyncPool | None:
        """The pool of the running event loop, if it has one."""
        return self._by_loop.get(asyncio.get_running_loop())

    async def here(self) -> AsyncPool:
        """The pool of the running event loop."""
        if (pool := self.known()) is None:
            database = await self._host.database()
            for other in list(self._by_loop):
                if other.is_closed():
                    self._by_loop.pop(other, None)
            made = AsyncPool(database, most=CLIENT_CONNECTIONS)
            pool = self._by_loop.setdefault(asyncio.get_running_loop(), made)
        return pool

    def plain(self) -> SyncPool:
        """The pool of plain code."""
        if (pool := self._plain) is None:
            database = self._host.database_sync()
            with self._gate:
                if (pool := self._plain) is None:
                    pool = self._plain = SyncPool(
                        database, most=CLIENT_CONNECTIONS, idle_for=self._plain_idle_for
                    )
        return pool

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        if (pool := self._by_loop.pop(asyncio.get_running_loop(), None)) is not None:
            await pool.close()

    def close_plain(self) -> None:
        """Close the connections of plain code."""
        pool, self._plain = self._plain, None
        if pool is not None:
            pool.close()

    def abandon(self) -> None:
        """In a forked child: neither use nor close the parent's connections."""
        _inherited.extend((self._by_loop, self._plain))
        self._by_loop, self._plain, self._gate = {}, None, threading.Lock()


class KnowsDatabase(Protocol):
    """An application, as its pools see it."""

    async def database(self) -> Database: ...
    def database_sync(self) -> Database: ...


class AsyncPool:
    """asyncpg connections of one event loop.

    A server that does not answer is given up by one look at all of them now and then: a timer for each
    statement is a tenth of what an enqueue costs its caller. The same look closes what has long been idle.
    """

    def __init__(
        self,
        database: Database,
        *,
        most: int,
        patience: float = COMMAND_SECONDS,
        idle_for: float = IDLE_SECONDS,
    ) -> None:
        self.database = database
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(most)
        self._patience = patience
        self._idle_for = idle_for
        self._in_use: set[Connection] = set()
        # By connection and number of the statement that it is at, or was at last: when that was first seen.
        self._seen: dict[tuple[Connection, int], float] = {}
        self._look: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(
        self, *, transaction: bool = False, explained: bool = True
    ) -> AsyncIterator[Connection]:
        """A connection in autocommit, or in a transaction that commits at the end.

        When the database fails the caller is told so by `DatabaseUnavailable`, unless it asked for the
        driver's own errors, to judge them itself.
        """
        undone = transaction or self.database.pooled  # COMMIT was not sent
        async with self._room:
            if undone:
                connection, begun = await self._begun()
            else:
                connection = await self._take()
            try:
                if undone:
                    async with connection.ending(begun):
                        if self.database.pooled:
                            await connection.execute(CLIENT_LOCAL)
                        yield connection
                        undone = False
                else:
                    yield connection
            except BaseException as error:
                found = self._failed(connection, error, undone)
                if explained and found is not None:
                    raise found from error
                raise
            self._give_back(connection)

    async def fetch(self, statement: Statement, values: Values) -> Sequence[Record]:
        """Run one statement alone."""
        async with self.connection() as connection:
            return await connection.send(statement, values)

    async def run(self, statement: Statement, values: Values) -> None:
        """Run one statement alone, whose rows nobody wants: the shortest way there is."""
        if self.database.pooled:
            async with self.connection() as connection:
                await connection.execute(statement.numbered, *statement.arguments(values))
            return
        await self._room.acquire()
        try:
            connection = await self._take()
            while True:
                try:
                    await connection.run_prepared(statement, values)
                except BaseException as error:
                    found = self._failed(connection, error, undone=False)
                    if is_unsent(error):
                        connection = await self._open()
                        continue
                    if found is not None:
                        raise found from error
                    raise
                break
            self._in_use.discard(connection)
            self._idle.append(connection)  # one statement leaves no transaction behind
        finally:
            self._room.release()

    async def _take(self) -> Connection:
        return self._take_idle() or await self._open()

    async def _begun(self) -> tuple[Connection, DriverTransaction]:
        """A connection in a transaction. One that was kept may end just now: its BEGIN did nothing, and is
        sent on a new one."""
        kept = self._take_idle()
        connection = kept or await self._open()
        while True:
            try:
                return connection, await connection.begin()
            except BaseException as error:
                found = self._failed(connection, error, undone=True)
                if found is None:
                    raise
                if connection is not kept:
                    raise found from error
            connection = await self._open()

    def _failed(
        self, connection: Connection, error: BaseException, undone: bool
    ) -> DatabaseUnavailable | None:
        """Give back a connection on which something went wrong; answers what its user is told."""
        found = outage(error, lost=connection.is_closed(), undone=undone)
        self._give_back(connection, error)
        return found

    def _give_back(self, connection: Connection, error: BaseException | None = None) -> None:
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

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return self._used(connection)
            connection.terminate()
        return None

    async def _open(self) -> Connection:
        return self._used(await self.database.connect("client", client=True, command_timeout=None))

    def _used(self, connection: Connection) -> Connection:
        self._in_use.add(connection)
        if self._look is None:
            self._look_later()
        return connection

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        soon = min(self._patience, self._idle_for) / LOOKS
        self._look = loop.call_later(soon, self._look_at_all)

    def _look_at_all(self) -> None:
        """Cut what has been at one statement for too long, whose waiter gets an error, and close what
        nobody has used for a while."""
        now = asyncio.get_running_loop().time()
        idle = set(self._idle)
        at = [
            (connection, connection._protocol.queries_count)
            for connection in self._in_use | idle
            if not connection.is_closed()
        ]
        self._seen = {statement: self._seen.get(statement, now) for statement in at}
        for (connection, _), since in self._seen.items():
            if connection in idle and now - since >= self._idle_for:
                connection.terminate()
            elif connection not in idle and now - since >= self._patience:
                log.warning("database.unanswered", extra={"seconds": round(now - since, 1)})
                connection.terminate()
        self._idle = [connection for connection in self._idle if not connection.is_closed()]
        self._look = None
        if self._in_use or self._idle:
            self._look_later()

    async def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
        for connection in self._idle:
            await connection.close(timeout=5)
        self._idle.clear()


class SyncPool:
    """psycopg connections for all threads."""

    def __init__(self, database: Database, *, most: int, idle_for: float = IDLE_SECONDS) -> None:
        self.database = database
        self._idle: Idle[SyncConnection] = Idle(idle_for)
        self._room = threading.BoundedSemaphore(most)

    @contextmanager
    def connection(self) -> Iterator[SyncConnection]:
        """A connection in a transaction that commits at the end."""
        undone = True  # COMMIT was not sent
        with self._room:
            connection = self._idle.take() or self.database.connect_sync("client", client=True)
            try:
                with connection.transaction() as block:
                    if self.database.pooled:
                        connection.execute(CLIENT_LOCAL)
                    yield connection
                    undone = False
                check_committed(block)
            except BaseException as error:
                found = outage(error, lost=connection.closed, undone=undone)
                if found is not None:
                    raise found from error
                raise
            finally:
                # One whose thread was stopped in the middle of a statement is no use to the next.
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    self._idle.put(connection)
                else:
                    connection.close()

    def close(self) -> None:
        self._idle.close()


def check_committed(block: psycopg.Transaction | psycopg.AsyncTransaction) -> None:
    """psycopg leaves a block on a broken connection without a word."""
    if block.status is block.Status.FAILED:
        raise psycopg.OperationalError("the connection was lost before the commit")


class HasPool(Protocol):
    """What has a database: the application."""

    async def database(self) -> Database: ...
    async def pool(self) -> AsyncPool: ...
