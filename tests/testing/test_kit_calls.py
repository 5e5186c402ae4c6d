"""The kit for applications: time that is skipped, what was enqueued, calls run inline, parts of an app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, Promise, RetryPolicy, sleep
from mainspring.errors import InvalidArguments, InvalidTask, MainspringError
from mainspring.hooks.depend import Depends, provider
from mainspring.hooks.told import RunInfo
from mainspring.testing import (
    Clock,
    InlineCall,
    assert_enqueued,
    enqueued,
    failed_call,
    inline,
    install,
    parked_call,
    placed,
    run_until_idle,
)


@pytest.fixture
def remind(app: Mainspring) -> Any:
    @app.task
    async def remind(to: str, price: Decimal = Decimal(1)) -> str:
        return f"reminded {to}"

    return remind


class TestSkippedTime:
    async def test_retries_and_delays_come_at_once(self, app: Mainspring, clock: Clock) -> None:
        tries = []
        before = await clock.now()

        @app.task(retry=RetryPolicy(attempts=4, first=3600, factor=2, most=86_400))
        async def flaky(ctx: Context) -> int:
            tries.append(ctx.attempt)
            if ctx.attempt < 4:
                raise ValueError("not yet")
            return ctx.attempt

        handle = await flaky.options(delay=timedelta(days=30)).enqueue()
        await run_until_idle(app, skip_time=True)

        assert await handle.result(1) == 4
        assert tries == [1, 2, 3, 4]
        assert timedelta(days=30, hours=1) < await clock.now() - before < timedelta(days=32)

    async def test_timers_of_processes_come_and_looks_do_not_go_on(self, app: Mainspring) -> None:
        approved = app.signal("approved", bool)

        @app.task
        def book(n: int, slept: None) -> int:
            return n

        @app.process
        def trip(n: int) -> Promise[int]:
            return book(n, sleep(timedelta(days=3)))

        @app.process
        def waits() -> Promise[bool]:
            return approved.wait()

        handle, other = await trip.start(7), await waits.start()
        await run_until_idle(app, skip_time=True)

        assert await handle.result(1) == 7
        assert await other.status() == "open"

    async def test_what_goes_on_for_ever_is_named(self, app: Mainspring) -> None:
        @app.task
        async def poll() -> None:
            await poll.options(delay=60, key="source-7").enqueue()

        await poll.options(key="source-7").enqueue()

        with pytest.raises(TimeoutError, match="after 5 moves of the clock") as error:
            await run_until_idle(app, skip_time=True, most_moves=5)
        assert "'poll' 'source-7' (6 times)" in str(error.value)
        assert "tested without skip_time" in str(error.value)

    async def test_so_is_what_goes_on_by_calls_without_a_key(self, app: Mainspring) -> None:
        @app.task
        async def poll() -> None:
            await poll.options(delay=60).enqueue()

        await poll.enqueue()

        with pytest.raises(TimeoutError, match=r"came most often: 'poll' \(5 times\)\."):
            await run_until_idle(app, skip_time=True, most_moves=4)

    async def test_schedules_and_paused_queues_are_left_alone(self, app: Mainspring) -> None:
        ticks = []

        @app.task(cron="* * * * *")
        async def tick() -> None:
            ticks.append(1)

        @app.task
        async def held() -> None:
            ticks.append(2)

        await held.options(delay=60).enqueue()
        await run_until_idle(app)
        await app.operator.pause("held")
        await run_until_idle(app, skip_time=True)

        assert 2 not in ticks


class TestEnqueued:
    async def test_what_was_enqueued_is_found_by_what_matters(self, app, remind) -> None:
        await remind.enqueue(to="bob")
        how = remind.options(delay=timedelta(days=1), key="ann", group="eu")
        handle = await how.enqueue(to="ann", price=Decimal("2.50"))

        [found] = assert_enqueued(
            app, remind, {"price": Decimal("2.50")}, key="ann", group="eu", delay=86_400
        )

        assert (str(found.id), found.arguments) == (handle.id, {"to": "ann", "price": "2.50"})
        assert len(assert_enqueued(app, remind, count=2)) == 2
        assert_enqueued(app, remind, {"to": "eve"}, count=0)
        assert str(found) == ("remind(to='ann', price='2.50') key='ann' group='eu' delay=86400 s")

    async def test_a_failure_lists_what_was_enqueued(self, app, remind) -> None:
        with pytest.raises(AssertionError, match="and 0 fit; enqueued is:\n  nothing"):
            assert_enqueued(app, remind)
        await remind.options(key="ann").enqueue(to="ann")

        with pytest.raises(AssertionError) as error:
            assert_enqueued(app, remind, {"to": "bob"}, key="bob", delay=60)
        assert str(error.value) == (
            "a call like remind(to='bob') delay=60 s key='bob' should be enqueued, and 0 fit; "
            "enqueued is:\n  remind(to='ann') key='ann'"
        )
        with pytest.raises(
            AssertionError, match=r"2 calls like remind\(\) should be enqueued, and 1"
        ):
            assert_enqueued(app, remind, count=2)

    async def test_an_argument_that_the_task_has_not_is_refused(self, app, remind) -> None:
        with pytest.raises(InvalidTask, match="arguments of task 'remind' names 'too'"):
            assert_enqueued(app, remind, {"too": "ann"})
        with pytest.raises(
            InvalidArguments, match=r"name the task by itself, got 'remind'; app.find"
        ):
            assert_enqueued(app, "remind", {"to": "ann"})  # type: ignore[arg-type]

    async def test_a_parked_and_a_failed_call_are_made(self, app, remind, clock: Clock) -> None:
        await run_until_idle(app)
        parked = parked_call(app, remind.options(key="k"), {"to": "ann"}, error=ValueError("no"))
        failed = failed_call(app, remind, {"to": "bob"}, attempt=2, after=3600)

        [one] = await app.operator.parked()
        assert (one.key, one.attempt) == ("k", 5)
        assert (one.error or "").startswith("ValueError: no")
        assert "backoff: failed 2 times" in str(await app.operator.why("remind", failed.id))
        why = str(await app.operator.why("remind", "k"))
        assert "ValueError: no\n  what to do: restart it when its reason is gone: mainspring" in why
        await app.operator.restart("remind", "k")
        await run_until_idle(app, skip_time=True)
        assert await parked.result(1) == "reminded ann"
        assert await failed.result(1) == "reminded bob"


class TestInline:
    @pytest.fixture
    def app(self) -> Mainspring:
        return Mainspring("postgresql://nobody@127.0.0.1:1/none")  # nothing is sent there

    async def test_calls_run_at_the_enqueue(self, app: Mainspring) -> None:
        @app.task
        async def note(ctx: Context, text: str, times: int = 1) -> str:
            return f"{ctx.attempt} {ctx.task} {text * times}"

        @app.task
        def plain(n: int) -> int:
            return n * 2

        urgent = plain.options(priority=9)
        with inline(app) as calls:
            handle = await note.options(key="k").enqueue("a", times=2)
            many = await urgent.enqueue_many([{"n": 1}, {"n": 2}])

        assert (await handle.result(), await handle.status()) == ("1 note aa", "done")
        assert [await one.result() for one in many] == [2, 4]
        assert calls[0] == InlineCall("note", {"text": "a", "times": 2}, calls[0].options)
        assert [call.options.priority for call in calls] == [None, 9, 9]

    def test_plain_code_runs_async_functions_too(self, app: Mainspring) -> None:
        @app.task
        async def note(text: str) -> str:
            await asyncio.sleep(0)
            return text

        with inline(app):
            assert note.enqueue_sync("a").result_sync() == "a"

    async def test_what_a_task_depends_on_is_made_for_its_call(self, app: Mainspring) -> None:
        told: list[str] = []

        @provider(per="worker")
        async def client() -> AsyncIterator[str]:
            yield "client"
            told.append("client ended")

        @provider()
        def session(run: RunInfo, client: str = Depends(client)) -> Iterator[str]:
            yield f"{client} of {run.task} {run.arguments['n']}"
            told.append("session ended")

        @app.task
        async def note(n: int, db: str = Depends(session)) -> str:
            return db

        @app.task
        def plain(ctx: Context, n: int, db: str = Depends(session)) -> str:
            return f"{ctx.attempt} {db}"

        with inline(app):
            assert await (await note.enqueue(1)).result() == "client of note 1"
            assert await (await plain.enqueue(2)).result() == "1 client of plain 2"
            assert note.enqueue_sync(3).result_sync() == "client of note 3"
        assert told == ["session ended", "client ended"] * 3

    async def test_errors_and_bad_arguments_come_at_once(self, app: Mainspring) -> None:
        @app.task
        def fail(n: int) -> None:
            raise ValueError("of the task")

        with inline(app):
            with pytest.raises(ValueError, match="of the task"):
                await fail.enqueue(1)
            with pytest.raises(InvalidArguments, match="Expected `int`"):
                await fail.enqueue("x")  # type: ignore[arg-type]

    async def test_what_needs_the_engine_says_so(self, app: Mainspring) -> None:
        @app.task
        async def pay(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        with (
            inline(app),
            pytest.raises(MainspringError, match="test this task with run_until_idle"),
        ):
            await pay.enqueue()

    async def test_afterwards_calls_are_enqueued_again(self, mainspring_app: Mainspring) -> None:
        @mainspring_app.task
        def note() -> None: ...

        with inline(mainspring_app):
            await note.enqueue()
        assert enqueued(mainspring_app) == []
        await note.enqueue()
        assert len(enqueued(mainspring_app, note)) == 1


class TestPlaced:
    async def test_kinds_whose_tables_are_not_there_are_left_out(self, database_url: str) -> None:
        shop = Mainspring("postgresql:///production")
        seen = []
        shop.entities("customer", table="customer_that_no_test_made")
        kind = shop.entities("order", table="orders")

        @kind.stage(reads=["price"])
        def look(entity: dict[str, Any]) -> None:
            seen.append(entity["price"])

        @shop.task
        async def bill() -> str:
            return "billed"

        with placed(shop, database_url):
            handle = await bill.enqueue()
            await run_until_idle(shop)
            assert await handle.result(1) == "billed"

            with psycopg.connect(database_url) as connection:
                connection.execute(
                    "create table orders (id int primary key, price int, version int not null default 1)"
                )
            install(shop)
            with psycopg.connect(database_url) as connection:
                connection.execute("insert into orders values (1, 7)")
            await run_until_idle(shop)
            await shop.close()

        assert seen == [7]
        assert set(shop.kinds) == {"customer", "order"}

    async def test_one_that_is_in_use_is_refused(self, app: Mainspring) -> None:
        await app.database()

        told = r"in use.*close it before it is put on another"
        with pytest.raises(MainspringError, match=told), placed(app, "postgresql:///x"):
            pass
