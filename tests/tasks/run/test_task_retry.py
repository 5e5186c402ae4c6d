"""Failures: retried with backoff, parked in the end, whatever was raised (T13)."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Context, RetryAfter, RetryPolicy
from mainspring.operate.history import HistoryFilter
from mainspring.testing import run_until_idle

ONCE = RetryPolicy(attempts=1)


def row(url: str) -> dict:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        found = connection.execute("select * from mainspring.visit").fetchone()
    assert found is not None
    return found


async def test_a_failed_task_is_retried_after_its_backoff(app, clock, database_url) -> None:
    attempts = []

    @app.task(retry=RetryPolicy(first=60, factor=1))
    async def flaky(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return "at last"

    handle = await flaky.enqueue()
    await run_until_idle(app)
    assert attempts == [1]
    assert await handle.status() == "scheduled"

    for _ in range(2):
        await clock.advance(60)
        await run_until_idle(app)

    assert attempts == [1, 2, 3]
    assert await handle.result(timeout=1) == "at last"


async def test_a_backoff_is_kept_to(app, clock, database_url) -> None:
    @app.task(retry=RetryPolicy(first=60, factor=2))
    async def fails() -> None:
        raise ValueError("no")

    await fails.enqueue()
    delays = []
    for _ in range(4):
        before = await clock.now()
        await run_until_idle(app)
        delays.append((row(database_url)["due_at"] - before) / timedelta(seconds=1))
        await clock.advance(3600)

    for delay, full in zip(delays, (60, 120, 240, 480), strict=True):
        assert full / 2 <= delay <= full + 5


async def test_a_task_is_parked_after_its_attempts(app, database_url) -> None:
    @app.task(retry=RetryPolicy(attempts=3, first=0))
    async def fails() -> None:
        raise ValueError("no")

    handle = await fails.enqueue()
    await run_until_idle(app)

    assert await handle.status() == "parked"
    assert row(database_url)["attempt"] == 3
    with psycopg.connect(database_url) as connection:
        outcomes = connection.execute(
            "select outcome::text, attempt from mainspring.history order by attempt"
        ).fetchall()
    assert outcomes == [("retry", 1), ("retry", 2), ("parked", 3)]


async def test_retries_are_on_by_default(app, database_url) -> None:
    @app.task
    async def fails() -> None:
        raise ValueError("no")

    await fails.enqueue()
    await run_until_idle(app)

    assert row(database_url)["attempt"] >= 1
    assert row(database_url)["parked_at"] is None


async def test_an_exception_may_have_a_policy_of_its_own(app, database_url) -> None:
    @app.task(retry=RetryPolicy(first=60, give_up_on=(KeyError,)))
    async def fails(with_key: bool) -> None:
        raise KeyError("no") if with_key else ValueError("no")

    gives_up, retries = await fails.enqueue(True), await fails.enqueue(False)
    await run_until_idle(app)

    assert await gives_up.status() == "parked"
    assert await retries.status() == "scheduled"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Endless(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError("x" * 50_000_000),
        ValueError("nul \x00 and \ud800 surrogate"),
        Unprintable(),
        Endless(),
        BaseException("base"),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(1),
        StopAsyncIteration(),
        TimeoutError("slow"),
        BaseExceptionGroup("both", [ValueError("a"), KeyboardInterrupt()]),
        RecursionError("deep"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
async def test_whatever_a_task_raises_it_is_parked_and_the_worker_lives(
    app, database_url, error: BaseException, plain: bool
) -> None:
    if plain:

        @app.task(retry=ONCE)
        def fails() -> None:
            raise error

    else:

        @app.task(retry=ONCE)
        async def fails() -> None:
            raise error

    @app.task
    async def fine() -> int:
        return 1

    handle = await fails.enqueue()
    async with app.worker(lease=1.0, poll=0.05, concurrency=2) as worker:
        await worker.drained()
        neighbours = await fine.enqueue_many([{}] * 5)
        assert [await n.result(timeout=5) for n in neighbours] == [1] * 5

    assert await handle.status() == "parked"
    assert len(row(database_url)["error"].encode()) <= 16_000


async def test_a_task_that_leaves_its_loop_s_recursion_deep_is_a_failure(app) -> None:
    @app.task(retry=ONCE)
    async def deep() -> None:
        def down() -> None:
            down()

        down()

    handle = await deep.enqueue()
    await run_until_idle(app)

    assert await handle.status() == "parked"
    assert sys.getrecursionlimit() < 10_000


async def test_a_task_that_cancels_itself_is_a_failure(app) -> None:
    """Nobody stopped the worker: it is the task's own doing."""

    @app.task(retry=ONCE)
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)

    @app.task
    async def fine() -> int:
        return 1

    handle, neighbour = await gives_up.enqueue(), await fine.enqueue()
    await run_until_idle(app, concurrency=1)

    assert await handle.status() == "parked"
    assert await neighbour.result(timeout=1) == 1


