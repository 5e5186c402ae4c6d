"""Sessions and connections of SQLAlchemy 2: the driver's connection of the transaction that they have.

A session that has not begun begins, as it would by its first statement, and sends first what waits in it
to be flushed. asyncpg's BEGIN is sent by SQLAlchemy with its first statement: there is one where there was
none, for what goes past SQLAlchemy would be committed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import psycopg

from mainspring.db.caller.drivers import Driver, is_asyncpg
from mainspring.db.caller.refused import ASYNC_TAKEN, two_phase, unusable, wrong_driver
from mainspring.db.tx import SyncConnection

T = TypeVar("T")
# SQLAlchemy's way to await something on the driver's connection from sync code.
RunAsync: TypeAlias = Callable[[Callable[[Driver], Awaitable[T]]], T]

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import PoolProxiedConnection


def _has(on: object, module: str, name: str) -> bool:
    """Whether it is of a class of SQLAlchemy's, which is not imported for that."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(on, getattr(loaded, name))


def is_sync(on: object) -> bool:
    return (
        _has(on, "sqlalchemy.orm", "Session")
        or _has(on, "sqlalchemy.orm", "scoped_session")
        or _has(on, "sqlalchemy.engine", "Connection")
        or _has(on, "sqlalchemy.pool", "PoolProxiedConnection")
    )


def is_async(on: object) -> bool:
    return (
        _has(on, "sqlalchemy.ext.asyncio", "AsyncSession")
        or _has(on, "sqlalchemy.ext.asyncio", "async_scoped_session")
        or _has(on, "sqlalchemy.ext.asyncio", "AsyncConnection")
    )


def sync_driver(on: object) -> SyncConnection:
    """The driver's connection of something sync."""
    from sqlalchemy.exc import InvalidRequestError

    try:
        found = _lent(on).driver_connection
    except InvalidRequestError as error:
        raise unusable(on, f"cannot be used: {error}") from error
    if not isinstance(found, psycopg.Connection):
        if isinstance(found, psycopg.AsyncConnection) or is_asyncpg(found):
            raise unusable(on, f"has an async engine behind it; give {ASYNC_TAKEN}, with await")
        raise wrong_driver(type(on).__name__, type(found).__module__.split(".")[0])
    return found


def async_behind(on: object) -> RunAsync[T] | None:
    """How to await something on the async driver's connection of something sync (in `run_sync`); None if
    its driver is sync."""
    connection = (
        None if _has(on, "sqlalchemy.pool", "PoolProxiedConnection") else _sync_connection(on)
    )
    lent = _lent(on)
    adapter = lent.dbapi_connection
    found = lent.driver_connection
    if not isinstance(found, psycopg.AsyncConnection) and not is_asyncpg(found):
        return None
    if connection is not None and is_asyncpg(found) and not found.is_in_transaction():  # type: ignore[union-attr]
        connection.exec_driver_sql("select 1")
    return adapter.run_async  # type: ignore[no-any-return,union-attr]


def _lent(on: object) -> PoolProxiedConnection:
    if _has(on, "sqlalchemy.pool", "PoolProxiedConnection"):
        return on  # type: ignore[return-value]
    return _sync_connection(on).connection


def _sync_connection(on: object) -> Connection:
    """The connection, in a transaction."""
    if not _has(on, "sqlalchemy.engine", "Connection"):
        if _has(on, "sqlalchemy.orm", "scoped_session"):
            on = on.registry()  # type: ignore[attr-defined]
        session: Session = on  # type: ignore[assignment]
        if session.twophase:
            raise two_phase(on)
        if session.autoflush:
            session.flush()
        return session.connection()
    connection: Connection = on  # type: ignore[assignment]
    _check_plain(connection)
    if not connection.in_transaction():
        connection.begin()
    return connection


async def async_driver(on: object) -> Driver:
    """The driver's connection of something async."""
    from sqlalchemy.exc import InvalidRequestError

    try:
        connection = await _async_connection(on)
        found = (await connection.get_raw_connection()).driver_connection
        if is_asyncpg(found) and not found.is_in_transaction():  # type: ignore[union-attr]
            await connection.exec_driver_sql("select 1")
    except InvalidRequestError as error:
        raise unusable(on, f"cannot be used: {error}") from error
    if not isinstance(found, psycopg.AsyncConnection) and not is_asyncpg(found):
        raise wrong_driver(type(on).__name__, type(found).__module__.split(".")[0])
    return found


async def _async_connection(on: object) -> AsyncConnection:
    if not _has(on, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        if _has(on, "sqlalchemy.ext.asyncio", "async_scoped_session"):
            on = on.registry()  # type: ignore[attr-defined]
        session: AsyncSession = on  # type: ignore[assignment]
        if session.sync_session.twophase:
            raise two_phase(on)
        if session.sync_session.autoflush:
            await session.flush()
        return await session.connection()
    connection: AsyncConnection = on  # type: ignore[assignment]
    if connection.sync_connection is None:
        raise unusable(
            on, "was not started; write async with engine.connect() as connection, or await it"
        )
    _check_plain(connection.sync_connection)
    if not connection.in_transaction():
        await connection.begin()
    return connection


def _check_plain(connection: Connection) -> None:
    from sqlalchemy.engine import TwoPhaseTransaction

    if isinstance(connection.get_transaction(), TwoPhaseTransaction):
        raise two_phase(connection)
