"""The database as handlers see it: a few calls at once, the others in line, and no more than so many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from mainspring.db.sql import Statement
from mainspring.db.tx import Tx
from mainspring.errors import Overloaded
from mainspring.server.handlers.refusals import refusals

if TYPE_CHECKING:
    from mainspring.app import Mainspring

R = TypeVar("R")
AT_ONCE = 8
IN_LINE = 200


class Store:
    """An application's database, for one server process."""

    def __init__(self, app: Mainspring, *, at_once: int = AT_ONCE, in_line: int = IN_LINE) -> None:
        self.app = app
        self._room = asyncio.Semaphore(at_once)
        self._in_line = 0
        self._most_in_line = in_line

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One of the few places at the database."""
        if self._room.locked() and self._in_line >= self._most_in_line:
            raise Overloaded(f"{self._in_line} calls wait for the database already; try again")
        self._in_line += 1
        try:
            await self._room.acquire()
        finally:
            self._in_line -= 1
        try:
            with refusals():
                yield
        finally:
            self._room.release()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """A connection in a transaction that commits at the end."""
        async with self.turn():
            pool = await self.app.pool()
            async with pool.connection(transaction=True) as connection:
                yield connection

    async def rows(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> list[R]:
        """The rows of one statement alone; no transaction is held for it."""
        async with self.turn():
            pool = await self.app.pool()
            async with pool.connection() as connection:
                found: list[R] = await connection.rows(statement, row, **values)
                return found