async def test_a_task_that_cannot_decode_its_payload_is_parked_with_the_reason(
    app, database_url
) -> None:
    """A corrupt row: neighbours run."""
    done = []

    @app.task(retry=ONCE)
    async def pay(order: int) -> None:
        done.append(order)

    handles = await pay.enqueue_many({"order": n} for n in range(5))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "update mainspring.visit set payload = %s where id = %s",
            ('["not", "an object"]', handles[2].id),
        )

    await run_until_idle(app)

    assert sorted(done) == [0, 1, 3, 4]
    assert await handles[2].status() == "parked"
    error = row(database_url)["error"]
    assert "do not fit its signature" in error
    assert "not" in error


async def test_a_renamed_task_s_rows_wait_until_its_name_is_back(app, database_url) -> None:
    """Kept, and run by the first worker that knows the name."""
    from mainspring import Mainspring

    @app.task(name="old")
    async def old(n: int) -> int:
        return n

    handle = await old.enqueue(n=1)
    async with Mainspring(database_url) as renamed:

        @renamed.task(name="new")
        async def new(n: int) -> int:
            return n

        await run_until_idle(renamed)
        assert await handle.status() == "waiting"

    await run_until_idle(app)
    assert await handle.result(timeout=1) == 1


class TestTimeouts:
    """T13."""

    async def test_an_async_task_that_overruns_is_stopped(self, app) -> None:
        stopped = []

        @app.task(timeout=0.05, retry=ONCE)
        async def slow() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.append(True)
                raise

        handle = await slow.enqueue()
        await run_until_idle(app)

        assert stopped == [True]
        assert await handle.status() == "parked"

    async def test_a_plain_function_that_overruns_is_interrupted(self, app) -> None:
        @app.task(timeout=0.05, retry=ONCE)
        def slow() -> None:
            while True:
                sum(range(1000))

        handle = await slow.enqueue()
        await run_until_idle(app)

        assert await handle.status() == "parked"

    async def test_the_error_names_the_timeout(self, app, database_url) -> None:
        @app.task(timeout=0.05, retry=ONCE)
        async def slow() -> None:
            await asyncio.sleep(60)

        await slow.enqueue()
        await run_until_idle(app)

        assert "timeout of 0.05 s" in row(database_url)["error"]

    async def test_a_task_that_swallows_its_timeout_still_failed(self, app) -> None:
        @app.task(timeout=0.05, retry=ONCE)
        async def stubborn() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "in spite of all"
            return "no"

        handle = await stubborn.enqueue()
        await run_until_idle(app)

        assert await handle.status() in ("parked", "done")

    async def test_other_tasks_are_not_touched_by_a_timeout(self, app) -> None:
        @app.task(timeout=0.05, retry=ONCE)
        async def slow() -> None:
            await asyncio.sleep(60)

        @app.task
        async def steady(n: int) -> int:
            await asyncio.sleep(0.02)
            return n

        await slow.enqueue_many([{}] * 3)
        handles = await steady.enqueue_many({"n": n} for n in range(20))
        await run_until_idle(app, concurrency=3)

        assert [await h.result(timeout=1) for h in handles] == list(range(20))


async def test_a_task_that_is_told_to_come_later_is_no_failure(app, clock) -> None:
    """T13: Retry-After from a handler: due again then, and nothing is counted."""
    attempts: list[int] = []

    @app.task(retry=RetryPolicy(attempts=1))
    async def call_api(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 4:
            after = (3600, timedelta(hours=1), datetime.now(UTC) + timedelta(hours=12))
            raise RetryAfter(after[len(attempts) - 1], "the API asks for it")
        return "answered"

    handle = await call_api.enqueue()
    await run_until_idle(app)
    assert (await app.operator.find(handle.key))[0].state == "scheduled"
    for _ in range(3):
        await clock.advance(timedelta(hours=13))
        await run_until_idle(app)

    assert attempts == [1, 1, 1, 1]
    assert await handle.result(timeout=5) == "answered"
    past = await app.operator.history(HistoryFilter(key=handle.key))
    assert [run.outcome for run in past] == ["done"]


async def test_what_counts_ends_by_the_policy(app, clock) -> None:
    @app.task(retry=RetryPolicy(attempts=2))
    async def call_api() -> None:
        raise RetryAfter(3600, "still busy", counts=True)

    handle = await call_api.enqueue()
    await run_until_idle(app)
    assert await handle.status() == "scheduled"
    await clock.advance(3601)
    await run_until_idle(app)

    assert await handle.status() == "parked"
    past = await app.operator.history(HistoryFilter(key=handle.key))
    assert [run.outcome for run in past] == ["parked", "retry"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (-1, "must have 0 to 315360000 seconds, a timedelta or a datetime, got -1"),
        ("30", "got '30'"),
        (True, "got True"),
        (float("nan"), "got nan"),
        (datetime(2030, 1, 1), "a time with a time zone"),
    ],
    ids=str,
)
def test_what_is_no_time_is_refused(given: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RetryAfter(given)
