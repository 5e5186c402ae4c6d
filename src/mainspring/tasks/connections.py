"""Connections for the tasks' own SQL: one per slot at most, opened when first asked for (T9).

A task never waits for another task's connection, and the engine never for a task's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import psycopg

from mainspring.db.connect import Database, is_usable
from mainspring.db.pool import pop_idle
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run
from mainspring.tasks.cutting import InUse


class Connections:
    """Idle connections are kept for the next task; broken ones are dropped."""

    def __init__(self, database: Database, worker_id: Callable[[], UUID | None]) -> None:
        self.worker_id = worker_id
        self._database = database
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self._idle_sync: list[psycopg.Connection[Any]] = []
        self.in_use = InUse()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection in a transaction that commits at the end; only savepoints go inside it."""
        connection = await self._take()
        with self.in_use.used(connection):
            try:
                async with connection.transaction() as block:
                    if (local := self._database.local_settings(client=True)) is not None:
                        await connection.execute(local)
                    yield connection
                _check_committed(block)
            finally:
                await asyncio.shield(self._give_back(connection))

    @contextmanager
    def transaction_sync(self) -> Iterator[psycopg.Connection[Any]]:
        """The same for plain functions."""
        connection = self._take_sync()
        with self.in_use.used(connection):
            try:
                with connection.transaction() as block:
                    if (local := self._database.local_settings(client=True)) is not None:
                        connection.execute(local)
                    yield connection
                _check_committed(block)
            finally:
                self._give_back_sync(connection)

    async def _take(self) -> psycopg.AsyncConnection[Any]:
        while (connection := pop_idle(self._idle)) is not None:
            if is_usable(connection):
                return connection
            await connection.close()
        connection = await psycopg.AsyncConnection.connect(
            self._database.url, **self._database.psycopg_arguments("task")
        )
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection

    def _take_sync(self) -> psycopg.Connection[Any]:
        while (connection := pop_idle(self._idle_sync)) is not None:
            if is_usable(connection):
                return connection
            connection.close()
        return self.in_use.open(self._open_sync)

    def _open_sync(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._database.url, **self._database.psycopg_arguments("task"))
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    async def _give_back(self, connection: psycopg.AsyncConnection[Any]) -> None:
        try:
            await connection.rollback()
        except psycopg.Error:
            await connection.close()  # broken, or stopped in the middle of a statement
        else:
            connection.row_factory = psycopg.rows.tuple_row
            self._idle.append(connection)

    def _give_back_sync(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()
        else:
            connection.row_factory = psycopg.rows.tuple_row
            self._idle_sync.append(connection)

    def did_commit(self, run: Run) -> bool:
        """After a lost answer to COMMIT: whether the run is settled. Waits for a commit under way."""
        with self._database.connect_sync("task", client=True) as connection:
            with connection.transaction():
                unsettled = connection.execute(
                    SQL["lock_unsettled"].text, lock_arguments(run)
                ).fetchone()
            if unsettled is not None:
                return False
            known = connection.execute(
                SQL["has_history"].text,
                {"key": run.visit.key, "started": run.started, "run": run.token},
            ).fetchone()
        return bool(known and known[0])

    async def close(self) -> None:
        for connection in self._idle:
            await connection.close()
        for plain in self._idle_sync:
            plain.close()
        self._idle.clear()
        self._idle_sync.clear()


def _check_committed(block: psycopg.Transaction | psycopg.AsyncTransaction) -> None:
    """psycopg leaves a block on a broken connection without a word."""
    if block.status is block.Status.FAILED:
        raise psycopg.OperationalError("the connection was lost before the commit")


def lock_arguments(run: Run) -> dict[str, Any]:
    """The arguments of lock_unsettled.sql."""
    visit = run.visit
    return {
        "shard": visit.shard,
        "key": visit.key,
        "queue": visit.queue,
        "version": visit.version,
    }
