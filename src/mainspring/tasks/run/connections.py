"""Connections for the tasks' own SQL: one per slot at most, opened when first asked for (T9).

A task never waits for another task's connection, and the engine never for a task's. Only where the server
takes nobody more does it wait, for one that is free here or for room there: that is no failure of its own.
What a task does to its session (settings, role, temporary tables, locks) ends with it: the next one finds
it as new.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import LiteralString

import psycopg
from psycopg import sql

from mainspring.db.connect.settings import CLIENT_LOCAL
from mainspring.db.database import Database
from mainspring.db.idle import IDLE_SECONDS, Idle
from mainspring.db.pool import AsyncPool, SyncPool, check_committed
from mainspring.db.tx import AsyncConnection, SyncConnection, SyncTx
from mainspring.errors import DatabaseUnavailable
from mainspring.kernel import KERNEL_SQL, Run, WorkerPort
from mainspring.tasks.run.cutting import InUse
from mainspring.tasks.run.progress import ProgressLine

log = logging.getLogger("mainspring")
# For so long after the server was full, what nobody waits for here is closed and not kept (seconds).
SCARCE_SECONDS = 60.0
# Where the server is full: a look for what is free here, and one new try of all that wait here (seconds).
_LOOK_SECONDS, _TRY_SECONDS = 0.05, 0.5
# What DISCARD ALL does, but for prepared statements: psycopg's own stay, for they are what makes the next
# settle cheap; those of a task's SQL are named in the answer. RESET ROLE goes back to that of the address.
_RESET: LiteralString = """
close all; set session authorization default; reset role; reset all; unlisten *;
discard temp; discard sequences;
select name from pg_prepared_statements, pg_advisory_unlock_all() where from_sql
"""
# Behind a pooler the session is others' too: the same in the transaction, as far as that is possible.
_RESET_LOCAL: LiteralString = (
    "set session authorization default; reset role; reset all; discard temp; discard sequences"
)


class Connections:
    """Idle connections are kept for the next task, for a while; broken ones are dropped."""

    def __init__(
        self,
        database: Database,
        worker: WorkerPort,
        *,
        idle_for: float = IDLE_SECONDS,
    ) -> None:
        self.worker = worker
        self.progress = ProgressLine(worker)
        self._database = database
        self._idle: Idle[AsyncConnection] = Idle(idle_for)
        self._idle_sync: Idle[SyncConnection] = Idle(idle_for)
        self.in_use = InUse()
        self._scarcity = _Scarcity()
        self._pool: AsyncPool | None = None
        self._sync_pool: SyncPool | None = None

    def pool(self) -> AsyncPool:
        """Looks at the worker's own database, where a caller's connection is compared with it."""
        if self._pool is None:
            self._pool = AsyncPool(self._database, most=1)
        return self._pool

    def sync_pool(self) -> SyncPool:
        """The same for plain functions."""
        if self._sync_pool is None:
            self._sync_pool = SyncPool(self._database, most=1)
        return self._sync_pool

    @asynccontextmanager
    async def transaction(
        self, committed: Callable[[], None] = lambda: None
    ) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that commits at the end; only savepoints go inside it. `committed`
        is called right after COMMIT, before the connection is made ready for others."""
        connection = await self._take()
        with self.in_use.used(connection):
            try:
                async with connection.transaction() as block:
                    if self._database.pooled:
                        await connection.execute(CLIENT_LOCAL)
                    yield connection
                    if self._database.pooled:
                        await connection.execute(f"{_RESET_LOCAL}; {CLIENT_LOCAL}")
                check_committed(block)
                committed()
            finally:
                await asyncio.shield(self._give_back(connection))

    @contextmanager
    def transaction_sync(
        self, committed: Callable[[], None] = lambda: None
    ) -> Iterator[SyncConnection]:
        """The same for plain functions."""
        connection = self._take_sync()
        with self.in_use.used(connection):
            try:
                with connection.transaction() as block:
                    if self._database.pooled:
                        connection.execute(CLIENT_LOCAL)
                    yield connection
                    if self._database.pooled:
                        connection.execute(f"{_RESET_LOCAL}; {CLIENT_LOCAL}")
                check_committed(block)
                committed()
            finally:
                self._give_back_sync(connection)

    async def _take(self) -> AsyncConnection:
        while True:
            if (idle := self._idle.take()) is not None:
                return idle
            if self._scarcity.may_try():
                try:
                    return await self._database.connect_task()
                except DatabaseUnavailable as error:
                    if not await self._is_full():
                        raise
                    self._scarcity.met(error)
            with self._scarcity.waiting():
                await asyncio.sleep(_LOOK_SECONDS)

    def _take_sync(self) -> SyncConnection:
        while True:
            if (idle := self._idle_sync.take()) is not None:
                return idle
            if self._scarcity.may_try():
                try:
                    return self.in_use.open(self._database.connect_task_sync)
                except DatabaseUnavailable as error:
                    if not asyncio.run(self._is_full()):
                        raise
                    self._scarcity.met(error)
            with self._scarcity.waiting():
                time.sleep(_LOOK_SECONDS)

    async def _is_full(self) -> bool:
        """Whether the server takes nobody just now: libpq does not tell why it refused, asyncpg does."""
        try:
            connection = await self._database.connect("task", client=True)
        except DatabaseUnavailable as error:
            return error.passes
        await connection.close()
        return True  # there is room again

    async def _give_back(self, connection: AsyncConnection) -> None:
        try:
            await connection.rollback()
            connection.row_factory = psycopg.rows.tuple_row
            if not self._database.pooled:
                prepared = await connection.execute(_RESET, prepare=False)
                for name in _names(prepared):
                    await connection.execute(_deallocate(name))
        except psycopg.Error:
            await connection.close()  # broken, or stopped in the middle of a statement
        else:
            if self._scarcity.is_on:
                await connection.close()
            else:
                self._idle.put(connection)

    def _give_back_sync(self, connection: SyncConnection) -> None:
        try:
            connection.rollback()
            connection.row_factory = psycopg.rows.tuple_row
            if not self._database.pooled:
                for name in _names(connection.execute(_RESET, prepare=False)):
                    connection.execute(_deallocate(name))
        except psycopg.Error:
            connection.close()
        else:
            if self._scarcity.is_on:
                connection.close()
            else:
                self._idle_sync.put(connection)

    def did_commit(self, run: Run) -> bool:
        """After a lost answer to COMMIT: whether the run is settled. Waits for a commit under way."""
        with self._database.connect_sync("task", client=True) as connection:
            tx = SyncTx(connection)
            with connection.transaction():
                if tx.first(KERNEL_SQL["lock_unsettled"], int, **unsettled_values(run)) is not None:
                    return False
            values = {"key": run.visit.key, "started": run.started, "run": run.token}
            return tx.one(KERNEL_SQL["has_history"], bool, **values)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
        if self._sync_pool is not None:
            self._sync_pool.close()
        self._idle.close()
        self._idle_sync.close()


