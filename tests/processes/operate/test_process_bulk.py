"""Operations on many processes, by a filter, with a dry run and a result."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from mainspring import Mainspring, ProcessFilter, Promise, RetryPolicy
from mainspring.errors import InvalidSetting, NotFound, Refused
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.testing import Clock, run_until_idle, wait_until

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
async def shop(app: Mainspring) -> Mainspring:
    """Orders 1 to 6: the odd ones are parked at the bank, 6 at the van; `app.is_mended` mends them."""
    mended: list[bool] = []
    app.mend = lambda: mended.append(True)  # type: ignore[attr-defined]

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        if order % 2 and not mended:
            raise ConnectionError(f"bank is closed for order {order}")
        return order

    @app.task(retry=ONCE)
    def ship(order: int, receipt: int) -> str:
        if order == 6 and not mended:
            raise ValueError("no van")
        return f"shipped {receipt}"

    @app.process
    def order(number: int) -> Promise[str]:
        return ship(number, charge(number))

    for number in range(1, 7):
        await order.options(id=f"order-{number}").start(number)
    await run_until_idle(app)
    return app


async def states(app: Mainspring) -> list[str]:
    found = await app.operator.processes.search()
    return [p.state for p in sorted(found, key=lambda p: p.key)]


async def test_parked_tasks_are_restarted_by_a_filter(shop: Mainspring) -> None:
    """P10: restart all parked tasks that match, with a dry run, a progress and a source."""
    operator = shop.operator
    group = (await operator.processes.parked_groups())[0]
    wanted = TaskFilter(type="order", actor="charge", fingerprint=group.fingerprint)
    shop.mend()  # type: ignore[attr-defined]

    dry = await operator.processes.restart_tasks(wanted, source="ann", dry_run=True)
    assert (dry.id, dry.total) == (None, 3)
    begun = await operator.processes.restart_tasks(wanted, source="ann")
    await run_until_idle(shop)

    assert begun.id is not None
    done = await operator.operation(begun.id)
    assert (done.state, done.source, done.total, done.done, done.failed) == ("done", "ann", 3, 3, 0)
    assert await states(shop) == ["finished"] * 5 + ["open"]
    assert [g.actor for g in await operator.processes.parked_groups()] == ["ship"]
    result = await shop.process_handle(
        "order", (await operator.processes.find("order-1")).id
    ).result(5)
    assert result == "shipped 1"


async def test_a_task_that_fails_again_is_parked_again(shop: Mainspring) -> None:
    """P9, P10"""
    await shop.operator.processes.restart_tasks(TaskFilter(error="no van"))
    await run_until_idle(shop)

    groups = await shop.operator.processes.parked_groups()
    assert [(g.actor, g.count) for g in groups] == [("charge", 3), ("ship", 1)]


async def test_a_task_whose_process_is_being_changed_is_tried_again(
    shop: Mainspring, database_url: str
) -> None:
    """P10: what one page could not free is not given up, and not noted twice."""
    shop.mend()  # type: ignore[attr-defined]
    busy = await shop.operator.processes.find("order-1")
    with psycopg.connect(database_url) as changing:
        changing.execute("select from mainspring.process where id = %s for update", [busy.id])
        begun = await shop.operator.processes.restart_tasks(TaskFilter(actor="charge"))
        assert begun.id is not None

        async def others_are_done() -> bool:
            found = await shop.operator.operation(begun.id)
            position = found.position or ""
            return found.done == 2 and '"round"' in position and '"round": 1' not in position

        async def all_are_done() -> bool:
            return (await shop.operator.operation(begun.id)).state == "done"

        async with shop.worker(poll=0.1):
            await wait_until(others_are_done)
            changing.rollback()
            await wait_until(all_are_done)

    items = await shop.operator.operation_items(begun.id)
    assert [item.error for item in items] == [None, None, None]


async def test_a_task_that_cannot_be_freed_is_noted_once_however_small_the_pages(
    shop: Mainspring, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10: a rate of two a second makes pages of one or two, so the last round too ends with a full one."""
    monkeypatch.setattr("mainspring.processes.operate.bulk.ROUNDS", 1)
    busy = await shop.operator.processes.find("order-6")
    with psycopg.connect(database_url) as changing:
        changing.execute("select from mainspring.process where id = %s for update", [busy.id])
        begun = await shop.operator.processes.restart_tasks(TaskFilter(actor="ship"), rate=1.5)
        assert begun.id is not None

        async def is_done() -> bool:
            return (await shop.operator.operation(begun.id)).state == "done"

        async with shop.worker(poll=0.1):
            await wait_until(is_done, 10)

    assert len(await shop.operator.operation_items(begun.id)) == 1


