"""Connections of psycopg and asyncpg that belong to a caller: what state they are in, as far as the driver
knows without asking."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
import asyncpg.pool
import psycopg
from psycopg.pq import TransactionStatus

from mainspring.db.caller.refused import failed, two_phase, unusable
from mainspring.db.home import Address
from mainspring.db.tx import AsyncConnection, SyncConnection

Driver: TypeAlias = SyncConnection | AsyncConnection | asyncpg.Connection
FAILED = (asyncpg.InFailedSQLTransactionError, psycopg.errors.InFailedSqlTransaction)


def is_asyncpg(on: object) -> bool:
    return isinstance(on, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)


def own_of(connection: asyncpg.Connection) -> asyncpg.Connection:
    """The connection itself, of one that a pool has lent."""
    if isinstance(connection, asyncpg.pool.PoolConnectionProxy):
        if connection._con is None:
            raise unusable(connection, "was given back to its pool")
        return connection._con
    return connection


def address_of(connection: Driver) -> Address | None:
    """Where it leads, as far as the driver knows without asking."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        info = connection.info
        return info.host, info.port, info.dbname
    address = getattr(connection, "_addr", None)
    name = getattr(getattr(connection, "_params", None), "database", None)
    return None if address is None or name is None else (address, name)


def check_usable(on: object, connection: Driver) -> None:
    """Refuse one on which nothing can be written. `on`: what the caller gave."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        if connection.closed:
            raise unusable(on, "is closed")
        if connection.info.transaction_status is TransactionStatus.INERROR:
            raise failed(on)
        if connection._tpc is not None:
            raise two_phase(on)
    elif connection.is_closed():
        raise unusable(on, "is closed")


def commits_by_itself(connection: Driver) -> bool:
    """Whether a statement that is sent next is a transaction of its own."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        is_idle = connection.info.transaction_status is TransactionStatus.IDLE
        return connection.autocommit and is_idle
    return not connection.is_in_transaction()
