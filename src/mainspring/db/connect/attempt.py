"""Opening a connection without being at the mercy of the network.

A blocking connect cannot be broken off: it waits in the driver, for a name, a route or an answer. So it
is made in a thread of its own, and who wants it waits for it only as long as it likes. What comes too
late is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

# Held while a thread is started. Until it runs, Python 3.11 knows a new thread by the number of the one
# that starts it, so an exception raised in that one from outside would end the new one unborn.
STARTING = threading.Lock()


class Closes(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closes)


class Attempt(Generic[C]):
    """One connect under way."""

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._gate = threading.Lock()
        self._news = threading.Event()  # it has ended, or is given up
        self._opened: C | None = None
        self._error: Exception | None = None
        self._given_up = False
        thread = threading.Thread(target=self._run, name="mainspring.connect", daemon=True)
        with STARTING:
            thread.start()

    def _run(self) -> None:
        try:
            opened = self._connect()
        except Exception as error:
            self._error = error
        else:
            with self._gate:
                unwanted = self._given_up
                self._opened = None if unwanted else opened
            if unwanted:
                _close(opened)
        self._news.set()

    def wait(self, seconds: float | None = None) -> C | None:
        """The connection; None if it takes longer than this, or was given up. Raises why it failed."""
        self._news.wait(seconds)
        with self._gate:
            opened, self._opened = self._opened, None
        if opened is None and self._error is not None:
            raise self._error
        return opened

    def give_up(self) -> None:
        """From any thread: nobody wants it any more, and who waits for it goes on."""
        with self._gate:
            self._given_up = True
            opened, self._opened = self._opened, None
        self._news.set()
        if opened is not None:
            _close(opened)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or was given up: no use to wait for it any more."""
        return self._news.is_set()


def _close(connection: Closes) -> None:
    with suppress(Exception):
        connection.close()
