"""Cancel: a call ends once, as what came first, and its run is told (T13)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import psycopg
import pytest

from mainspring import Context, RetryPolicy
from mainspring.errors import InvalidSetting, NotFound, TaskFailed
from mainspring.operate.history import HistoryFilter
from mainspring.testing import run_until_idle, wait_until
from mainspring.testing.idle import FAST_SETTINGS


def work(app: Any, **settings: Any) -> Any:
    return app.worker(**(FAST_SETTINGS | settings))


async def is_held(handle: Any) -> bool:
    return await handle.status() == "running"


async def until_held(handle: Any) -> None:
    async with asyncio.timeout(10):
        while not await is_held(handle):
            await asyncio.sleep(0.01)


async def ended_as(app: Any, handle: Any) -> list[tuple[str, str | None]]:
    past = await app.operator.history(HistoryFilter(key=handle.key))
    return [(run.outcome, run.error) for run in past]


async def test_a_waiting_call_is_cancelled(app) -> None:
    """T13: result() raises TaskFailed, history says 'cancelled', and it never runs."""
    ran = []

    @app.task
    async def mail(n: int) -> None:
        ran.append(n)

    handle = await mail.enqueue(1)
    assert await handle.cancel(reason="not needed") == "cancelled"
    assert await handle.cancel() == "cancelled"
    await run_until_idle(app)

    assert ran == []
    with pytest.raises(TaskFailed, match="was cancelled: not needed"):
        await handle.result(timeout=5)


async def test_a_running_async_function_sees_a_cancellation_and_cleans_up(app) -> None:
    """T13: cancel of running work; it is settled as cancelled when it has cleaned up."""
    steps: list[str] = []

    @app.task(hold_after=0)
    async def long() -> None:
        steps.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            steps.append("cleaned up")
            raise

    async with work(app):
        handle = await long.enqueue()
        await wait_until(lambda: bool(steps))
        assert await handle.cancel(reason="enough", wait=10) == "cancelled"

    assert steps == ["began", "cleaned up"]
    assert await ended_as(app, handle) == [("cancelled", "enough")]
    with pytest.raises(TaskFailed) as failed:
        await handle.result(timeout=5)
    assert failed.value.outcome == "cancelled"


async def test_a_plain_function_that_asks_may_clean_up_and_return(app) -> None:
    """T13: ctx.cancelled can be polled; what the function returns then does not count."""
    steps: list[str] = []

    @app.task(hold_after=0)
    def long(ctx: Context) -> str:
        assert not ctx.cancelled
        steps.append("began")
        ctx.cancelled.wait(30)
        assert ctx.cancelled
        steps.append("cleaned up")
        return "half a result"

    async with work(app):
        handle = await long.enqueue()
        await wait_until(lambda: bool(steps))
        assert await handle.cancel(wait=10) == "cancelled"

    assert steps == ["began", "cleaned up"]


async def test_a_plain_function_that_never_asks_is_interrupted(app) -> None:
    began, ended = threading.Event(), threading.Event()

    @app.task(hold_after=0)
    def long() -> None:
        began.set()
        try:
            while True:
                sum(range(1000))
        finally:
            ended.set()

    async with work(app):
        handle = await long.enqueue()
        await asyncio.to_thread(began.wait)
        assert await handle.cancel(wait=10) == "cancelled"

    assert ended.is_set()


async def test_one_that_asks_and_does_not_end_is_interrupted_after_its_grace(app) -> None:
    began = threading.Event()

    @app.task(hold_after=0, grace=0.1)
    def stubborn(ctx: Context) -> None:
        assert not ctx.cancelled
        began.set()
        while True:
            sum(range(1000))

    async with work(app):
        handle = await stubborn.enqueue()
        await asyncio.to_thread(began.wait)
        assert await handle.cancel(wait=10) == "cancelled"


async def test_a_run_that_swallows_its_cancellation_is_cancelled_all_the_same(app) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @app.task(hold_after=0)
    async def stubborn() -> str:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await go.wait()
        return "done all the same"

    async with work(app):
        handle = await stubborn.enqueue()
        await began.wait()
        assert await handle.cancel(wait=10) == "cancelled"


async def test_a_run_that_ends_by_itself_has_won(app, database_url: str) -> None:
    """T13: its result stands, and cancel says so."""
    began, go = asyncio.Event(), asyncio.Event()

    @app.task(hold_after=0)
    async def quick() -> str:
        began.set()
        await go.wait()
        return "first"

    async with work(app):
        handle = await quick.enqueue()
        await began.wait()
        async with await psycopg.AsyncConnection.connect(database_url) as mine:
            assert await handle.cancel(on=mine) == "cancelling"
            go.set()  # before the cancel is committed, so nobody can have told it
        assert await handle.result(timeout=10) == "first"
    assert await handle.cancel() == "done"


async def test_a_lost_word_is_found_at_the_next_beat(app, database_url: str) -> None:
    """T13: the request stands in the row; nobody has to hear of it."""
    began = asyncio.Event()

    @app.task(hold_after=0)
    async def long() -> None:
        began.set()
        await asyncio.Event().wait()

    async with work(app):
        handle = await long.enqueue()
        await began.wait()
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as mine:
            await mine.execute(
                "update mainspring.visit set called_off = 'silently', expires_at = '1970-01-01Z'"
            )
        with pytest.raises(TaskFailed, match="silently"):
            await handle.result(timeout=10)


async def test_a_short_run_is_told_too(app) -> None:
    """T13: one that holds nothing yet is over for everybody at once, and hears of it."""
    began, ended = asyncio.Event(), asyncio.Event()

    @app.task(hold_after=3600)
    async def long() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with work(app):
        handle = await long.enqueue()
        await began.wait()
        assert await handle.cancel() == "cancelled"
        await asyncio.wait_for(ended.wait(), 10)

    assert await ended_as(app, handle) == [("cancelled", "cancelled")]


async def test_what_a_worker_has_read_is_not_started_after_its_cancel(app) -> None:
    """T13: a call that waits in a worker's memory is read again when it was cancelled."""
    began, go, ran = asyncio.Event(), asyncio.Event(), []

    @app.task
    async def first() -> None:
        began.set()
        await go.wait()

    @app.task
    async def second(n: int) -> None:
        ran.append(n)

    async with work(app, concurrency=1) as worker:
        await first.enqueue()
        await began.wait()
        handles = [await second.enqueue(n) for n in range(3)]
        await wait_until(lambda: len(worker.buffer.queues[second.name].known_keys) == 3)
        assert await handles[1].cancel() == "cancelled"
        await wait_until(lambda: bool(worker.runner.doubted.until))
        go.set()
        await handles[2].result(timeout=10)

    assert ran == [0, 2]


