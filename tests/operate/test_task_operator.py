"""Orders on live calls by a filter: cancel and run-now, as operations (T13)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring import Context
from mainspring.errors import InvalidSetting, NotFound
from mainspring.operate.calls import CallFilter
from mainspring.testing import run_until_idle
from mainspring.testing.idle import FAST_SETTINGS


async def test_what_fits_is_cancelled_and_the_rest_runs(app) -> None:
    """T13: cancel by queue, group and payload field, waiting and running; a dry run counts only."""
    began, ran = asyncio.Event(), []

    @app.task(hold_after=0)
    async def mail(to: str, n: int = 0) -> None:
        if n < 0:
            began.set()
            await asyncio.Event().wait()
        ran.append(to)

    @app.task
    async def other(to: str) -> None:
        ran.append(f"other {to}")

    async with app.worker(**FAST_SETTINGS):
        running = await mail.options(group="g").enqueue("ann", -1)
        await began.wait()
        later = mail.options(group="g", delay=3600)
        await later.enqueue_many([{"to": "ann", "n": n} for n in range(3)])
        spared = await later.options(delay=0.001).enqueue("bob")
        await mail.options(group="h", delay=3600).enqueue("ann")
        await other.options(group="g").enqueue("ann")
        wanted = CallFilter(queue=mail.name, group="g", fields={"to": "ann"})
        tried = await app.operator.tasks.cancel_all(wanted, source="ann", dry_run=True)
        assert (tried.id, tried.total) == (None, 4)

        begun = await app.operator.tasks.cancel_all(wanted, source="ann", reason="no more")
        async with asyncio.timeout(20):
            while (await app.operator.operation(begun.id)).state != "done":
                await asyncio.sleep(0.01)
        with pytest.raises(Exception, match="was cancelled: no more"):
            await running.result(timeout=10)
        await spared.result(timeout=10)

    found = await app.operator.operation(begun.id)
    assert (found.done, found.failed) == (4, 0)
    assert sorted(ran) == ["bob", "other ann"]
    assert [visit.group for visit in await app.operator.visits(queue=mail.name)] == ["h"]


async def test_a_filter_of_what_waits_spares_what_runs(app) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @app.task(hold_after=0)
    async def mail() -> str:
        began.set()
        await go.wait()
        return "sent"

    async with app.worker(**(FAST_SETTINGS | {"concurrency": 1})):
        running = await mail.enqueue()
        await began.wait()
        waiting = await mail.enqueue()
        begun = await app.operator.tasks.cancel_all(
            CallFilter(queue=mail.name, state="waiting"), source="ann"
        )
        async with asyncio.timeout(20):
            while (await app.operator.operation(begun.id)).state != "done":
                await asyncio.sleep(0.01)
        go.set()
        assert await running.result(timeout=10) == "sent"
    assert await waiting.status() == "cancelled"


async def test_many_run_now(app) -> None:
    """T13: run-now by a filter, across pages."""
    ran = []

    @app.task
    async def mail(ctx: Context, n: int) -> None:
        ran.append(n)

    later = mail.options(delay=timedelta(days=1))
    await later.enqueue_many([{"n": n} for n in range(30)])
    await app.migrate()
    begun = await app.operator.tasks.run_all_now(CallFilter(queue=mail.name), source="ann")
    await run_until_idle(app)

    assert sorted(ran) == list(range(30))
    found = await app.operator.operation(begun.id)
    assert (found.state, found.done, found.failed) == ("done", 30, 0)


async def test_one_runs_now_by_the_operator(app) -> None:
    @app.task
    async def mail() -> None: ...

    handle = await mail.options(delay=3600, key="k").enqueue()
    assert await app.operator.tasks.run_now(mail.name, "k") == ("waiting")
    await run_until_idle(app)
    assert await handle.status() == "done"
    with pytest.raises(NotFound, match="has no visit 'k'"):
        await app.operator.tasks.run_now(mail.name, "k")


async def test_a_step_of_a_process_is_refused_with_what_to_do(app) -> None:
    @app.task
    async def step() -> None: ...

    @app.process
    def flow() -> object:
        return step()

    await app.migrate()
    handle = await flow.start()
    await run_until_idle(app, timeout=10)
    del handle
    pool = await app.pool()
    async with pool.connection() as connection:
        await connection.execute(
            "insert into mainspring.visit (shard, key, queue, id, version, payload) "
            "values (1, 'x', $1, gen_random_uuid(), 1, '{\"@\": \"p-1\"}')",
            step.name,
        )
    with pytest.raises(InvalidSetting, match=r"is a step of process p-1.*processes cancel"):
        await app.operator.tasks.cancel(step.name, "x")
    async with pool.connection() as connection:
        await connection.execute("delete from mainspring.visit where key = 'x'")


def test_states_are_named() -> None:
    with pytest.raises(InvalidSetting, match="state must be one of waiting, scheduled, running"):
        CallFilter(state="done")


async def test_only_what_is_for_later_can_run_now(app) -> None:
    with pytest.raises(InvalidSetting, match="only what is scheduled can be made to run now"):
        await app.operator.tasks.run_all_now(CallFilter(state="parked"), source="ann")
