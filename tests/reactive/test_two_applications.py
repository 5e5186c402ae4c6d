"""Reactive tasks of several applications: in one pool, and in a pool each."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.operate.doctor import Finding
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.model.values import Param
from mainspring.reactive.operate.why import why
from mainspring.testing import wait_until

COUNT = 12  # so many firings do not all lie in shards of one of two workers, but for 1 time in 4096


def application(url: str, ran: list[str], prefix: str, param: Param, pool: str) -> Mainspring:
    app = Mainspring(url, pool=pool)

    async def work(run: ReactiveRun) -> None:
        ran.append(run.task)

    for n in range(COUNT):
        app.task(name=f"{prefix}{n}", when=Delta(param))(work)
    return app


def mail() -> None:
    """Of a service without reactive tasks."""


async def findings(app: Mainspring) -> list[Finding]:
    return [f for f in await app.operator.doctor() if f.name == "reactive_pool"]


@pytest.fixture
def names() -> set[str]:
    return {f"{prefix}{n}" for prefix in "ab" for n in range(COUNT)}


async def test_firings_do_not_wait_for_a_service_that_has_no_reactive_task(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R8, T2: it has no queue of firings, so none lies in a band of its own."""
    ran: list[str] = []
    reactive = application(base.url, ran, "a", orders, "default")
    plain = Mainspring(base.url)
    plain.task(name="mail")(mail)
    async with AsyncExitStack() as stack:
        for one in (plain, reactive):
            await stack.enter_async_context(one)
            await stack.enter_async_context(working(one))
        await app.advance(orders, day(1))
        await wait_until(lambda: len(ran) == COUNT, 30)

        assert await findings(app) == []
    assert sorted(ran) == sorted(reactive.reactive_tasks)


async def test_two_applications_with_reactive_tasks_in_one_pool_are_told_to_have_one_each(
    app: Mainspring, base: Base, orders: Param, names: set[str]
) -> None:
    """R17: the doctor names the pool, `why` the task; in a pool each everything runs."""
    ran: list[str] = []
    async with AsyncExitStack() as stack:
        for prefix in "ab":
            one = application(base.url, ran, prefix, orders, "default")
            await stack.enter_async_context(one)
            await stack.enter_async_context(working(one))
        (finding,) = await findings(app)
        assert finding.level == "warn"
        assert finding.text == (
            "not all workers of pool 'default' have the reactive tasks 'a0', 'a1', 'a10' and 21 more: a "
            "firing waits while the worker that owns its shard lacks its task"
        )
        assert "of two applications give each a pool of its own: Mainspring(pool='...')" in (
            finding.remedy
        )
        await app.advance(orders, day(1))
        left = (
            "select key from mainspring.visit where error like 'this worker has no code of task%%'"
        )
        await wait_until(lambda: len(ran) + len(base.rows(left)) == len(names), 30)
        told = " / ".join((await why(app.reactive, base.rows(left)[0]["key"])).notes)
        assert "this worker has no code of task" in told
        assert "that lack it are gone (two applications need a pool each)" in told

    async with AsyncExitStack() as stack:
        for prefix, pool in (("a", "default"), ("b", "other")):
            one = application(base.url, ran, prefix, orders, pool)
            await stack.enter_async_context(one)
            await stack.enter_async_context(working(one, pool=pool))
        # What waited in the common pool moves along, and is run where its code is.
        await wait_until(lambda: names == {*ran}, 30)
        assert len(ran) == len(names), "none ran twice"
        await app.advance(orders, day(2))
        await wait_until(lambda: len(ran) == 2 * len(names), 30)
        assert await findings(app) == []
        # What stood in the queue of the common pool ends there at its next look.
        await wait_until(lambda: base.visits("mainspring.run.") == [], 30)
