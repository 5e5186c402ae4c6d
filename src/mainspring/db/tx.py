"""Statements with types, on a connection of any driver.

`rows(statement, Row, name=value, ...)` returns a list of `Row`, each made from the columns in their order.
`first` and `one` return a single row. A row's type is a NamedTuple or a Struct with a field for each
column; for a statement of one column it is `int`, `str` or the like. `follow` sends the statements of a
generator (db/sql.py).
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, LiteralString, Protocol, TypeAlias, TypeVar

import asyncpg
import psycopg
from psycopg import rows as factories
from psycopg.adapt import AdaptersMap

from mainspring.db.connect.settings import ENGINE_LOCAL
from mainspring.db.connect.types import TypedConnection
from mainspring.db.sql import CopyStep, Record, Statement, Step, Steps, Values
from mainspring.db.unread import unread

if TYPE_CHECKING:
    from mainspring.db.database import Database

R = TypeVar("R")
T = TypeVar("T")

UTF8 = ("utf-8", "utf8")

# psycopg connections, whatever rows their users want of them.
SyncConnection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]
AnyConnection: TypeAlias = SyncConnection | AsyncConnection

# What a caller has registered on a connection (Django does) changes neither what is written nor what is
# read. asyncpg has no such way: no statement for callers hands it JSON but as text.
_ADAPTERS = AdaptersMap(psycopg.adapters)


class _Cursor(psycopg.Cursor[tuple[Any, ...]]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class _AsyncCursor(psycopg.AsyncCursor[tuple[Any, ...]]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class Tx:
    """What async code sees of a connection: the engine's own (`database.Connection`), or a caller's."""

    @abstractmethod
    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        """Run a statement; returns its rows as the driver has them."""

    @abstractmethod
    async def copy(self, step: CopyStep) -> None:
        """Copy rows into a table."""

    async def rows(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> list[R]:
        """All rows of a statement."""
        return [row(*record) for record in await self.send(statement, values)]

    async def first(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> R | None:
        """The first row of a statement, if it returns any."""
        found = await self.send(statement, values)
        return row(*found[0]) if found else None

    async def one(self, statement: Statement, row: Callable[..., R], /, **values: object) -> R:
        """The row of a statement that always returns one."""
        return row(*(await self.send(statement, values))[0])

    async def run(self, statement: Statement, /, **values: object) -> None:
        """Run a statement whose rows, if any, nobody wants."""
        await self.send(statement, values)

    async def follow(self, steps: Steps[T]) -> T:
        """Send what a generator asks for; returns what it returns."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._answer(step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _answer(self, step: Step | CopyStep) -> Sequence[Record]:
        if isinstance(step, CopyStep):
            await self.copy(step)
            return ()
        return await self.send(*step)


class DriverTransaction(Protocol):
    """What the driver has of a transaction."""

    async def start(self) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...


class Connection(Tx, TypedConnection):
    """An asyncpg connection of the engine's: statements with types, with the engine's settings in force."""

    database: Database  # by which it was opened

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)
        self._kept: dict[Statement, asyncpg.prepared_stmt.PreparedStatement] = {}
        self._unread: Callable[[], object] | None = None

    def belong_to(self, database: Database) -> None:
        """Say by whom it was opened."""
        self.database = database

    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        """Run a statement; returns its rows. Behind a pooler it has a transaction of its own, if it is in
        none, for the engine's settings."""
        if self.database.pooled and not self.is_in_transaction():
            async with self.atomic():
                return await self.fetch(statement.numbered, *statement.arguments(values))  # type: ignore[no-any-return]
        return await self.fetch(statement.numbered, *statement.arguments(values))  # type: ignore[no-any-return]

    async def copy(self, step: CopyStep) -> None:
        """Copy rows into a table."""
        await _copy(self, step)

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        """A READ COMMITTED transaction with the engine's settings in force; inside of another, with those
        of the other."""
        is_outer = not self.is_in_transaction()
        try:
            async with self.ending(await self.begin()):
                if self.database.pooled and is_outer:
                    await self.execute(ENGINE_LOCAL)
                yield
        except asyncio.CancelledError:
            # Its BEGIN may still be on its way: what is sent next would be in it, and not be committed.
            self.terminate()
            raise

    async def begin(self) -> DriverTransaction:
        """Begin a READ COMMITTED transaction, which `ending` ends."""
        transaction: DriverTransaction = self.transaction(isolation="read_committed")
        await transaction.start()
        return transaction

    @asynccontextmanager
    async def ending(self, transaction: DriverTransaction) -> AsyncIterator[None]:
        """The rest of it. When its connection breaks the error says why: asyncpg's own block would complain
        instead that it cannot roll back."""
        try:
            yield
        except asyncio.CancelledError:
            self.terminate()  # a rollback waits for what was sent before: over a dead network for ever
            raise
        except BaseException:
            if not self.is_closed():
                await transaction.rollback()
            raise
        await transaction.commit()

    def is_usable(self) -> bool:
        """Whether it still stands while idle: a closed one has its end to read, whatever the event loop
        has seen of it. Costs no round trip."""
        if self.is_closed():
            return False
        if self._unread is None:
            self._unread = unread(self._transport.get_extra_info("socket"))
        return not self._unread()

    async def run_prepared(self, statement: Statement, values: Values) -> None:
        """Run a statement whose columns no migration changes, so its plan stays fit: the shortest way for
        what is run again and again."""
        if (kept := self._kept.get(statement)) is None:
            kept = self._kept[statement] = await self.prepare(statement.numbered)
        await kept.fetch(*statement.arguments(values))


