"""What `on=` takes, as types. SQLAlchemy is looked at by type checkers alone, Django described by what is
used of it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mainspring.db.tx import AsyncConnection, SyncConnection

if TYPE_CHECKING:
    from sqlalchemy import Connection as AlchemyConnection
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session
    from sqlalchemy.pool import PoolProxiedConnection


class AsyncpgConnection(Protocol):
    """A connection of asyncpg, or one that its pool has lent."""

    def fetch(self, query: str, *args: object) -> Awaitable[Sequence[object]]: ...
    def is_in_transaction(self) -> bool: ...


class DjangoConnection(Protocol):
    """A connection of Django's: `django.db.connection`, or one of `django.db.connections`."""

    alias: str

    def ensure_connection(self) -> None: ...


if TYPE_CHECKING:
    SyncCaller: TypeAlias = (
        SyncConnection
        | Session
        | scoped_session[Session]
        | AlchemyConnection
        | PoolProxiedConnection
        | DjangoConnection
        | str
    )
    AsyncCaller: TypeAlias = (
        AsyncConnection
        | AsyncpgConnection
        | AsyncSession
        | async_scoped_session[AsyncSession]
        | AlchemyAsyncConnection
    )
else:
    SyncCaller = AsyncCaller = object

Caller: TypeAlias = SyncCaller | AsyncCaller
