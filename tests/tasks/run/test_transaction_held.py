"""A run's own transaction ends just when its visit is held: the settle is sent again, not refused.

A hold changes the visit's row. Here it is written, not yet committed, when the settle is sent; it is
committed as soon as the settle waits for it: exactly between the settle's snapshot and its write.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.ids import token
from mainspring.kernel.lease.holds import hold_arguments
from mainspring.kernel.statements import SQL
from mainspring.testing import run_until_idle

ONCE = RetryPolicy(attempts=1)
_IS_WAITED_FOR = """
select exists (select from pg_stat_activity where %s = any(pg_blocking_pids(pid)))
"""
_PATIENCE = 5.0

both = pytest.mark.parametrize("plain", [False, True], ids=["async", "sync"])


class Between:
    """A transaction of the heart's kind that commits when somebody waits for it."""

    def __init__(self, url: str, *, gives: bool) -> None:
        self._other = psycopg.connect(url)
        self._look = psycopg.connect(url, autocommit=True)
        self._gives = gives
        self._commit = threading.Thread(target=self._commit_when_waited_for)
        self.was_waited_for = False

    def hold(self, ctx: Context) -> None:
        """Hold the run, and if asked to give its shard away, as `Shards` does; commit when it hurts."""
        run, worker_id = ctx._run, ctx._connections.worker.worker_id
        held = self._other.execute(SQL["hold"].text, hold_arguments([(run, None)], worker_id))
        assert held.fetchall() == [(run.token,)]
        if self._gives:
            lease = "select pool, epoch from mainspring.lease where shard = %s"
            [(pool, epoch)] = self._other.execute(lease, (run.visit.shard,)).fetchall()
            values = {"pool": pool, "worker_id": worker_id, "epoch": token(), "offered_to": None}
            values |= {"shards": [run.visit.shard], "epochs": [epoch]}
            assert self._other.execute(SQL["give_leases"].text, values).fetchall()
        self._commit.start()

    def _commit_when_waited_for(self) -> None:
        me = (self._other.info.backend_pid,)
        nobody = threading.Event()
        for _ in range(int(_PATIENCE / 0.01)):
            [(self.was_waited_for,)] = self._look.execute(_IS_WAITED_FOR, me).fetchall()
            if self.was_waited_for:
                break
            nobody.wait(0.01)
        self._other.commit()

    def close(self) -> None:
        if self._commit.ident is not None:
            self._commit.join()
        self._other.close()
        self._look.close()


@pytest.fixture(params=["hold", "give"])
def between(request: pytest.FixtureRequest, database_url: str) -> Iterator[Between]:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table paid (n integer)")
    found = Between(database_url, gives=request.param == "give")
    yield found
    found.close()


def paid(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute("select n from paid").fetchall()


@both
async def test_a_task_s_transaction_commits(app: Mainspring, between: Between, plain: bool) -> None:
    """T6."""
    if plain:

        @app.task(retry=ONCE, hold_after=60)
        def pay(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (1)")
                between.hold(ctx)

    else:

        @app.task(retry=ONCE, hold_after=60)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
                await asyncio.to_thread(between.hold, ctx)

    handle = await pay.enqueue()
    await run_until_idle(app)

    assert await handle.status() == "done"
    assert between.was_waited_for
    assert paid(app._url) == [(1,)]


@both
async def test_a_step_s_transaction_commits(app: Mainspring, between: Between, plain: bool) -> None:
    """P1, T6: a commit leaves alone a visit that is locked; a task's own transaction waits for it."""
    if plain:

        @app.task(retry=ONCE, hold_after=60)
        def pay(ctx: Context) -> int:
            with ctx.transaction() as connection:
                connection.execute("insert into paid values (1)")
                ctx.set_result(5)
                between.hold(ctx)
            return 0

    else:

        @app.task(retry=ONCE, hold_after=60)
        async def pay(ctx: Context) -> int:
            async with ctx.transaction() as connection:
                await connection.execute("insert into paid values (1)")
                ctx.set_result(5)
                await asyncio.to_thread(between.hold, ctx)
            return 0

    @app.process
    def order() -> Any:
        return pay()

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(1) == 5
    assert between.was_waited_for
    assert paid(app._url) == [(1,)]


@both
async def test_a_stricter_transaction_says_what_to_do(
    app: Mainspring, between: Between, plain: bool
) -> None:
    """No statement of it could see the hold: it is rolled back, and told the way out."""
    strict = "set transaction isolation level repeatable read"
    if plain:

        @app.task(retry=ONCE, hold_after=60)
        def pay(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute(strict)
                connection.execute("insert into paid values (1)")
                between.hold(ctx)

    else:

        @app.task(retry=ONCE, hold_after=60)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(strict)
                await connection.execute("insert into paid values (1)")
                await asyncio.to_thread(between.hold, ctx)

    handle = await pay.enqueue()
    await run_until_idle(app)

    assert await handle.status() == "parked"
    with psycopg.connect(app._url) as connection:
        [(error,)] = connection.execute("select error from mainspring.visit").fetchall()
    assert "could not complete its task at REPEATABLE READ or SERIALIZABLE" in error
    assert "use READ COMMITTED" in error
    assert paid(app._url) == []