class _Scarcity:
    """Whether the server was full lately, and how many tasks wait for a connection. For all threads."""

    def __init__(self) -> None:
        self._until = self._try_at = 0.0
        self._told_at = float("-inf")
        self._waiting = 0
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether others need a connection more than the next task here might."""
        return not self._waiting and time.monotonic() < self._until

    def may_try(self) -> bool:
        """Whether to ask the server: while it is full, one of those that wait, now and then."""
        now = time.monotonic()
        with self._lock:
            if self._waiting and now < self._try_at:
                return False
            self._try_at = now + _TRY_SECONDS
            return True

    def met(self, error: DatabaseUnavailable) -> None:
        """The server is full."""
        now = time.monotonic()
        self._until = now + SCARCE_SECONDS
        if now > self._told_at + SCARCE_SECONDS:
            self._told_at = now
            text = "tasks wait for a connection: lower --concurrency, or raise max_connections"
            log.warning("task.waits_for_connection", extra={"error": str(error), "text": text})

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1


def _names(cursor: psycopg.Cursor[object] | psycopg.AsyncCursor[object]) -> list[str]:
    """The last answer of a reset, of which all has come."""
    while cursor.nextset():
        pass
    found = cursor.pgresult
    if found is None:
        return []
    return [(found.get_value(row, 0) or b"").decode() for row in range(found.ntuples)]


def _deallocate(name: str) -> sql.Composed:
    return sql.SQL("deallocate {}").format(sql.Identifier(name))


def unsettled_values(run: Run) -> dict[str, object]:
    """The arguments of lock_unsettled.sql."""
    visit = run.visit
    return {
        "shard": visit.shard,
        "key": visit.key,
        "queue": visit.queue,
        "version": visit.version,
    }
