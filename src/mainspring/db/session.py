"""A connection of one thread, such as the heart's: statements with types, opened again when it breaks."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

import psycopg

from mainspring.db.connect.attempt import Attempt
from mainspring.db.database import Database
from mainspring.db.sql import CopyStep, Record, Statement, Values
from mainspring.db.tx import SyncTx
from mainspring.errors import DatabaseUnavailable

Plain: TypeAlias = psycopg.Connection[tuple[object, ...]]


class Session(SyncTx):
    """One psycopg connection, used by one thread. A statement outside of a transaction is sent alone: in
    autocommit it is one round trip, where a transaction has three.

    With a `patience` (seconds) nobody waits longer for a new one, and the attempt goes on meanwhile: a
    name that is looked up for ever, or a host that swallows packets, keeps nobody from going on.
    """

    def __init__(
        self, database: Database, role: str = "heart", patience: float | None = None
    ) -> None:
        self._database = database
        self._role = role
        self._patience = patience
        self._open: Plain | None = None
        self._attempt: Attempt[Plain] | None = None
        self._inside: SyncTx | None = None  # of a transaction
        # Called before each statement or transaction.
        self._between: Callable[[], None] = lambda: None

    def call_between(self, between: Callable[[], None]) -> None:
        """Have this called before each statement or transaction from now on."""
        self._between = between

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nothing comes between."""
        between, self._between = self._between, lambda: None
        try:
            yield
        finally:
            self._between = between

    def _get(self) -> Plain:
        if self._open is None:
            if self._attempt is None:
                self._attempt = Attempt(lambda: self._database.connect_sync(self._role))
            try:
                self._open = self._attempt.wait(self._patience)
            finally:
                if self._attempt.is_over:
                    self._attempt = None
            if self._open is None:
                raise DatabaseUnavailable(f"no connection to {self._database.shown} yet")
        return self._open

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, in which statements run until it ends."""
        connection = self._get()
        self._between()
        with self._database.transaction_sync(connection):
            self._inside = SyncTx(connection)
            try:
                yield
            finally:
                self._inside = None

    def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        if self._inside is not None:
            return self._inside.send(statement, values)
        tx = SyncTx(self._get())
        if self._database.pooled:
            with self.transaction():  # the engine's settings must be said anew
                return tx.send(statement, values)
        self._between()
        return tx.send(statement, values)

    def copy(self, step: CopyStep) -> None:
        assert self._inside is not None
        self._inside.copy(step)

    def cut(self) -> None:
        """From another thread: break off whatever the connection waits for."""
        if (attempt := self._attempt) is not None:
            attempt.give_up()
        cut_socket(self._open)

    def begin_anew(self) -> None:
        """Go on with a new connection, however long that takes, and with nothing between."""
        self.disconnect()
        self._patience, self._between = None, lambda: None

    def close(self) -> None:
        """Disconnect for good: a connection that is under way is not wanted any more."""
        if (attempt := self._attempt) is not None:
            attempt.give_up()
        self._attempt = None
        self.disconnect()

    def disconnect(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()


def cut_socket(connection: Plain | psycopg.AsyncConnection[tuple[object, ...]] | None) -> None:
    """Shut the socket of a psycopg connection down: who waits on it gets an error at once."""
    if connection is None or connection.closed:
        return
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
