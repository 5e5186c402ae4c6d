"""Running tasks are told to stop when what they belong to is called off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.kernel.worker import Worker
from mainspring.processes.declare.decider_api import scope
from mainspring.processes.declare.races import First, first_of
from mainspring.tasks.declare.promise import Failure, Promise
from mainspring.testing.idle import wait_until

FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}


class Running:
    """A task that runs until it is stopped."""

    def __init__(self, app: Mainspring, name: str = "work", **settings: Any) -> None:
        self.begun, self.stopped = asyncio.Event(), asyncio.Event()

        @app.task(name=name, **settings)
        async def work() -> str:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "never"

        self.task = work


async def within(condition: Callable[[], bool]) -> None:
    await wait_until(condition, 10)


@pytest.mark.parametrize("hold_after", [0.05, 3600.0], ids=["held", "not_held"])
async def test_a_run_is_stopped_when_its_process_is_cancelled(
    app: Mainspring, hold_after: float
) -> None:
    """P15: cancel with propagation reaches the runs; their slots are free at once."""
    running = Running(app, hold_after=hold_after)

    @app.process
    def order() -> Promise[str]:
        return running.task()

    handle = await order.start()
    async with app.worker(**FAST | {"lease": 30.0}) as worker:
        await asyncio.wait_for(running.begun.wait(), 10)
        answer = await app.operator.processes.cancel(handle.id)
        assert answer.tasks == 1
        await asyncio.wait_for(running.stopped.wait(), 5)
        await within(lambda: not worker.owned.runs)
    assert await handle.status() == "cancelled"


async def test_a_plain_function_sees_that_it_is_stopped(app: Mainspring) -> None:
    """P15: a thread cannot be cancelled: it sees ctx.stopped, and its slot is free when it ends."""
    begun, seen, never = threading.Event(), threading.Event(), threading.Event()

    @app.task
    def work(ctx: Context) -> None:
        begun.set()
        try:
            while not ctx.stopped:
                ctx.beat()
                never.wait(0.01)
        finally:
            if ctx.stopped:
                seen.set()

    @app.process
    def order() -> Promise[None]:
        return work()

    handle = await order.start()
    async with app.worker(**FAST) as worker:
        await within(begun.is_set)
        await app.operator.processes.cancel(handle.id)
        await within(seen.is_set)
        await within(lambda: not worker.owned.runs)


async def test_runs_of_a_scope_that_fails_are_stopped(app: Mainspring) -> None:
    """P15, P9: the siblings of what failed in a scope are called off; the handler goes on."""
    running = Running(app)

    @app.task(retry=RetryPolicy(attempts=1))
    async def breaks() -> str:
        await running.begun.wait()
        raise OSError("broken")

    @app.task
    def mend(error: Failure) -> str:
        return f"mended {error.type}"

    @app.process
    def order() -> Promise[str]:
        with scope() as tried:
            running.task()
            tried.on_error(mend)
            tried.returns(breaks())
        return tried.promise

    handle = await order.start()
    async with app.worker(**FAST):
        assert await handle.result(10) == "mended OSError"
        await asyncio.wait_for(running.stopped.wait(), 10)


async def test_the_losers_of_a_race_are_stopped(app: Mainspring) -> None:
    """P15: first_of calls off whoever came too late, while it runs."""
    running = Running(app)

    @app.task
    async def quick() -> str:
        await running.begun.wait()
        return "quick"

    @app.task
    def show(first: First[str]) -> str:
        return first.value

    @app.process
    def order() -> Promise[str]:
        return show(first_of(running.task(), quick()))

    handle = await order.start()
    async with app.worker(**FAST):
        assert await handle.result(10) == "quick"
        await asyncio.wait_for(running.stopped.wait(), 10)


async def test_a_run_whose_visit_is_gone_is_stopped_without_a_notification(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P15, T3: where the word is lost, the heart finds it at the second beat."""
    monkeypatch.setattr(Worker, "_called_off", lambda self, versions: None)
    running = Running(app, hold_after=0.05)

    @app.process
    def order() -> Promise[str]:
        return running.task()

    handle = await order.start()
    async with app.worker(**FAST) as worker:
        await asyncio.wait_for(running.begun.wait(), 10)
        await within(lambda: any(run.held for run in worker.owned.snapshot()))
        await handle.cancel()
        await asyncio.wait_for(running.stopped.wait(), 10)
    assert await handle.status() == "cancelled"


async def test_a_restart_stops_the_run_that_it_replaces(app: Mainspring, database_url: str) -> None:
    """P12: what a superseded run brings is refused by its token; it need not go on."""
    running = Running(app)

    @app.process
    def order() -> Promise[str]:
        return running.task()

    handle = await order.start()
    async with app.worker(**FAST):
        await asyncio.wait_for(running.begun.wait(), 10)
        running.begun.clear()
        await app.operator.processes.restart(handle.id)
        await asyncio.wait_for(running.stopped.wait(), 10)
        await asyncio.wait_for(running.begun.wait(), 10)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select * from mainspring.process_violation").fetchall()
    assert rows == []
