"""Connections for the tasks' own SQL."""

from __future__ import annotations

import threading

import asyncpg
import psycopg
import pytest

from mainspring.db.connect import Database
from mainspring.tasks.connections import Connections
from mainspring.testing import run_until_idle, wait_until


@pytest.fixture
async def connections(database_url: str):
    connections = Connections(Database(database_url), lambda: None)
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
