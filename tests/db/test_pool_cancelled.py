"""Connections of the application whose user was cancelled: what comes after them is committed (T1)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.db.sql import Statement

TURNS = 12  # of the event loop: from before the first statement to after the last


@pytest.mark.parametrize("times", [1, 2])
async def test_what_is_enqueued_after_a_cancelled_call_is_committed(
    app: Mainspring, database_url: str, times: int
) -> None:
    """T1: wherever a call is cancelled, its connection is not left in a transaction for the next one.

    Once as asyncio's timeouts do it, twice as whoever also cancels the rollback.
    """

    @app.task
    async def note(n: int) -> None: ...

    await note.enqueue(n=0)
    for turns in range(TURNS):
        cancelled = asyncio.create_task(note.options(key="a").enqueue(n=1))
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(times):
            cancelled.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([cancelled])

        handle = await note.enqueue(n=2)

        with psycopg.connect(database_url) as other:
            found = other.execute("select 1 from mainspring.visit where id = %s", (handle.id,))
            assert found.fetchone() is not None, f"answered, and not committed ({turns} turns)"


async def test_what_the_engine_writes_after_a_cancelled_statement_is_committed(
    database_url: str,
) -> None:
    """T1: behind a pooler every statement has a transaction; a run may be stopped in the middle of it."""
    database = Database(database_url, pooled=True)
    line = Line(database, "test")
    note = Statement("note", "insert into noted values (%(n)s::integer)")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("create table noted (n integer)")
        for turns in range(TURNS):
            cancelled = asyncio.create_task((await line.get()).run(note, n=-1))
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])

            await (await line.get()).run(note, n=turns)

            found = other.execute("select 1 from noted where n = %s", (turns,)).fetchone()
            assert found is not None, f"answered, and not committed ({turns} turns)"
    await line.close()


def test_a_thread_that_is_stopped_in_a_statement_leaves_no_connection_in_use(
    database_url: str,
) -> None:
    """T10: a plain task that is stopped while it enqueues spoils nobody else's enqueue.

    A stop is raised between any two bytecodes, so also while the server works on a statement.
    """
    app = Mainspring(database_url)

    @app.task
    def note(n: int) -> None: ...

    def interrupted() -> None:
        with app.sync_pool().connection() as connection:
            connection.pgconn.send_query(b"select pg_sleep(1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert note.enqueue_sync(n=3).is_new
    app.close_sync()