async def test_cleaning_up_and_the_cancel_are_one_commit(app, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table note (text text)")
    began = asyncio.Event()

    @app.task(hold_after=0)
    async def long(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            async with ctx.transaction() as connection:
                await connection.execute("insert into note values ('cleaned up')")

    async with work(app):
        handle = await long.enqueue()
        await began.wait()
        assert await handle.cancel(wait=10) == "cancelled"

    with psycopg.connect(database_url) as connection:
        assert connection.execute("select text from note").fetchall() == [("cleaned up",)]
    assert [outcome for outcome, _ in await ended_as(app, handle)] == ["cancelled"]


async def test_one_that_fails_while_it_is_told_is_not_tried_again(app) -> None:
    began = asyncio.Event()

    @app.task(hold_after=0, retry=RetryPolicy(first=0.01))
    async def bad() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("cleaning up failed") from None

    async with work(app):
        handle = await bad.enqueue()
        await began.wait()
        assert await handle.cancel(wait=10) == "cancelled"
    await run_until_idle(app)

    assert len(await ended_as(app, handle)) == 1


async def test_sync_code_can_cancel_and_run_now(app) -> None:
    @app.task
    def mail() -> str:
        return "sent"

    one = mail.options(delay=3600).enqueue_sync()
    two = mail.options(delay=3600).enqueue_sync()
    assert one.cancel_sync() == "cancelled"
    assert two.run_now_sync() == "waiting"
    await run_until_idle(app)
    assert two.result_sync(timeout=5) == "sent"
    assert two.run_now_sync() == "done"


async def test_a_call_in_its_backoff_runs_now(app) -> None:
    """T13: run-now; the attempt counts on."""
    attempts = []

    @app.task(retry=RetryPolicy(first=3600, most=3600))
    async def flaky(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError

    handle = await flaky.enqueue()
    await run_until_idle(app)
    assert await handle.status() == "scheduled"
    assert await handle.run_now() == "waiting"
    await run_until_idle(app)

    assert attempts == [1, 2]
    assert await handle.status() == "done"


async def test_what_is_unknown_is_said(app) -> None:
    @app.task
    async def mail() -> None: ...

    await app.migrate()
    handle = app.task_handle("mail", "0190a0a0-0000-7000-8000-000000000000")
    with pytest.raises(NotFound, match="neither waiting nor in history"):
        await handle.cancel()
    with pytest.raises(NotFound, match="neither waiting nor in history"):
        await handle.run_now()


async def test_a_wait_in_one_s_own_transaction_is_refused(app, database_url: str) -> None:
    @app.task
    async def mail() -> None: ...

    handle = await mail.options(delay=60).enqueue()
    async with await psycopg.AsyncConnection.connect(database_url) as mine:
        with pytest.raises(InvalidSetting, match=r"wait=3 and on= are both given"):
            await handle.cancel(wait=3, on=mine)


async def test_a_call_behind_a_run_begins_when_that_is_cancelled(app) -> None:
    """T13: nothing that was asked is swallowed by a cancel of the run before it."""
    began: list[int] = []
    go = asyncio.Event()

    @app.task(hold_after=0)
    async def long(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    keyed = long.options(key="k")
    async with work(app):
        first = await keyed.enqueue(1)
        await wait_until(lambda: began == [1])
        second = await keyed.enqueue(2)
        assert await first.cancel(wait=10) == "cancelled"
        await wait_until(lambda: began == [1, 2])
        third = await keyed.enqueue(3)
        assert await third.cancel(reason="no third") == "cancelled"
        assert await third.cancel() == "cancelled"
        go.set()
        assert await second.result(timeout=10) == 2
    await run_until_idle(app)

    assert began == [1, 2]
    with pytest.raises(TaskFailed, match="no third"):
        await third.result(timeout=5)
