"""The application's own connections: over event loops, threads and forks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.connect.outage import is_transient
from mainspring.db.pool import AsyncPool
from mainspring.db.sql import Statement
from mainspring.errors import NotDone, OutcomeUnknown

# Run as a program: a fork of the tests' own process would have pytest's threads behind it.
_FORK = """
import asyncio, gc, os, sys
from mainspring import Mainspring

app = Mainspring(sys.argv[1])

@app.task
async def note(n: int) -> None: ...

async def enqueue(start):
    for n in range(start, start + 50):
        await note.enqueue(n=n)

loop = asyncio.new_event_loop()
loop.run_until_complete(enqueue(0))
for n in range(50, 100):
    note.enqueue_sync(n=n)

child = os.fork()
start = 200 if child else 100
for n in range(start, start + 50):
    note.enqueue_sync(n=n)
if child:
    loop.run_until_complete(asyncio.wait_for(enqueue(start + 50), 10))
    ended, status = os.waitpid(child, 0)
    assert status == 0, status
    # The child is gone and took nothing along.
    note.enqueue_sync(n=300)
    loop.run_until_complete(asyncio.wait_for(note.enqueue(n=301), 10))
    loop.run_until_complete(app.close())
else:
    asyncio.run(enqueue(start + 50))
    gc.collect()
    app.close_sync()
"""


def test_a_forked_child_has_connections_of_its_own(database_url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FORK, database_url],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    with psycopg.connect(database_url) as connection:
        found = connection.execute("select (payload ->> 'n')::int from mainspring.visit order by 1")
        assert [n for (n,) in found] == list(range(302))


def test_a_private_server_is_used_in_the_child_s_own_name() -> None:
    """Else the parent's end would stop it under the child."""
    app = Mainspring("postgresql://somewhere/")
    app._url, app._database, app._server = None, object(), object()  # type: ignore[assignment]

    app._forked()

    assert (app._database, app._server) == (None, None)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_event_loops_that_take_turns_keep_their_connections(database_url: str) -> None:
    app = Mainspring(database_url)
    pids: list[Any] = []

    async def look() -> int:
        async with (await app.pool()).connection() as connection:
            return connection.get_server_pid()  # type: ignore[no-any-return]

    with asyncio.Runner() as first, asyncio.Runner() as second:
        pids = [runner.run(look()) for runner in (first, second) * 3]
        second.run(app.close())
        first.run(app.close())

    assert len(set(pids)) == 2
    assert pids == pids[:2] * 3


def test_the_connections_of_a_closed_event_loop_are_dropped(database_url: str) -> None:
    app = Mainspring(database_url)

    async def open_pool() -> None:
        await app.pool()

    for _ in range(3):
        asyncio.run(open_pool())

    assert len(app.pools._by_loop) == 1


def test_threads_may_take_connections_at_once(database_url: str) -> None:
    app = Mainspring(database_url)
    errors: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(100):
                with app.sync_pool().connection():
                    pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    app.close_sync()

    assert errors == []


async def test_a_transaction_whose_connection_breaks_says_why(
    app: Mainspring, database_url: str
) -> None:
    """T13: and not that what is closed cannot be rolled back."""
    pool = await app.pool()

    async def broken() -> None:
        async with pool.connection(transaction=True) as connection:
            pid = await connection.fetchval("select pg_backend_pid()")
            other.execute("select pg_terminate_backend(%s, 5000)", (pid,))
            await connection.fetch("select 1")

    other = psycopg.connect(database_url, autocommit=True)
    with other, pytest.raises(NotDone, match="before anything was done"):
        await broken()


@pytest.mark.parametrize("ask_by", [AsyncPool.fetch, AsyncPool.run])
async def test_a_server_that_does_not_answer_is_given_up(app: Mainspring, ask_by: Any) -> None:
    """T13: whoever enqueues gets an error, though neither the server nor the network says a word."""
    pool = AsyncPool(await app.database(), most=1, patience=0.2)
    ask = Statement("ask", "select pg_backend_pid() as pid")
    [row] = await pool.fetch(ask, {})
    os.kill(row["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(OutcomeUnknown) as given_up:
            await asyncio.wait_for(ask_by(pool, ask, {}), 20)
    finally:
        os.kill(row["pid"], signal.SIGCONT)

    assert is_transient(given_up.value)
    [another] = await pool.fetch(ask, {})
    assert another["pid"] != row["pid"]
    await pool.close()


async def test_a_table_may_change_between_two_calls(app: Mainspring, database_url: str) -> None:
    """T13: what is kept for the next call on a connection outlives a migration."""

    @app.task
    async def note(n: int) -> None: ...

    await note.enqueue(1)
    with psycopg.connect(database_url, autocommit=True) as other:
        for n, change in enumerate(
            (
                "alter table mainspring.visit add column later text",
                "create index visit_later on mainspring.visit (later) where later is not null",
                "alter table mainspring.visit drop column later",
                "alter table mainspring.visit alter column crashes set default 0",
            )
        ):
            other.execute(change)
            await note.enqueue(n)
        found = other.execute("select count(*) from mainspring.visit").fetchone()

    assert found == (5,)


async def test_many_statements_may_take_longer_than_one_may(app: Mainspring) -> None:
    pool = AsyncPool(await app.database(), most=1, patience=0.1)
    loop = asyncio.get_running_loop()
    async with pool.connection(transaction=True) as connection:
        until = loop.time() + 0.5
        while loop.time() < until:
            assert await connection.fetchval("select 1") == 1
    await pool.close()
