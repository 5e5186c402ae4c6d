"""Connections for the tasks' own SQL."""

from __future__ import annotations

import threading

import asyncpg
import psycopg
import pytest

from mainspring import Context, RetryPolicy
from mainspring.db.database import Database
from mainspring.kernel.port import WorkerPort
from mainspring.tasks.run.connections import Connections
from mainspring.testing import run_until_idle, wait_until


@pytest.fixture
async def connections(database_url: str):
    connections = Connections(Database(database_url), WorkerPort())
    yield connections
    await connections.close()


def test_a_connection_that_opens_slowly_holds_no_other_task_up(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connections.transaction_sync():
        pass  # one is idle from here on
    opening, go, connect = threading.Event(), threading.Event(), psycopg.connect

    def slow(*arguments, **settings):
        opening.set()
        go.wait(5)
        return connect(*arguments, **settings)

    def second() -> None:
        with connections.transaction_sync():
            pass

    monkeypatch.setattr(psycopg, "connect", slow)
    first_ended = threading.Event()
    with connections.transaction_sync():
        waiting = threading.Thread(target=second)
        waiting.start()
        assert opening.wait(5)

    def first() -> None:
        with connections.transaction_sync():
            first_ended.set()

    quick = threading.Thread(target=first)
    quick.start()
    in_time = first_ended.wait(2)
    go.set()
    for thread in (waiting, quick):
        thread.join()

    assert in_time


async def test_no_connection_waits_for_ever(connections: Connections) -> None:
    with connections.transaction_sync() as plain:
        found = [plain.info.get_parameters()]
    async with connections.transaction() as connection:
        found.append(connection.info.get_parameters())

    for parameters in found:
        assert (parameters["connect_timeout"], parameters["tcp_user_timeout"]) == ("10", "30000")


@pytest.mark.parametrize(
    "statement", ["select 1/0", "select pg_terminate_backend(pg_backend_pid())"]
)
async def test_a_transaction_that_failed_leaves_nothing_to_the_next(
    connections: Connections, statement: str
) -> None:
    with pytest.raises(psycopg.Error), connections.transaction_sync() as plain:
        plain.execute(statement)
    with pytest.raises(psycopg.Error):
        async with connections.transaction() as connection:
            await connection.execute(statement)

    with connections.transaction_sync() as plain:
        assert plain.execute("select 1").fetchone() == (1,)
    async with connections.transaction() as connection:
        assert await (await connection.execute("select 1")).fetchone() == (1,)


async def test_a_worker_that_cannot_start_leaves_nothing_behind(app, database_url: str) -> None:
    """Neither connections nor threads; its process may go on without it, and try again."""

    @app.task
    def greet() -> int:
        return 1

    await app.migrate()
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("alter table mainspring.reach rename to elsewhere")
        with pytest.raises(asyncpg.UndefinedTableError):
            async with app.worker():
                pass
        ours = "select count(*) from pg_stat_activity where application_name ~ '^mainspring:(side|stage)'"
        await wait_until(lambda: admin.execute(ours).fetchone() == (0,))
        admin.execute("alter table mainspring.elsewhere rename to reach")

    handle = await greet.enqueue()
    await run_until_idle(app)
    assert await handle.result(1) == 1


_LEAVE = (
    "set search_path = 'tenant_a'",
    "set role leak_reader",
    "set statement_timeout = '1s'",
    "create temp table t_leak (n integer)",
    "select pg_advisory_lock(4711)",
    "prepare leaked as select 1",
    "listen leaks",
)
_FOUND = """
select current_user::text, current_setting('search_path'), current_setting('statement_timeout'),
  to_regclass('pg_temp.t_leak') is null, (select count(*) from pg_prepared_statements where from_sql),
  (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
  (select count(*) from pg_listening_channels())
"""


@pytest.fixture
def reader(database_url: str):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role leak_reader")
        yield
        connection.execute("drop role leak_reader")


async def test_what_a_task_does_to_its_session_ends_with_it(
    connections: Connections, reader: None
) -> None:
    """T9: the next finds its connection as new; and it is the same one, with its prepared statements."""
    found, pids = [], []
    for _ in range(8):  # more often than it takes psycopg to prepare
        with connections.transaction_sync() as plain:
            found.append(plain.execute(_FOUND).fetchone())
            pids.append(plain.info.backend_pid)
            for leave in _LEAVE:
                plain.execute(leave)
    for _ in range(8):
        async with connections.transaction() as connection:
            found.append(await (await connection.execute(_FOUND)).fetchone())
            pids.append(connection.info.backend_pid)
            for leave in _LEAVE:
                await connection.execute(leave)

    assert set(found) == {("postgres", '"$user", public', "1min", True, 0, 0, 0)}
    assert len(set(pids)) == 2


async def test_connections_that_nobody_uses_are_closed(database_url: str) -> None:
    """T13: the most that were ever needed do not stay for ever."""
    connections = Connections(Database(database_url), WorkerPort(), idle_for=0.2)
    with connections.transaction_sync(), connections.transaction_sync():
        async with connections.transaction(), connections.transaction():
            pass
    count = "select count(*) from pg_stat_activity where application_name like 'mainspring:task:%'"
    with psycopg.connect(database_url, autocommit=True) as other:
        assert other.execute(count).fetchone() == (4,)
        await wait_until(lambda: other.execute(count).fetchone() == (0,))
    with connections.transaction_sync() as plain:
        assert plain.execute("select 1").fetchone() == (1,)
    await connections.close()


async def test_a_role_that_a_task_takes_and_keeps_is_named_as_the_cause(app, reader) -> None:
    """T13: the task's end is written with the rights of whoever the connection is by then."""

    @app.task(retry=RetryPolicy(attempts=1))
    def report(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("set role leak_reader")

    handle = await report.enqueue()
    await run_until_idle(app)

    assert await handle.status() == "parked"
    with psycopg.connect(app._url) as connection:
        [(error,)] = connection.execute("select error from mainspring.visit").fetchall()
    assert "may not complete its task: permission denied" in error
    assert "`reset role` at the end of the block" in error
