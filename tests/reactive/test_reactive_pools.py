"""Reactive tasks in other pools than the default one: scheduled by one pool, run by their own."""

from __future__ import annotations

from contextlib import AsyncExitStack

from gates import Gate
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.declaring import OWN
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.model.values import Param
from mainspring.reactive.operate.why import why
from mainspring.testing import wait_until


def declare(app: Mainspring, ran: list[str], name: str, param: Param, **settings: object) -> None:
    async def work(run: ReactiveRun) -> None:
        ran.append(name)
        for product in settings.get("produces", ()):  # type: ignore[attr-defined]
            run.advance(product, run.current[param])

    app.task(name=name, when=Delta(param), **settings)(work)  # type: ignore[arg-type]


async def test_a_pool_that_has_all_tasks_schedules_them_itself(
    app: Mainspring, base: Base, orders: Param, built: Param
) -> None:
    """R7: no worker of the default pool is needed."""
    ran: list[str] = []
    declare(app, ran, "load", orders, pool="reports", produces=[built])
    declare(app, ran, "report", built, pool="reports", expect_within="1d")
    app.reactive_pool("reports", cap=1)
    async with working(app, pool="reports") as worker:
        await app.advance(orders, day(1))
        await worker.idle()

    assert ran == ["load", "report"]
    queues = base.rows("select distinct pool from mainspring.queue where kind = 'reactive'")
    assert [row["pool"] for row in queues] == ["reports"]


async def test_tasks_of_two_pools_are_run_each_by_its_own(
    app: Mainspring, base: Base, orders: Param, built: Param
) -> None:
    """R7, R8, R17: the default pool schedules for both; a run waits for a worker of its pool, and
    `why` says which worker is missing."""
    ran: list[str] = []
    declare(app, ran, "load", orders, produces=[built])
    declare(app, ran, "report", built, pool="reports")
    await app.reactive_apply()
    told = " / ".join((await why(app.reactive, "load")).notes)
    assert "no worker checks triggers: start one of pool 'default' (mainspring worker" in told
    assert "no worker runs it" not in told  # the same one would
    async with AsyncExitStack() as workers:
        scheduler = await workers.enter_async_context(working(app))
        await app.advance(orders, day(1))
        await wait_until(lambda: base.state("report")["admitted_at"] is not None, timeout=30)
        told = " / ".join((await why(app.reactive, "report")).notes)
        assert "no worker runs it: start one of pool 'reports'" in told
        assert "no worker checks triggers" not in told
        await scheduler.idle()
        assert ran == ["load"]
        await workers.enter_async_context(working(app, pool="reports"))
        await wait_until(lambda: base.state("report")["seen"] != {}, timeout=30)

    assert ran == ["load", "report"]


async def test_a_task_that_moves_to_another_pool_runs_once(
    app: Mainspring, base: Base, orders: Param, mainspring_url: str
) -> None:
    """Trap: a visit in each pool's queue; the firing decides, not the visit."""
    ran: list[str] = []
    declare(app, ran, "other", orders)
    declare(app, ran, "moves", orders)
    await app.advance(orders, day(1))
    async with working(app):
        pass
    later = Mainspring(mainspring_url)
    again = later.data("dwh.orders").param("loaded_to")
    declare(later, ran, "other", again)
    declare(later, ran, "moves", again, pool="reports")
    ran.clear()
    async with later, working(later) as scheduler, working(later, pool="reports"):
        await later.advance(again, day(2))
        await wait_until(lambda: len(ran) == 2, timeout=30)
        await scheduler.idle()
        await wait_until(lambda: base.visits("mainspring.run.") == [], timeout=30)

    assert sorted(ran) == ["moves", "other"]


async def test_a_worker_full_of_long_runs_still_schedules(
    app: Mainspring, base: Base, orders: Param, built: Param, gate: Gate
) -> None:
    """R7: judging needs no slot; the runs of another pool do not wait for this one's."""
    ran: list[str] = []

    @app.task
    async def long() -> None:
        gate.started.set()
        await gate.open.wait()

    declare(app, ran, "load", orders, pool="loads", produces=[built])
    declare(app, ran, "here", orders)
    declare(app, ran, "report", built, pool="loads", expect_within="1d")
    app.reactive_pool("loads", cap=1)
    async with working(app, concurrency=1) as full, working(app, pool="loads"):
        own = [q.settings for name, q in full.kernel.buffer.queues.items() if name.startswith(OWN)]
        assert [s.name for s in own if not s.beside] == ["mainspring.run.default"]
        for _ in range(3):
            await long.enqueue()
        await gate.started.wait()
        await app.advance(orders, day(1))
        await wait_until(lambda: ran == ["load", "report"], timeout=30)
        # Its own firing is written and waits for a slot like any other run.
        await wait_until(lambda: base.visits("mainspring.change") == [], timeout=30)
        waits = base.state("here")
        assert waits["firing"] is not None
        assert waits["started_at"] is None
        gate.open.set()
        await wait_until(lambda: "here" in ran, timeout=30)