class AsyncpgTx(Tx):
    """A caller's asyncpg connection, in the transaction that it has open."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        return await self._connection.fetch(statement.numbered, *statement.arguments(values))  # type: ignore[no-any-return]

    async def copy(self, step: CopyStep) -> None:
        await _copy(self._connection, step)

    @property
    def copies_text(self) -> bool:
        """Whether copied texts are read as UTF-8: they have the encoding of the connection."""
        return str(self._connection.get_settings().client_encoding).lower() in UTF8


class PsycopgTx(Tx):
    """A caller's async psycopg connection, in the transaction that it has open."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def copies_text(self) -> bool:
        """Whether copied texts are read as UTF-8: they have the encoding of the connection."""
        return self._connection.info.encoding in UTF8

    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        async with _AsyncCursor(self._connection, row_factory=factories.tuple_row) as cursor:
            await cursor.execute(statement.text, values)
            return await cursor.fetchall() if cursor.description else ()

    async def copy(self, step: CopyStep) -> None:
        async with self._connection.cursor() as cursor, cursor.copy(_text(step)) as copy:
            for chunk in step.chunks:
                await copy.write(chunk)


class SyncTx:
    """A plain psycopg connection: the heart's, a command's, or a caller's."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    @property
    def copies_text(self) -> bool:
        """Whether copied texts are read as UTF-8: they have the encoding of the connection."""
        return self._connection.info.encoding in UTF8

    def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        """Run a statement; returns its rows as tuples."""
        with _Cursor(self._connection, row_factory=factories.tuple_row) as cursor:
            cursor.execute(statement.text, values)
            return cursor.fetchall() if cursor.description else ()

    def copy(self, step: CopyStep) -> None:
        """Copy rows into a table."""
        with self._connection.cursor() as cursor, cursor.copy(_text(step)) as copy:
            for chunk in step.chunks:
                copy.write(chunk)

    def rows(self, statement: Statement, row: Callable[..., R], /, **values: object) -> list[R]:
        """All rows of a statement."""
        return [row(*record) for record in self.send(statement, values)]

    def first(self, statement: Statement, row: Callable[..., R], /, **values: object) -> R | None:
        """The first row of a statement, if it returns any."""
        found = self.send(statement, values)
        return row(*found[0]) if found else None

    def one(self, statement: Statement, row: Callable[..., R], /, **values: object) -> R:
        """The row of a statement that always returns one."""
        return row(*self.send(statement, values)[0])

    def run(self, statement: Statement, /, **values: object) -> None:
        """Run a statement whose rows, if any, nobody wants."""
        self.send(statement, values)

    def follow(self, steps: Steps[T]) -> T:
        """Send what a generator asks for; returns what it returns."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self._answer(step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, step: Step | CopyStep) -> Sequence[Record]:
        if isinstance(step, CopyStep):
            self.copy(step)
            return ()
        return self.send(*step)


def _text(step: CopyStep) -> LiteralString:
    # Table and columns are ours, from fixed lists; values never enter the text.
    columns: LiteralString = ", ".join(step.columns)
    return f"copy {step.table} ({columns}) from stdin (format binary)"


async def _copy(connection: asyncpg.Connection, step: CopyStep) -> None:
    schema, _, table = step.table.partition(".")
    await connection.copy_to_table(
        table,
        schema_name=schema,
        columns=step.columns,
        source=_each(step.chunks),
        format="binary",
    )


async def _each(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
