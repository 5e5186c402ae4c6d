"""Idle psycopg connections, kept for the next user for a while, then closed.

The one that was used last is taken first, so those that are too many grow old and go. One timer looks
after all of them, and there is none while nothing is idle.
"""

from __future__ import annotations

import threading
import time
from typing import Generic, TypeVar

from mainspring.db.tx import AnyConnection
from mainspring.db.unread import unread

IDLE_SECONDS = 60.0
C = TypeVar("C", bound=AnyConnection)


class Idle(Generic[C]):
    """A stack of connections. For all threads."""

    def __init__(self, seconds: float = IDLE_SECONDS) -> None:
        self._seconds = seconds
        self._stack: list[tuple[float, C]] = []  # with the time of its last use
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def put(self, connection: C) -> None:
        """Keep a connection on which nothing is under way."""
        with self._lock:
            self._stack.append((time.monotonic(), connection))
            if self._timer is None:
                self._look_in(self._seconds)

    def take(self) -> C | None:
        """One that still stands, or None."""
        while True:
            with self._lock:
                if not self._stack:
                    return None
                _, connection = self._stack.pop()
            if _is_usable(connection):
                return connection
            _close(connection)

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            stack, self._stack = self._stack, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for _, connection in stack:
            _close(connection)

    def _look_in(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._look)
        self._timer.name, self._timer.daemon = "mainspring.idle", True
        self._timer.start()

    def _look(self) -> None:
        with self._lock:
            oldest = time.monotonic() - self._seconds
            old = [c for since, c in self._stack if since <= oldest]
            del self._stack[: len(old)]
            self._timer = None
            if self._stack:
                self._look_in(max(1.0, self._stack[0][0] - oldest))
        for connection in old:
            _close(connection)


def _close(connection: AnyConnection) -> None:
    """As both kinds close themselves; nobody else has it."""
    connection.pgconn.finish()


def _is_usable(connection: AnyConnection) -> bool:
    """Whether an idle psycopg connection still stands: a closed one has its end to read.

    Costs no round trip. What else could be there to read is rare, and a new connection cheap then.
    """
    if connection.closed:
        return False
    return not unread(connection.fileno())()
