"""Connections for the tasks' own SQL: one per slot at most, opened when first asked for (T9).

A task never waits for another task's connection, and the engine never for a task's. What a task does to
its session (settings, role, temporary tables, locks) ends with it: the next one finds it as new.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from mainspring.db.connect import Database
from mainspring.db.idle import IDLE_SECONDS, Idle
from mainspring.db.pool import check_committed as _check_committed
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run
from mainspring.tasks.cutting import InUse

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
        worker_id: Callable[[], UUID | None],
        *,
        idle_for: float = IDLE_SECONDS,
    ) -> None:
        self.worker_id = worker_id
        self._database = database
        self._idle: Idle[psycopg.AsyncConnection[Any]] = Idle(idle_for)
        self._idle_sync: Idle[psycopg.Connection[Any]] = Idle(idle_for)
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
                    if local is not None:
                        await connection.execute(f"{_RESET_LOCAL}; {local}")
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
                    if local is not None:
                        connection.execute(f"{_RESET_LOCAL}; {local}")
                _check_committed(block)
            finally:
                self._give_back_sync(connection)

    async def _take(self) -> psycopg.AsyncConnection[Any]:
        return self._idle.take() or await self._database.connect_task()

    def _take_sync(self) -> psycopg.Connection[Any]:
        return self._idle_sync.take() or self.in_use.open(self._database.connect_task_sync)

    async def _give_back(self, connection: psycopg.AsyncConnection[Any]) -> None:
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
            self._idle.put(connection)

    def _give_back_sync(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.rollback()
            connection.row_factory = psycopg.rows.tuple_row
            if not self._database.pooled:
                for name in _names(connection.execute(_RESET, prepare=False)):
                    connection.execute(_deallocate(name))
        except psycopg.Error:
            connection.close()
        else:
            self._idle_sync.put(connection)

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
        self._idle.close()
        self._idle_sync.close()


def _names(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> list[str]:
    """The last answer of a reset, of which all has come."""
    while cursor.nextset():
        pass
    found = cursor.pgresult
    if found is None:
        return []
    return [(found.get_value(row, 0) or b"").decode() for row in range(found.ntuples)]


def _deallocate(name: str) -> sql.Composed:
    return sql.SQL("deallocate {}").format(sql.Identifier(name))


def lock_arguments(run: Run) -> dict[str, Any]:
    """The arguments of lock_unsettled.sql."""
    visit = run.visit
    return {
        "shard": visit.shard,
        "key": visit.key,
        "queue": visit.queue,
        "version": visit.version,
    }
