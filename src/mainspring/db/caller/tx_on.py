"""The door: the caller's transaction, or a connection of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import psycopg

from mainspring.db.caller import from_sqlalchemy
from mainspring.db.caller.drivers import (
    FAILED,
    Driver,
    address_of,
    check_usable,
    commits_by_itself,
    is_asyncpg,
    own_of,
)
from mainspring.db.caller.from_django import django_driver, is_django
from mainspring.db.caller.refused import (
    ASYNC_TAKEN,
    SYNC_TAKEN,
    failed,
    not_taken,
    other_side,
)
from mainspring.db.caller.types import Caller
from mainspring.db.home import Home, which_database
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.db.tx import AsyncpgTx, PsycopgTx, SyncConnection, SyncTx, Tx


class Verb(NamedTuple):
    """What is called, and what does the same on the other side of async and sync, for errors."""

    name: str
    instead: str | None = None


@asynccontextmanager
async def tx_on(
    on: Caller | None, pool: AsyncPool, verb: Verb, *, transaction: bool = True
) -> AsyncIterator[Tx]:
    """The transaction of a caller's own, or a connection of ours; `transaction`: it is more than one
    statement."""
    if on is None:
        async with pool.connection(transaction=transaction) as own:
            yield own
    else:
        async with caller_tx(on, pool, verb, transaction=transaction) as tx:
            yield tx


@contextmanager
def tx_on_sync(on: Caller | None, pool: SyncPool, verb: Verb) -> Iterator[SyncTx]:
    """The same for code that is not async."""
    if on is None:
        with pool.connection() as own:
            yield SyncTx(own)
    else:
        with caller_tx_sync(on, pool, verb) as tx:
            yield tx


@asynccontextmanager
async def caller_tx(
    on: Caller, pool: AsyncPool, verb: Verb, *, transaction: bool = True
) -> AsyncIterator[AsyncpgTx | PsycopgTx]:
    """The transaction that `on` has open, or begins. Where it commits by itself there is one of our own
    on it, unless a single statement is sent."""
    connection = await _async_driver(on, verb)
    own = own_of(connection)
    check_usable(on, own)
    tx = PsycopgTx(own) if isinstance(own, psycopg.AsyncConnection) else AsyncpgTx(own)
    is_own = commits_by_itself(own)
    try:
        await _check_home(tx, own, pool)
        if is_own and transaction:
            async with own.transaction():
                yield tx
        else:
            yield tx
    except FAILED as error:
        raise failed(on) from error


@contextmanager
def caller_tx_sync(
    on: Caller, pool: SyncPool, verb: Verb, *, transaction: bool = True
) -> Iterator[SyncTx]:
    """The same for code that is not async."""
    connection = sync_driver_of(on, verb)
    check_usable(on, connection)
    tx = SyncTx(connection)
    is_own = commits_by_itself(connection)
    try:
        _check_home_sync(tx, connection, pool)
        if is_own and transaction:
            with connection.transaction():
                yield tx
        else:
            yield tx
    except FAILED as error:
        raise failed(on) from error


async def _async_driver(on: object, verb: Verb) -> Driver:
    if isinstance(on, psycopg.AsyncConnection) or is_asyncpg(on):
        return on
    if from_sqlalchemy.is_async(on):
        return await from_sqlalchemy.async_driver(on)
    if isinstance(on, psycopg.Connection) or from_sqlalchemy.is_sync(on) or is_django(on):
        raise other_side(on, *verb, is_async=True)
    raise not_taken(on, ASYNC_TAKEN)


def sync_driver_of(on: object, verb: Verb) -> SyncConnection:
    if isinstance(on, psycopg.Connection):
        return on
    if from_sqlalchemy.is_sync(on):
        return from_sqlalchemy.sync_driver(on)
    if is_django(on):
        return django_driver(on)
    if isinstance(on, psycopg.AsyncConnection) or is_asyncpg(on) or from_sqlalchemy.is_async(on):
        raise other_side(on, *verb, is_async=False)
    raise not_taken(on, SYNC_TAKEN)


async def _check_home(tx: Tx, connection: Driver, pool: AsyncPool) -> None:
    home, address = pool.database.home, address_of(connection)
    if home.knows(connection, address):
        return
    place = await tx.follow(which_database())
    if home.place is None or not home.place.is_same(place):
        # Also when it is known: the server may have been started anew since, or another took over.
        async with pool.connection() as own:
            home.learn(await own.follow(which_database()))
    home.judge(place, connection, address, pool.database.shown)


def _check_home_sync(tx: SyncTx, connection: Driver, pool: SyncPool) -> None:
    home: Home = pool.database.home
    address = address_of(connection)
    if home.knows(connection, address):
        return
    place = tx.follow(which_database())
    if home.place is None or not home.place.is_same(place):
        with pool.connection() as own:
            home.learn(SyncTx(own).follow(which_database()))
    home.judge(place, connection, address, pool.database.shown)
