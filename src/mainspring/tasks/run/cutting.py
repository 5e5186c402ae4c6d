"""Connections that tasks are using, and how they are broken off when the worker is fenced.

Over a network that swallows packets neither a cancel request nor a rollback is ever answered: the run
would be stopped too late, and the process with it. So the sockets are shut down, and whoever waits on one
gets an error at once. Asking the server to cancel is left out: it sees the end of the connection when it
can be reached at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from mainspring.db.connect.attempt import Attempt
from mainspring.db.session import cut_socket
from mainspring.db.tx import AsyncConnection, SyncConnection

C = TypeVar("C", SyncConnection, AsyncConnection)


class InUse:
    """What tasks have open, or are opening in a thread."""

    def __init__(self) -> None:
        self._loops: set[AsyncConnection] = set()
        self._threads: set[SyncConnection] = set()
        self._attempts: set[Attempt[SyncConnection]] = set()

    @contextmanager
    def used(self, connection: C) -> Iterator[C]:
        """For the time that a task has it."""
        if isinstance(connection, psycopg.Connection):
            self._threads.add(connection)
        else:
            self._loops.add(connection)
        try:
            yield connection
        finally:
            self._threads.discard(connection)  # it is in one of the two
            self._loops.discard(connection)

    def open(self, connect: Callable[[], SyncConnection]) -> SyncConnection:
        """Open one for a plain function, which a fence need not wait for."""
        attempt = Attempt(connect)
        self._attempts.add(attempt)
        try:
            connection = attempt.wait()
        except BaseException:
            attempt.give_up()
            raise
        finally:
            self._attempts.discard(attempt)
        if connection is None:
            raise psycopg.OperationalError("the worker was cut off while it connected")
        return connection

    def cut(self, *, threads_only: bool = False) -> None:
        """Break all of them off. Those of the event loop only from there: first a run must know that it is
        stopped, or the broken connection would be its failure."""
        for attempt in list(self._attempts):
            attempt.give_up()
        for connection in list(self._threads):
            cut_socket(connection)
        if not threads_only:
            for one in list(self._loops):
                setattr(one, "cancel_safe", _ask_nobody)  # noqa: B010 - a method, of this one alone
                cut_socket(one)


async def _ask_nobody(*, timeout: float = 0.0) -> None:
    """In the place of a cancel request."""
