"""Processes in pools other than the default: the engine works for them where they were started."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import ProcessFailed
from mainspring.processes.declare.decider_api import gather, sleep
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import Clock, run_until_idle


def engine_visits(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select distinct queue from mainspring.visit where queue like 'mainspring.process%'"
        )
        return [row[0] for row in rows]


async def test_a_process_of_a_pool_needs_only_the_workers_of_that_pool(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P5, P15: gathers, timers, signals and child processes of a pool, without a default worker."""
    approve = app.signal("approve", str)

    @app.task(pool="heavy")
    def price(n: int) -> int:
        return n * 10

    @app.task(pool="heavy")
    def total(prices: list[int], by: str, below: str) -> str:
        return f"{sum(prices)} by {by}, {below}"

    @app.process(pool="heavy")
    def below() -> str:
        return "child done"

    @app.process(pool="heavy")
    def order() -> Promise[str]:
        late = price(3, after=[sleep(timedelta(hours=1))])
        child = below.child()
        return total(gather([price(1), price(2), late]), approve.wait(), child)

    handle = await order.start()
    await run_until_idle(app, pool="heavy")
    await handle.signal(approve, "ann")
    assert engine_visits(database_url) == ["mainspring.process@heavy"]

    await clock.advance(timedelta(hours=1, seconds=1))
    await run_until_idle(app, pool="heavy")

    assert await handle.result(5) == "60 by ann, child done"


async def test_a_process_is_cancelled_by_its_own_pool_with_its_children_in_theirs(
    app: Mainspring,
) -> None:
    """P15: cancel with propagation, from one pool to another."""

    @app.process(pool="other")
    def below() -> Promise[None]:
        return sleep(timedelta(days=1))

    @app.process(pool="heavy")
    def order() -> Promise[None]:
        return below.child()

    handle = await order.options(id="o").start()
    await run_until_idle(app, pool="heavy")
    await run_until_idle(app, pool="other")

    await handle.cancel()
    await run_until_idle(app, pool="heavy")
    await run_until_idle(app, pool="other")

    with pytest.raises(ProcessFailed, match="cancelled"):
        await handle.result(5)
    found = await app.operator.processes.search()
    assert {(p.type, p.state) for p in found} == {("order", "cancelled"), ("below", "cancelled")}


async def test_the_tasks_of_a_process_may_belong_to_other_pools(app: Mainspring) -> None:
    """P1: each task is run by its own pool; the decision and its release meet in the database."""

    @app.task
    def light(n: int) -> int:
        return n + 1

    @app.task(pool="heavy")
    def heavy(a: int, b: int) -> int:
        return a * b

    @app.process(pool="deciders")
    def order() -> Promise[int]:
        return heavy(light(1), light(2))

    handle = await order.start()
    await run_until_idle(app, pool="deciders")
    await run_until_idle(app)
    await run_until_idle(app, pool="heavy")

    assert await handle.result(5) == 6
