"""Transactions of users' own, one for each library whose connections `on=` takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker


@dataclass
class AsyncOwn:
    """What is given as `on=`, and what its user does with it."""

    on: Any
    execute: Callable[[str], Awaitable[object]]
    commit: Callable[[], Awaitable[object]]
    rollback: Callable[[], Awaitable[object]]


@dataclass
class Own:
    on: Any
    execute: Callable[[str], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]


def alchemy_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


# -- async


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[AsyncOwn]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield AsyncOwn(connection, connection.execute, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def asyncpg_lent(url: str) -> AsyncIterator[AsyncOwn]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as lent:
        transaction = lent.transaction()
        await transaction.start()
        yield AsyncOwn(lent, lent.execute, transaction.commit, transaction.rollback)


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[AsyncOwn]:
    connection = await psycopg.AsyncConnection.connect(url)
    yield AsyncOwn(connection, connection.execute, connection.commit, connection.rollback)
    await connection.close()


def _session(driver: str) -> Callable[[str], AbstractAsyncContextManager[AsyncOwn]]:
    @asynccontextmanager
    async def made(url: str) -> AsyncIterator[AsyncOwn]:
        engine = create_async_engine(alchemy_url(url, driver))
        async with AsyncSession(engine) as session:
            yield AsyncOwn(
                session, lambda sql: session.execute(text(sql)), session.commit, session.rollback
            )
        await engine.dispose()

    return made


def _connection(driver: str) -> Callable[[str], AbstractAsyncContextManager[AsyncOwn]]:
    @asynccontextmanager
    async def made(url: str) -> AsyncIterator[AsyncOwn]:
        engine = create_async_engine(alchemy_url(url, driver))
        async with engine.connect() as connection:
            yield AsyncOwn(
                connection,
                lambda sql: connection.execute(text(sql)),
                connection.commit,
                connection.rollback,
            )
        await engine.dispose()

    return made


@asynccontextmanager
async def scoped_async(url: str) -> AsyncIterator[AsyncOwn]:
    engine = create_async_engine(alchemy_url(url, "asyncpg"))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
    yield AsyncOwn(
        session, lambda sql: session.execute(text(sql)), session.commit, session.rollback
    )
    await session.remove()
    await engine.dispose()


ASYNC: dict[str, Callable[[str], AbstractAsyncContextManager[AsyncOwn]]] = {
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_lent,
    "psycopg": psycopg_async,
    "AsyncSession asyncpg": _session("asyncpg"),
    "AsyncSession psycopg": _session("psycopg"),
    "AsyncConnection asyncpg": _connection("asyncpg"),
    "AsyncConnection psycopg": _connection("psycopg"),
    "async_scoped_session": scoped_async,
}

# -- sync


@contextmanager
def psycopg_sync(url: str) -> Iterator[Own]:
    connection = psycopg.connect(url)
    yield Own(connection, connection.execute, connection.commit, connection.rollback)
    connection.close()


@contextmanager
def session(url: str) -> Iterator[Own]:
    engine = create_engine(alchemy_url(url, "psycopg"))
    with Session(engine) as made:
        yield Own(made, lambda sql: made.execute(text(sql)), made.commit, made.rollback)
    engine.dispose()


@contextmanager
def connection(url: str) -> Iterator[Own]:
    engine = create_engine(alchemy_url(url, "psycopg"))
    with engine.connect() as made:
        yield Own(made, lambda sql: made.execute(text(sql)), made.commit, made.rollback)
    engine.dispose()


@contextmanager
def scoped(url: str) -> Iterator[Own]:
    engine = create_engine(alchemy_url(url, "psycopg"))
    made = scoped_session(sessionmaker(engine))
    yield Own(made, lambda sql: made.execute(text(sql)), made.commit, made.rollback)
    made.remove()
    engine.dispose()


@contextmanager
def lent(url: str) -> Iterator[Own]:
    engine = create_engine(alchemy_url(url, "psycopg"))
    made = engine.raw_connection()
    yield Own(made, lambda sql: made.cursor().execute(sql), made.commit, made.rollback)
    made.close()
    engine.dispose()


def configured(url: str, alias: str = "default") -> Any:
    """Django's connection to this database; Django is set up at the first call."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    info = psycopg.conninfo.conninfo_to_dict(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": info["dbname"],
        "USER": info.get("user", ""),
        "PASSWORD": info.get("password", ""),
        "HOST": info.get("host", ""),
        "PORT": str(info.get("port", "")),
    }
    connections.settings = connections.configure_settings(
        {"default": database, "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    )
    if hasattr(connections._connections, alias):
        connections[alias].close()
        del connections[alias]
    return connections[alias]


def _django(by_alias: bool) -> Callable[[str], AbstractContextManager[Own]]:
    @contextmanager
    def made(url: str) -> Iterator[Own]:
        from django.db import connection, transaction

        configured(url)
        atomic = transaction.atomic()
        atomic.__enter__()

        def commit() -> None:
            atomic.__exit__(None, None, None)

        def rollback() -> None:
            transaction.set_rollback(True)
            atomic.__exit__(None, None, None)

        def execute(sql: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(sql)

        try:
            yield Own("default" if by_alias else connection, execute, commit, rollback)
        finally:
            connection.close()

    return made


SYNC: dict[str, Callable[[str], AbstractContextManager[Own]]] = {
    "psycopg": psycopg_sync,
    "Session": session,
    "Connection": connection,
    "scoped_session": scoped,
    "raw_connection": lent,
    "Django": _django(False),
    "Django's alias": _django(True),
}
