"""The context: what a running task can know and do."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

import mainspring.tasks.run.connections
from mainspring import Context, RetryPolicy
from mainspring.errors import Fenced, MainspringError
from mainspring.testing import run_until_idle, wait_until, watch

ONCE = RetryPolicy(attempts=1)


async def test_a_context_knows_its_run(app) -> None:
    seen = []

    @app.task(timeout=30)
    async def look(ctx: Context, n: int) -> None:
        seen.append((ctx.task, str(ctx.id), ctx.key, ctx.group, ctx.attempt, ctx.stopped, n))

    handle = await look.options(group="g", key="k").enqueue(n=5)
    await run_until_idle(app)

    assert seen == [("look", handle.id, "1:g:k", "g", 1, False, 5)]


async def test_the_idempotency_key_stays_over_retries(app) -> None:
    """T6."""
    keys = []

    @app.task(retry=RetryPolicy(first=0))
    async def flaky(ctx: Context) -> None:
        keys.append(ctx.idempotency_key)
        if ctx.attempt < 3:
            raise ValueError("again")

    handle = await flaky.enqueue()
    await run_until_idle(app)

    assert keys == [str(handle.id)] * 3


async def test_the_deadline_follows_the_timeout_by_the_database_s_clock(app, clock) -> None:
    deadlines = []

    @app.task(timeout=100)
    async def timed(ctx: Context) -> None:
        deadlines.append(ctx.deadline)

    @app.task
    async def untimed(ctx: Context) -> None:
        deadlines.append(ctx.deadline)

    await clock.advance(timedelta(days=3))
    before = await clock.now()
    await timed.enqueue()
    await run_until_idle(app)
    await untimed.enqueue()
    await run_until_idle(app)

    assert abs(deadlines[0] - before - timedelta(seconds=100)) < timedelta(seconds=5)
    assert deadlines[1] is None


async def test_the_context_may_have_any_name_and_place(app) -> None:
    seen = []

    @app.task
    def plain(n: int, here: Context, m: int = 2) -> None:
        seen.append((n, m, here.attempt))

    await plain.enqueue(1)
    await run_until_idle(app)

    assert seen == [(1, 2, 1)]


async def test_a_result_that_is_set_needs_no_transaction(app) -> None:
    @app.task
    async def count(ctx: Context) -> int | None:
        ctx.set_result(3)
        return None

    @app.process
    def order(ctx: Context) -> int | None:
        ctx.set_result(4)
        return None

    counted, ordered = await count.enqueue(), await order.start()
    await run_until_idle(app)

    assert (await counted.result(timeout=1), await ordered.result(1)) == (3, 4)


class TestTransaction:
    """T6: the task's own SQL and its completion in one commit."""

    @pytest.fixture
    def table(self, database_url: str):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("create table paid (n integer)")
            yield connection

    def paid(self, table) -> list[int]:
        return [row[0] for row in table.execute("select n from paid order by n")]

    async def test_they_commit_together(self, app, table) -> None:
        @app.task
        async def pay(ctx: Context, n: int) -> str:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (%s)", (n,))
                ctx.set_result("paid")
            return "too late"

        handle = await pay.enqueue(n=1)
        await run_until_idle(app)

        assert self.paid(table) == [1]
        assert await handle.result(timeout=1) == "paid"
        assert table.execute("select count(*) from mainspring.history").fetchone() == (1,)

    async def test_what_is_returned_after_it_is_said_to_be_lost(self, app, table, caplog) -> None:
        @app.task
        async def pay(ctx: Context, n: int) -> int:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (%s)", (n,))
            return 7

        handle = await pay.enqueue(n=1)
        await run_until_idle(app)

        assert await handle.result(timeout=1) is None
        [record] = [r for r in caplog.records if r.msg == "task.result_lost"]
        assert record.queue == "pay"
        assert "ctx.set_result(...) inside the block" in record.text

    async def test_a_second_one_is_told_where_its_sql_belongs(self, app, table, caplog) -> None:
        @app.task
        async def pay(ctx: Context, n: int) -> None:
            for _ in range(2):
                async with ctx.transaction() as connection:
                    await connection.execute("insert into paid values (%s)", (n,))

        await pay.enqueue(n=1)
        await run_until_idle(app)

        assert self.paid(table) == [1]
        assert "put all its SQL in that block" in caplog.text

    async def test_they_commit_together_in_a_plain_function(self, app, table) -> None:
        @app.task
        def pay(ctx: Context, n: int) -> None:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (%s)", (n,))

        handles = await pay.enqueue_many({"n": n} for n in range(10))
        await run_until_idle(app)

        assert self.paid(table) == list(range(10))
        assert {await h.status() for h in handles} == {"done"}

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_an_error_rolls_both_back(self, app, table, plain: bool) -> None:
        if plain:

            @app.task(retry=ONCE)
            def pay(ctx: Context) -> None:
                with ctx.transaction() as connection:
                    connection.execute("insert into paid values (1)")
                    raise ValueError("no")

        else:

            @app.task(retry=ONCE)
            async def pay(ctx: Context) -> None:
                async with ctx.transaction() as connection:
                    await connection.execute("insert into paid values (1)")
                    raise ValueError("no")

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == []
        assert await handle.status() == "parked"

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_a_block_inside_it_is_a_savepoint(self, app, table, plain: bool) -> None:
        """What it did is rolled back when the rest fails, and done once when all goes well."""
        if plain:

            @app.task(retry=RetryPolicy(first=0))
            def pay(ctx: Context) -> None:
                with ctx.transaction() as connection:
                    with connection.transaction():
                        connection.execute("insert into paid values (%s)", (ctx.attempt,))
                    if ctx.attempt < 3:
                        raise ValueError("after the inner block")

        else:

            @app.task(retry=RetryPolicy(first=0))
            async def pay(ctx: Context) -> None:
                async with ctx.transaction() as connection:
                    async with connection.transaction():
                        await connection.execute("insert into paid values (%s)", (ctx.attempt,))
                    if ctx.attempt < 3:
                        raise ValueError("after the inner block")

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == [3]
        assert await handle.status() == "done"

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    @pytest.mark.parametrize("end", ["commit", "rollback"])
    async def test_to_end_it_from_inside_is_refused(self, app, table, plain, end: str) -> None:
        if plain:

            @app.task(retry=ONCE)
            def pay(ctx: Context) -> None:
                with ctx.transaction() as connection:
                    connection.execute("insert into paid values (1)")
                    getattr(connection, end)()

        else:

            @app.task(retry=ONCE)
            async def pay(ctx: Context) -> None:
                async with ctx.transaction() as connection:
                    await connection.execute("insert into paid values (1)")
                    await getattr(connection, end)()

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == []
        assert await handle.status() == "parked"

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_a_rollback_that_psycopg_swallows_completes_nothing(
        self, app, table, plain
    ) -> None:
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
                raise psycopg.Rollback

        def pay_plainly(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (1)")
                raise psycopg.Rollback

        pay = app.task(retry=ONCE, name="pay")(pay_plainly if plain else pay)
        handle = await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == []
        assert await handle.status() == "parked"

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_a_row_factory_of_the_task_s_own_stays_its_own(self, app, table, plain) -> None:
        seen = []

        if plain:

            @app.task(retry=ONCE)
            def pay(ctx: Context) -> None:
                with ctx.transaction() as connection:
                    seen.append(connection.execute("select 1 as n").fetchone())
                    connection.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]

        else:

            @app.task(retry=ONCE)
            async def pay(ctx: Context) -> None:
                async with ctx.transaction() as connection:
                    seen.append(await (await connection.execute("select 1 as n")).fetchone())
                    connection.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]

        handles = [await pay.enqueue(), await pay.enqueue()]
        await run_until_idle(app, concurrency=1)

        assert seen == [(1,), (1,)]
        assert [await handle.status() for handle in handles] == ["done", "done"]

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_a_fenced_run_is_rolled_back_whole(self, app, table, plain: bool) -> None:
        """Somebody else settled or deleted the task meanwhile."""
        caught = []

        def meanwhile() -> None:
            table.execute("delete from mainspring.visit")

        if plain:

            @app.task(retry=ONCE)
            def pay(ctx: Context) -> None:
                try:
                    with ctx.transaction() as connection:
                        connection.execute("insert into paid values (1)")
                        meanwhile()
                except Fenced as error:
                    caught.append(error)
                    raise

        else:

            @app.task(retry=ONCE)
            async def pay(ctx: Context) -> None:
                try:
                    async with ctx.transaction() as connection:
                        await connection.execute("insert into paid values (1)")
                        await asyncio.to_thread(meanwhile)
                except Fenced as error:
                    caught.append(error)
                    raise

        await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == []
        assert "no longer counts" in str(caught[0])
        assert table.execute("select count(*) from mainspring.history").fetchone() == (0,)

    async def test_an_error_after_the_commit_changes_nothing(self, app, table) -> None:
        @app.task
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
            raise ValueError("too late")

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert self.paid(table) == [1]
        assert await handle.status() == "done"

    @pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])
    async def test_a_timeout_stops_what_comes_after_the_commit(self, app, table, plain) -> None:
        """And the task is done all the same."""
        ended = []

        if plain:

            @app.task(timeout=0.5)
            def pay(ctx: Context) -> None:
                with ctx.transaction() as connection:
                    connection.execute("insert into paid values (1)")
                try:
                    while True:
                        sum(range(1000))
                finally:
                    ended.append(ctx.stopped)

        else:

            @app.task(timeout=0.5)
            async def pay(ctx: Context) -> None:
                async with ctx.transaction() as connection:
                    await connection.execute("insert into paid values (1)")
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(ctx.stopped)

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert ended == [True]
        assert self.paid(table) == [1]
        assert await handle.status() == "done"
        assert table.execute("select outcome from mainspring.history").fetchall() == [("done",)]

    async def test_a_worker_that_stops_ends_what_comes_after_the_commit(self, app, table) -> None:
        @app.task(hold_after=0.05)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
            await asyncio.Event().wait()

        handle = await pay.enqueue()
        async with watch() as seen, app.worker(lease=1.0, poll=0.05, grace=0.0) as worker:
            await seen.wait("transaction.committed")
            await worker.stop()
            assert worker.owned.snapshot() == []

        assert self.paid(table) == [1]
        assert await handle.status() == "done"

    async def test_a_second_transaction_is_refused(self, app, table) -> None:
        errors = []

        @app.task
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
            try:
                async with ctx.transaction():
                    pass
            except MainspringError as error:
                errors.append(str(error))

        await pay.enqueue()
        await run_until_idle(app)

        assert "already completed" in errors[0]

    async def test_a_transaction_that_was_offered_a_lock_waits_for_it(self, app, table) -> None:
        """The settle itself would skip a locked row; the task's transaction waits its turn."""
        started = asyncio.Event()

        @app.task
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
                started.set()

        await pay.enqueue()
        with psycopg.connect(app._url) as other:
            other.execute("select from mainspring.visit for update")
            async with app.worker(lease=1.0, poll=0.05) as worker:
                await asyncio.wait_for(started.wait(), 5)
                await wait_until(lambda: waiting(table))
                other.rollback()
                await worker.drained()

        assert self.paid(table) == [1]

    async def test_a_task_may_enqueue_in_its_transaction(self, app, table) -> None:
        done = []

        @app.task
        async def second(n: int) -> None:
            done.append(n)

        @app.task(retry=RetryPolicy(first=0))
        async def first(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await second.options(on=connection).enqueue(n=ctx.attempt)
                if ctx.attempt == 1:
                    raise ValueError("the first try is rolled back")

        await first.enqueue()
        await run_until_idle(app)

        assert done == [2]

    async def test_a_deferred_constraint_that_fails_at_commit_fails_the_task(
        self, app, table
    ) -> None:
        table.execute("create table one (n integer unique deferrable initially deferred)")

        @app.task(retry=ONCE)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into one values (1), (1)")

        handle = await pay.enqueue()
        await run_until_idle(app)

        assert await handle.status() == "parked"
        assert table.execute("select count(*) from one").fetchone() == (0,)

    async def test_a_commit_whose_answer_is_lost_is_looked_up(
        self, app, table, monkeypatch
    ) -> None:
        """T6: it was committed, so the task goes on behind its block; it is not told of a failure."""

        def lose(_block) -> None:
            raise psycopg.OperationalError("the answer was lost")

        monkeypatch.setattr(mainspring.tasks.run.connections, "check_committed", lose)
        went_on = []

        @app.task(retry=ONCE)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
            went_on.append(1)

        @app.task(retry=ONCE)
        def pay_in_thread(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (2)")
            went_on.append(2)

        handles = [await pay.enqueue(), await pay_in_thread.enqueue()]
        await run_until_idle(app)

        assert sorted(went_on) == [1, 2]
        assert [await handle.status() for handle in handles] == ["done", "done"]
        assert self.paid(table) == [1, 2]

    async def test_connections_are_bounded_by_the_slots(self, app, table, database_url) -> None:
        """T9: at most one per slot that runs SQL, plus a few of the engine's own."""
        most = 0
        go = asyncio.Event()

        @app.task
        async def pay(ctx: Context, n: int) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (%s)", (n,))
                await go.wait()

        await pay.enqueue_many({"n": n} for n in range(30))
        async with app.worker(lease=5.0, poll=0.05, concurrency=6) as worker:

            def tasks() -> int:
                nonlocal most
                rows = table.execute(
                    "select count(*) filter (where application_name ~ ':task:'), count(*)"
                    " from pg_stat_activity where datname = current_database()"
                    " and application_name ~ '^mainspring:'"
                ).fetchone()
                most = max(most, rows[1])
                return rows[0]

            await wait_until(lambda: tasks() == 6)
            names = "select split_part(application_name, ':', 2) from pg_stat_activity"
            here = " where datname = current_database() and application_name ~ '^mainspring:'"
            roles = Counter(name for (name,) in table.execute(names + here))
            assert (roles.pop("task"), roles.pop("client")) == (6, 1)
            # The worker's own share connections: one bears the name of whoever used it last.
            assert roles.keys() <= {"reader", "settler", "listener", "side", "heart", "upkeep"}
            assert roles.total() <= 6
            go.set()
            await worker.drained()
            assert tasks() <= 6

        assert self.paid(table) == list(range(30))
        assert most <= 6 + 6 + 1  # slots, the worker's own, the application's


def waiting(connection) -> bool:
    row = connection.execute("select count(*) from pg_locks where not granted").fetchone()
    return row[0] > 0


class TestIsolation:
    async def test_context_variables_do_not_leak_between_runs(self, app) -> None:
        variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
        seen = []

        @app.task
        async def mark(n: int) -> None:
            seen.append(variable.get())
            variable.set(n)
            await asyncio.sleep(0)
            assert variable.get() == n

        @app.task
        def mark_plain(n: int) -> None:
            seen.append(variable.get())
            variable.set(n)

        await mark.enqueue_many({"n": n} for n in range(1, 20))
        await mark_plain.enqueue_many({"n": n} for n in range(1, 20))
        await run_until_idle(app, concurrency=2)

        assert seen == [0] * 38

    async def test_the_caller_s_context_variables_are_not_the_task_s(self, app) -> None:
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
        variable.set("the test's")
        seen = []

        @app.task
        async def look() -> None:
            seen.append(variable.get())

        await look.enqueue()
        await run_until_idle(app)

        assert seen == ["clean"]

    async def test_plain_functions_run_in_threads_at_once(self, app) -> None:
        """T13: as many as there are slots, and not in the event loop's thread."""
        together = threading.Barrier(4, timeout=10)
        threads = []

        @app.task(retry=ONCE)
        def meet() -> None:
            together.wait()
            threads.append(threading.get_ident())

        handles = await meet.enqueue_many([{}] * 4)
        await run_until_idle(app, concurrency=4)

        assert {await h.status() for h in handles} == {"done"}
        assert len(set(threads)) == 4
        assert threading.get_ident() not in threads

    async def test_async_tasks_run_at_once(self, app) -> None:
        together = asyncio.Barrier(5)

        @app.task(retry=ONCE)
        async def meet() -> None:
            async with asyncio.timeout(5):
                await together.wait()

        handles = await meet.enqueue_many([{}] * 5)
        await run_until_idle(app, concurrency=5)

        assert {await h.status() for h in handles} == {"done"}
