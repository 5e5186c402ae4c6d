"""What callers get when the database fails them: `NotDone` or `OutcomeUnknown`, never a driver's error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import DatabaseUnavailable, Mainspring, NotDone, OutcomeUnknown
from mainspring.db.connect.outage import outage
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.testing import wait_until

_OURS = "application_name like 'mainspring:client:%' and pid <> pg_backend_pid()"
_END = f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {_OURS}"
# Enqueueing waits here, under way.
_WAIT = """
create function wait() returns trigger language plpgsql as
'begin perform pg_advisory_xact_lock(77); return new; end';
create trigger wait before insert on mainspring.visit for each row execute function wait()
"""


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def shop(app: Mainspring) -> Any:
    @app.task
    async def note(n: int) -> None: ...

    return note


def count(other: psycopg.Connection[Any]) -> int:
    row = other.execute("select count(*) from mainspring.visit").fetchone()
    assert row is not None
    return int(row[0])


WAYS: dict[str, Callable[[Any], Any]] = {
    "one": lambda note: note.enqueue(n=1),
    "keyed": lambda note: note.options(key="k").enqueue(n=1),
    "many": lambda note: note.enqueue_many({"n": n} for n in range(3)),
    "sync": lambda note: asyncio.to_thread(note.enqueue_sync, n=1),
}
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
async def test_an_idle_connection_that_was_ended_is_not_noticed(
    shop: Any, other: psycopg.Connection[Any], way: str
) -> None:
    """T13: nothing was sent on it, so it is sent on a new one."""
    await WAYS[way](shop)
    before = count(other)
    other.execute("delete from mainspring.visit")
    assert other.execute(_END).fetchall()

    await WAYS[way](shop)

    assert count(other) == before


@every_way
async def test_one_that_is_ended_in_the_middle_tells_what_is_known(
    shop: Any, other: psycopg.Connection[Any], way: str
) -> None:
    """T13: before its COMMIT was sent nothing can have been done; a statement alone is its own commit."""
    other.execute(_WAIT)
    other.execute("select pg_advisory_lock(77)")
    under_way = asyncio.create_task(WAYS[way](shop))
    waiting = f"select 1 from pg_stat_activity where wait_event = 'advisory' and {_OURS}"
    await wait_until(lambda: bool(other.execute(waiting).fetchall()))
    other.execute(_END)
    with pytest.raises(DatabaseUnavailable) as lost:
        await under_way
    other.execute("select pg_advisory_unlock(77)")
    other.execute("drop trigger wait on mainspring.visit")

    assert type(lost.value) is (OutcomeUnknown if way == "one" else NotDone)
    assert str(lost.value).startswith("the connection to the database was lost before ")
    assert isinstance(lost.value.__cause__, asyncpg.PostgresError | psycopg.Error)
    await WAYS[way](shop)


@every_way
async def test_a_lock_that_does_not_come_is_no_driver_s_error(
    app: Mainspring, shop: Any, other: psycopg.Connection[Any], way: str
) -> None:
    await shop.enqueue(n=0)  # the pools are there
    await asyncio.to_thread(shop.enqueue_sync, n=0)
    other.execute("delete from mainspring.visit")
    pool, plain = await app.pool(), app.sync_pool()
    async with pool.connection() as connection:
        await connection.execute("set lock_timeout = '50ms'")
    with plain.connection() as own:
        own.execute("set lock_timeout = '50ms'")
    with other.transaction():
        other.execute("lock table mainspring.visit in exclusive mode")
        with pytest.raises(
            NotDone, match="and did nothing: canceling statement due to lock timeout"
        ):
            await WAYS[way](shop)
    assert count(other) == 0


async def test_a_server_that_is_gone_did_nothing(tmp_path: Any) -> None:
    app = Mainspring(f"postgresql://postgres@/shop?host={tmp_path}")

    @app.task
    async def note(n: int) -> None: ...

    for way in WAYS.values():
        with pytest.raises(NotDone, match="cannot connect to PostgreSQL at "):
            await way(note)


@pytest.mark.parametrize("transaction", [False, True])
async def test_a_lost_commit_is_unknown(app: Mainspring, transaction: bool) -> None:
    pool = await app.pool()

    async def write() -> None:
        async with pool.connection(transaction=transaction) as connection:
            await connection.fetchval("select 1")
            if transaction:
                # The last thing before COMMIT: a deferred trigger ends the backend within it.
                await connection.execute(_SUICIDE)
            else:
                await connection.execute("select pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(OutcomeUnknown, match="look whether it was done before you send it again"):
        await write()


_SUICIDE = """
create temp table last (n integer);
create function pg_temp.end_it() returns trigger language plpgsql as
'begin perform pg_terminate_backend(pg_backend_pid()); return null; end';
create constraint trigger end_it after insert on last deferrable initially deferred
  for each row execute function pg_temp.end_it();
insert into last values (1)
"""


def test_a_lost_commit_is_unknown_to_plain_code_too(app: Mainspring) -> None:
    pool = app.sync_pool()

    def write() -> None:
        with pool.connection() as connection:
            connection.execute(_SUICIDE)

    with pytest.raises(OutcomeUnknown, match="look whether it was done before you send it again"):
        write()


async def test_what_the_server_says_of_a_statement_stays_as_it_is(app: Mainspring) -> None:
    pool = await app.pool()
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with pool.connection(transaction=True) as connection:
            await connection.fetch("select 1/0")
    with pytest.raises(psycopg.errors.DivisionByZero), app.sync_pool().connection() as plain:
        plain.execute("select 1/0")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (asyncpg.DiskFullError("no space"), NotDone),
        (psycopg.errors.DiskFull("no space"), NotDone),
        (asyncpg.ReadOnlySQLTransactionError("standby"), NotDone),
        (asyncpg.DeadlockDetectedError("deadlock"), NotDone),
        (asyncpg.InternalClientError("cannot switch to state 12"), NotDone),
        (asyncpg.AdminShutdownError("terminating"), OutcomeUnknown),
        (psycopg.errors.AdminShutdown("terminating"), OutcomeUnknown),
        (asyncpg.InterfaceError("the server expects 2 arguments"), type(None)),
        (FileNotFoundError("of somebody's own"), type(None)),
    ],
)
def test_each_has_its_place(error: Exception, found: type) -> None:
    assert type(outage(error, lost=False, undone=False)) is found


async def test_connections_that_nobody_uses_are_closed(
    app: Mainspring, other: psycopg.Connection[Any]
) -> None:
    """T13: of both pools, and the next caller gets a new one."""
    database = await app.database()
    pool, plain = (
        AsyncPool(database, most=4, idle_for=0.2),
        SyncPool(database, most=4, idle_for=0.2),
    )
    ours = f"select count(*) from pg_stat_activity where {_OURS}"
    async with pool.connection(), pool.connection():
        pass
    with plain.connection(), plain.connection():
        assert other.execute(ours).fetchone() == (4,)

    await wait_until(lambda: other.execute(ours).fetchone() == (0,))

    async with pool.connection() as connection:
        assert await connection.fetchval("select 1") == 1
    with plain.connection() as own:
        assert own.execute("select 1").fetchone() == (1,)
    await pool.close()
    plain.close()
    await wait_until(lambda: "mainspring.idle" not in {t.name for t in threading.enumerate()})
