"""What goes on through an outage: a connection that is opened again, and how long a loop waits."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import asyncpg

from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Database
from mainspring.db.tx import Connection
from mainspring.errors import DatabaseUnavailable, MissingRights
from mainspring.shape import told

log = logging.getLogger("mainspring")
T = TypeVar("T")
# One try in so many is told of: an outage of an hour is no thousand warnings.
SAID_EVERY = 20


def backoff(tries: int, *, first: float = 0.05, most: float = 2.0) -> float:
    """Seconds to wait before try number `tries` + 1: doubling, with jitter."""
    return min(most, first * float(2 ** min(tries, 10))) * (0.5 + random.random() / 2)


class Reconnecting:
    """The tries of one loop: how long it waits after each that failed, and when it says so."""

    def __init__(self, event: str, *, first: float = 0.05) -> None:
        self._event = event
        self._first = first
        self._tries = 0

    def worked(self) -> None:
        """The next failure is the first of another outage; an outage that is over is told of, too."""
        if self._tries:
            log.info(self._event.replace(".waiting", ".back"), extra={"tries": self._tries})
        self._tries = 0

    def failed(self, error: BaseException, **facts: object) -> float:
        """Seconds to wait before the next try."""
        if self._tries % SAID_EVERY == 0:
            log.warning(self._event, extra={**facts, "error": told(error)})
        seconds = backoff(self._tries, first=self._first)
        self._tries += 1
        return seconds

    async def wait(self, error: BaseException, **facts: object) -> None:
        """Wait before the next try."""
        await asyncio.sleep(self.failed(error, **facts))


class Line:
    """One asyncpg connection for one loop alone."""

    def __init__(self, database: Database, role: str) -> None:
        self._database = database
        self._role = role
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        """The connection, opened if there is none that lives."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(self._role)
        return self._connection

    async def lost(self) -> None:
        """Something went wrong on it: the next user gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(Exception):
                await connection.close(timeout=2)


async def until_reachable(step: Callable[[], Awaitable[T]]) -> T:
    """Do a step that may be repeated. What is no matter of the connection or the server is raised at
    once: missing rights, a schema that does not fit."""
    reconnecting = Reconnecting("worker.waiting")
    while True:
        try:
            return await step()
        except asyncpg.InsufficientPrivilegeError as error:
            raise MissingRights(
                f"this role may not run a worker: {error}; mainspring doctor names the rights that "
                "it lacks (docs/operate/rights.md)"
            ) from None
        except Exception as error:
            if not is_transient(error):
                raise
            await reconnecting.wait(error)


async def until_let_in(look: Callable[[], Awaitable[T]]) -> T:
    """A worker's first look at its database, again while a server is there and takes nobody just now: it
    is full, starts, stops, or is a standby yet. An address where nobody answers is raised at once."""
    reconnecting = Reconnecting("worker.waiting")
    while True:
        try:
            return await look()
        except DatabaseUnavailable as error:
            if not error.passes:
                raise
            await reconnecting.wait(error)
