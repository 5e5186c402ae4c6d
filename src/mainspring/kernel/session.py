"""A connection of the heart's own: plain calls of the kernel's statements, opened again when it breaks."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import psycopg

from mainspring.db.connect import Database
from mainspring.kernel.store import SQL


class Session:
    """One psycopg connection, used by one thread."""

    def __init__(self, database: Database, role: str = "heart") -> None:
        self._database = database
        self._role = role
        self._connection: Any = None

    def transaction(self) -> Any:
        """A transaction; `fetch` runs in it."""
        if self._connection is None:
            self._connection = self._database.connect_sync(self._role)
        return self._database.transaction_sync(self._connection)

    def fetch(self, name: str, **values: Any) -> list[Any]:
        """Run a statement in the transaction that is open."""
        cursor = self._connection.execute(SQL[name].text, values)
        return cursor.fetchall() if cursor.description else []

    def call(self, name: str, **values: Any) -> list[Any]:
        """Run a statement in a transaction of its own."""
        with self.transaction():
            return self.fetch(name, **values)

    def cut(self) -> None:
        """From another thread: break off whatever the connection waits for."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
