"""Connections that tasks use are broken off at a fence: no run waits for a server that does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool
from mainspring.kernel.port import WorkerPort
from mainspring.tasks.run.connections import Connections

pytestmark = pytest.mark.skipif(
    "MAINSPRING_TEST_DSN" in os.environ, reason="not our own server: its backends cannot be stopped"
)


@contextmanager
def silenced(pid: int) -> Iterator[None]:
    """A backend stands still, as if the network to it were gone."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)  # it would sleep on: nobody reads its connection
        os.kill(pid, signal.SIGCONT)


async def test_a_run_amid_a_statement_ends_at_once_when_it_is_cut(database_url: str) -> None:
    """A5: a cancel request and a rollback would each wait for an answer."""
    connections = Connections(Database(database_url), WorkerPort())
    pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with connections.transaction() as connection:
            pid.set_result(connection.info.backend_pid)
            await connection.execute("select pg_sleep(60)")

    run = asyncio.create_task(work())
    with silenced(await pid):
        await asyncio.sleep(0)
        run.cancel()
        connections.in_use.cut()
        await asyncio.wait({run}, timeout=3)
        assert run.cancelled()
    assert connections._idle.take() is None


async def test_a_thread_amid_a_statement_ends_at_once_when_it_is_cut(database_url: str) -> None:
    connections = Connections(Database(database_url), WorkerPort())
    loop = asyncio.get_running_loop()
    pid: asyncio.Future[int] = loop.create_future()

    def work() -> None:
        with connections.transaction_sync() as connection:
            loop.call_soon_threadsafe(pid.set_result, connection.info.backend_pid)
            connection.execute("select pg_sleep(60)")

    run = asyncio.ensure_future(asyncio.to_thread(work))
    with silenced(await pid):
        connections.in_use.cut(threads_only=True)
        await asyncio.wait({run}, timeout=3)
        assert isinstance(run.exception(), psycopg.OperationalError)
    assert connections._idle_sync.take() is None


async def test_a_run_amid_a_transaction_of_the_engine_s_ends_at_once_when_it_is_stopped(
    database_url: str,
) -> None:
    """A5: it enqueues, or saves an entity: a rollback would wait for the statement before it."""
    pool = AsyncPool(Database(database_url), most=1)
    pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with pool.connection(transaction=True) as connection:
            pid.set_result(connection.get_server_pid())
            await connection.execute("select pg_sleep(60)")

    run = asyncio.create_task(work())
    with silenced(await pid):
        await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait({run}, timeout=3)
        assert run.cancelled()
    await pool.close()