async def test_a_filter_that_means_everything_or_nothing_asks(shop: Mainspring) -> None:
    """P10, bad input"""
    operator = shop.operator.processes

    with pytest.raises(InvalidSetting, match=r"means everything: name a type.*everything=True"):
        await operator.restart_tasks(TaskFilter())
    with pytest.raises(InvalidSetting, match="means everything"):
        await operator.cancel_all(ProcessFilter())
    with pytest.raises(InvalidSetting, match="means everything"):
        await operator.cancel_all(ProcessFilter(attrs={}, error=""))
    with pytest.raises(InvalidSetting, match="means everything"):
        await operator.restart_tasks(TaskFilter(error=""))
    with pytest.raises(NotFound, match=r"nothing fits the filter.*nobody"):
        await operator.restart_tasks(TaskFilter(actor="nobody"))
    assert (await operator.restart_tasks(TaskFilter(), dry_run=True)).total == 4


async def test_processes_are_cancelled_and_restarted_by_a_filter(shop: Mainspring) -> None:
    """P10, P12: of those found."""
    operator = shop.operator.processes
    await operator.cancel_all(ProcessFilter(type="order", error="bank is closed"), source="ann")
    await run_until_idle(shop)
    assert await states(shop) == [
        "cancelled", "finished", "cancelled", "finished", "cancelled", "open",
    ]  # fmt: skip

    shop.mend()  # type: ignore[attr-defined]
    await operator.restart_all(ProcessFilter(state="cancelled"), source="ann")
    await run_until_idle(shop)

    assert await states(shop) == ["finished"] * 5 + ["open"]


async def test_what_a_mass_order_cannot_change_is_an_item_that_failed(shop: Mainspring) -> None:
    """P10: the result of an operation is true: of six orders four are open, and are cancelled once."""
    operator = shop.operator.processes
    first = await operator.cancel_all(ProcessFilter(type="order"))
    await run_until_idle(shop)
    again = await operator.cancel_all(ProcessFilter(type="order"))
    partly = await operator.restart_all(ProcessFilter(state="cancelled"), task="charge")
    await run_until_idle(shop)

    found = [await shop.operator.operation(begun.id or 0) for begun in (first, again, partly)]
    assert [(one.done, one.failed) for one in found] == [(4, 2), (0, 6), (0, 4)]
    whys = {item.error for item in await shop.operator.operation_items(again.id or 0)}
    assert whys == {"the process is finished", "the process is cancelled"}
    [why] = {item.error for item in await shop.operator.operation_items(partly.id or 0)}
    assert why == "the process was cancelled: restart it from scratch"


async def test_a_change_that_was_called_off_says_so(shop: Mainspring, database_url: str) -> None:
    """P10: the process is there still; what is gone is the visit that should have changed it."""
    operator = shop.operator
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select min(engine) from mainspring.process").fetchone()
    assert row is not None
    await operator.pause(row[0])
    begun = await operator.processes.cancel_all(ProcessFilter(type="order", error="no van"))
    assert begun.id is not None

    async def changes() -> list[str]:
        found = await operator.visits(queue=row[0])
        return [visit.key for visit in found if visit.key.startswith("cancel/")]

    async def is_done() -> bool:
        return (await operator.operation(begun.id)).state == "done"

    async with shop.worker(poll=0.1):
        await wait_until(changes)
        [change] = await changes()
        await operator.cancel(row[0], change, reason="ann says no\nand more")
        await wait_until(is_done)

    [item] = await operator.operation_items(begun.id)
    assert item.error == "its change was called off: ann says no"
    assert (await operator.processes.find("order-6")).state == "open"


