"""Progress: what runs say of how far they are, to whoever follows it (T13)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.errors import InvalidSetting, NotFound, ResultTimeout, TaskFailed
from mainspring.tasks.declare.progress import Progress
from mainspring.tasks.run.progress import check_progress, drop_progress
from mainspring.tasks.statements import SQL
from mainspring.testing import Clock, run_until_idle
from mainspring.testing.idle import FAST_SETTINGS


def work(app: Mainspring, **settings: Any) -> Any:
    return app.worker(**(FAST_SETTINGS | settings))


async def followed(handle: Any, until: int, go: Any) -> list[tuple[float, str | None]]:
    """The words of a call; when so many have come, `go` lets it go on."""
    words = []
    async for word in handle.progress(timeout=20):
        words.append((word.done, word.note))
        if len(words) == until:
            go.set()
    return words


async def test_words_are_told_as_they_come_until_the_end(app) -> None:
    """T13: from another connection, while it runs; the iteration ends with the call."""
    go = asyncio.Event()

    @app.task
    async def load(ctx: Context) -> None:
        ctx.progress(0.25, "rows")
        await go.wait()

    async with work(app):
        handle = await load.enqueue()
        assert await followed(handle, 1, go) == [(0.25, "rows")]
        assert await handle.status() == "done"


async def test_a_plain_function_says_it_and_plain_code_follows(app) -> None:
    go = threading.Event()

    @app.task
    def load(ctx: Context) -> None:
        ctx.progress(0.5)
        go.wait(20)

    def follow(handle: Any) -> list[Progress]:
        words = []
        for word in handle.progress_sync(timeout=20):
            words.append(word)
            go.set()
        return words

    async with work(app):
        handle = await load.enqueue()
        (word,) = await asyncio.to_thread(follow, handle)
    assert word[:3] == (0.5, None, 1)


async def test_a_run_that_speaks_all_the_time_costs_a_few_writes(app, database_url: str) -> None:
    """T13: cheap: many words of many runs are one row each, and two statements a second."""

    @app.task
    async def load(ctx: Context) -> None:
        for n in range(5000):
            ctx.progress(n / 5000)

    async with work(app):
        handles = await load.enqueue_many([{}] * 20)
        ends = [end async for end in app.results(handles, timeout=20)]
        assert all(end.ok for end in ends)
    with psycopg.connect(database_url) as connection:
        # An unlogged table counts its writes: each word that was written is a new version.
        (rows,) = connection.execute("select count(*) from mainspring.progress").fetchone() or (0,)
        connection.execute("select pg_stat_force_next_flush()")
        (writes,) = connection.execute(
            "select n_tup_ins + n_tup_upd from pg_stat_user_tables where relname = 'progress'"
        ).fetchone() or (0,)
    assert rows == 20
    assert writes < 20 * 20
    words = await app.operator.progress([handle.id for handle in handles])
    assert {word.done for word in words.values()} == {4999 / 5000}


async def test_a_new_attempt_begins_anew(app) -> None:
    @app.task(retry=RetryPolicy(attempts=2, first=0.01))
    async def load(ctx: Context) -> None:
        ctx.progress(0.9 if ctx.attempt == 1 else 0.1, f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("once more")

    handle = await load.enqueue()
    await run_until_idle(app)
    assert [word[:3] async for word in handle.progress()] == [(0.1, "attempt 2", 2)]


async def test_a_late_word_of_an_earlier_attempt_is_not_written(app) -> None:
    """T13: a fenced run may go on saying how far it is, while its next attempt does."""
    id = uuid4()
    await app.migrate()
    async with (await app.pool()).connection() as connection:
        for attempt, done in ((2, 0.1), (1, 0.9)):
            words = {"ids": [id], "attempts": [attempt], "dones": [done], "notes": [None]}
            await connection.run(SQL["write_progress"], **words)
    words = await app.operator.progress([str(id)])
    assert words[str(id)][:3] == (0.1, None, 2)


async def test_nothing_said_is_an_empty_iteration_and_silence_ends_by_timeout(app) -> None:
    @app.task
    async def silent() -> None: ...

    done, waits = await silent.enqueue(), await silent.options(delay=3600).enqueue()
    await run_until_idle(app)

    assert [word async for word in done.progress()] == []
    with pytest.raises(
        ResultTimeout, match="is scheduled and has said nothing new of its progress"
    ):
        [word async for word in waits.progress(timeout=0.05)]
    unknown = app.task_handle("silent", "01890000-0000-7000-8000-000000000000")
    with pytest.raises(NotFound, match="neither waiting nor in history"):
        [word async for word in unknown.progress()]


async def test_what_is_no_part_of_the_whole_is_refused(app) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def load(ctx: Context, done: float) -> None:
        ctx.progress(done)

    handle = await load.enqueue(40)
    await run_until_idle(app)
    with pytest.raises(TaskFailed, match="progress must be 0 to 1, a part of the whole, got 40"):
        await handle.result(timeout=5)
    with pytest.raises(InvalidSetting, match="got True"):
        check_progress(True)


async def test_old_words_are_dropped(app, clock: Clock) -> None:
    """T13: upkeep drops them a day after the last one."""

    @app.task
    async def load(ctx: Context) -> None:
        ctx.progress(1)

    async def dropped() -> None:
        database, pool = await app.database(), await app.pool()
        async with pool.connection() as connection:
            await drop_progress(database, connection, days=30)

    handle = await load.enqueue()
    await run_until_idle(app)
    await dropped()
    assert handle.id in await app.operator.progress([handle.id])
    await clock.advance(25 * 3600)
    await dropped()
    assert await app.operator.progress([handle.id]) == {}
