"""Connections for the tasks' own SQL: one per slot at most, opened when first asked for (T9).

A task never waits for another task's connection, and the engine never for a task's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from mainspring.db.connect import Database, is_usable
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run


class Connections:
    """Idle connections are kept for the next task; broken ones are dropped."""

    def __init__(self, database: Database, worker_id: Callable[[], UUID | None]) -> None:
        self.worker_id = worker_id
        self._database = database
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self._idle_sync: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()

    async def take(self) -> psycopg.AsyncConnection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if is_usable(connection):
                break
            await connection.close()
        else:
            connection = await psycopg.AsyncConnection.connect(
                self._database.url, **self._database.psycopg_arguments("task")
            )
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        if (local := self._database.local_settings(client=True)) is not None:
            await connection.execute(local)
        return connection

    async def give_back(self, connection: psycopg.AsyncConnection[Any]) -> None:
        if connection.closed or connection.broken:
            return
        await connection.rollback()
        self._idle.append(connection)

    def take_sync(self) -> psycopg.Connection[Any]:
        with self._lock:
            while self._idle_sync:
                connection = self._idle_sync.pop()
                if is_usable(connection):
                    break
                connection.close()
            else:
                connection = psycopg.connect(
                    self._database.url, **self._database.psycopg_arguments("task")
                )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if (local := self._database.local_settings(client=True)) is not None:
            connection.execute(local)
        return connection

    def give_back_sync(self, connection: psycopg.Connection[Any]) -> None:
        if connection.closed or connection.broken:
            return
        connection.rollback()
        with self._lock:
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


def lock_arguments(run: Run) -> dict[str, Any]:
    """The arguments of lock_unsettled.sql."""
    visit = run.visit
    return {
        "shard": visit.shard,
        "key": visit.key,
        "queue": visit.queue,
        "version": visit.version,
    }
