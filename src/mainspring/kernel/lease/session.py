"""A connection of the heart's own: plain calls of the kernel's statements, opened again when it breaks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from mainspring.db.connect.attempt import Attempt
from mainspring.db.database import Database
from mainspring.db.steps import Steps, run_steps_psycopg_sync
from mainspring.errors import DatabaseUnavailable
from mainspring.kernel.statements import SQL


class Session:
    """One psycopg connection, used by one thread.

    With a `patience` (seconds) nobody waits longer for a new one, and the attempt goes on meanwhile: a
    name that is looked up for ever, or a host that swallows packets, keeps nobody from going on.
    """

    def __init__(
        self, database: Database, role: str = "heart", patience: float | None = None
    ) -> None:
        self._database = database
        self._role = role
        self.patience = patience
        self._connection: Any = None
        self._attempt: Attempt[Any] | None = None
        # Called before each statement or transaction.
        self.between: Callable[[], None] = lambda: None

    def _get(self) -> Any:
        if self._connection is None:
            if self._attempt is None:
                self._attempt = Attempt(lambda: self._database.connect_sync(self._role))
            try:
                self._connection = self._attempt.wait(self.patience)
            finally:
                if self._attempt.is_over:
                    self._attempt = None
            if self._connection is None:
                raise DatabaseUnavailable(f"no connection to {self._database.shown} yet")
        return self._connection

    def transaction(self) -> Any:
        """A transaction; `fetch` runs in it."""
        connection = self._get()
        self.between()
        return self._database.transaction_sync(connection)

    def fetch(self, name: str, **values: Any) -> list[Any]:
        """Run a statement in the transaction that is open."""
        cursor = self._connection.execute(SQL[name].text, values)
        return cursor.fetchall() if cursor.description else []

    def walk(self, steps: Steps[None]) -> None:
        """Send a layer's statements in the transaction that is open."""
        run_steps_psycopg_sync(self._connection, steps)

    def call(self, name: str, **values: Any) -> list[Any]:
        """Run a statement alone: in autocommit it is one round trip, where a transaction has three."""
        if self._database.pooled:
            with self.transaction():  # the engine's settings must be said anew
                return self.fetch(name, **values)
        self._get()
        self.between()
        return self.fetch(name, **values)

    def alone(self, name: str, **values: Any) -> list[Any]:
        """The same, and nothing comes between."""
        between, self.between = self.between, lambda: None
        try:
            return self.call(name, **values)
        finally:
            self.between = between

    def cut(self) -> None:
        """From another thread: break off whatever the connection waits for."""
        if (attempt := self._attempt) is not None:
            attempt.give_up()
        cut_socket(self._connection)

    def close(self) -> None:
        """Disconnect for good: a connection that is under way is not wanted any more."""
        if (attempt := self._attempt) is not None:
            attempt.give_up()
        self._attempt = None
        self.disconnect()

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def cut_socket(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | None) -> None:
    """Shut the socket of a psycopg connection down: who waits on it gets an error at once."""
    if connection is None or connection.closed:
        return
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