async def test_processes_are_restarted_from_a_task_by_a_filter(
    shop: Mainspring, database_url: str
) -> None:
    """P12: only what the tasks of that actor made and what depends on them is redone."""
    shop.mend()  # type: ignore[attr-defined]
    await shop.operator.processes.restart_all(
        ProcessFilter(type="order", error="no van"), task="ship", source="ann"
    )
    await run_until_idle(shop)

    found = await shop.operator.processes.find("order-6")
    assert found.state == "finished"
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select actor, generation from mainspring.task where process_id = %s order by actor",
            [found.id],
        ).fetchall()
    assert rows == [("charge", 0), ("order", 0), ("ship", 1)]


async def test_a_check_of_all_processes_repairs_what_is_safe_and_reports_it(
    shop: Mainspring, database_url: str
) -> None:
    """P7, P11: a task that lost its visit (a hand-made change) is found, queued and reported."""
    operator = shop.operator.processes
    handle = await shop.find_process("order").options(id="order-8").start(8)
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from mainspring.visit where queue = 'order'")

    begun = await operator.check_all(source="ann")
    await run_until_idle(shop)
    await run_until_idle(shop)

    assert begun.id is not None
    assert (await shop.operator.operation(begun.id)).state == "done"
    assert await handle.result(5) == "shipped 8"
    report = await shop.operator.operation_items(begun.id, failed_only=True)
    assert [(item.queue, item.key) for item in report] == [("order", handle.id)]
    assert report[0].error is not None
    assert report[0].error.startswith("I1: an open task has no visit and waits for nothing (task ")
    [repair] = await operator.repairs()
    assert (repair.process_id, repair.source) == (handle.id, f"operation {begun.id}")


async def test_a_mass_order_goes_at_its_rate_and_behind_live_work(
    shop: Mainspring, database_url: str, clock: Clock
) -> None:
    """P10: one item in 100 seconds, of a low priority unless told otherwise."""
    order = TaskFilter(actor="charge")
    begun = await shop.operator.processes.restart_tasks(order, rate=0.01, priority=2)
    assert begun.id is not None
    counts = []
    for _ in range(4):
        await run_until_idle(shop)
        counts.append((await shop.operator.operation(begun.id)).done)
        await clock.advance(timedelta(seconds=100))

    assert counts == [1, 2, 3, 3]
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select priority from mainspring.visit where queue = 'charge'"
        ).fetchall()
    assert rows == [(2,)] * 3


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 1e9])
async def test_a_rate_that_is_none_is_refused(shop: Mainspring, rate: float) -> None:
    """P10, bad input"""
    with pytest.raises(InvalidSetting, match=r"rate must be more than 0 and less than 1,000,000"):
        await shop.operator.processes.restart_tasks(TaskFilter(actor="charge"), rate=rate)


async def test_a_parked_task_is_resolved_or_given_up_by_hand(shop: Mainspring) -> None:
    """P9: an operator's three ways out: restart, resolve, fail."""
    operator = shop.operator.processes
    graph = await operator.graph("order-1")
    task = next(t.id for t in graph.tasks if t.actor == "charge")

    await operator.resolve("order-1", task, 4711)
    await run_until_idle(shop)

    handle = shop.process_handle("order", graph.process.id)
    assert await handle.result(5) == "shipped 4711"
    with pytest.raises(Refused, match="only a parked task can be resolved"):
        await operator.resolve("order-1", task, 4711)
