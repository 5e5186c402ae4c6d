"""Operations: bulk jobs whose progress and effect commit together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs import bulk, operation
from mainspring.jobs.bulk import PutBackOrder
from mainspring.operate.history import HistoryFilter
from mainspring.operate.parked import ParkedFilter
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage
from mainspring.testing import run_until_idle, wait_until
from mainspring.testing.idle import FAST_SETTINGS
from visits import QUEUE, Visits
from warm import WorkerProcess

_BARE = """
from mainspring import Mainspring
from mainspring.jobs import operation
operation.PAGE = 3
app = Mainspring()
"""


@pytest.fixture
def parked(visits: Visits) -> Visits:
    """Seven parked visits of a queue that no worker of the test serves."""
    visits.offer(*(f"k{n}" for n in range(7)))
    visits.query(
        "update mainspring.visit set parked_at = mainspring.now(), attempt = 9, error = 'E: no'"
    )
    return visits


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "PAGE", 3)


def live(visits: Visits, where: str = "true") -> int:
    found = visits.value(
        f"select count(*) from mainspring.visit where queue = '{QUEUE}' and {where}"
    )
    assert isinstance(found, int)
    return found


async def test_parked_visits_are_restarted_by_filter_page_by_page(parked, app, small_pages):
    begun = await app.operator.restart_parked(ParkedFilter(error_type="E"), source="ann")

    await run_until_idle(app)

    ended = await app.operator.operation(begun.id)
    assert (
        ended.state,
        ended.done,
        ended.failed,
        ended.total,
        ended.source,
    ) == ("done", 7, 0, 7, "ann")
    items = await app.operator.operation_items(begun.id)
    assert [item.number for item in items] == [1, 2, 3, 4, 5, 6, 7]
    assert live(parked, "parked_at is null and attempt = 0") == 7


async def test_those_alike_are_restarted_and_no_others(parked, app):
    """By a kind of operation that a worker of the release before does not know: it would take all."""
    parked.query("update mainspring.visit set fingerprint = 'f' where key in ('k1', 'k2')")
    begun = await app.operator.restart_parked(ParkedFilter(fingerprint="f"), source="ann")
    await run_until_idle(app)
    ended = await app.operator.operation(begun.id)
    assert (ended.kind, ended.state, ended.done) == ("restart_alike", "done", 2)
    assert live(parked, "parked_at is null") == 2


async def test_a_dry_run_counts_and_writes_nothing(parked, app):
    tried = await app.operator.delete_parked(ParkedFilter(), source="ann", dry_run=True)

    assert (tried.id, tried.total) == (None, 7)
    assert await app.operator.operations() == []


async def test_parked_visits_are_deleted_by_filter(parked, app):
    await app.operator.delete_parked(ParkedFilter(key="k3"), source="ann")

    await run_until_idle(app)

    assert live(parked) == 6
    assert [row["outcome"] for row in parked.history("k3")] == ["cancelled"]


async def test_workers_of_any_pool_carry_operations_out(parked, app):
    async with app.worker(**FAST_SETTINGS, pool="billing") as worker:
        await worker.ready()
        begun = await app.operator.restart_parked(ParkedFilter(), source="ann")
        await worker.drained()

    assert (await app.operator.operation(begun.id)).state == "done"


async def test_an_operation_that_nobody_serves_goes_to_the_pool_of_the_next_worker(parked, app):
    parked.join(pool="gone")
    parked.query("update mainspring.worker set beat_at = beat_at - interval '2 minutes'")
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")
    await app.operator.pause_operation(begun.id)
    await app.operator.resume_operation(begun.id)

    await run_until_idle(app, pool="billing")

    assert (await app.operator.operation(begun.id)).state == "done"
    left = "select count(*) from mainspring.visit where queue like 'mainspring.%%'"
    assert parked.value(left) == 0


async def test_an_operation_stays_in_a_pool_that_has_workers(parked, app):
    parked.join(queues=[operation.QUEUE])
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")

    await run_until_idle(app, pool="billing")

    assert (await app.operator.operation(begun.id)).state == "running"


async def test_a_paused_operation_goes_on_where_it_stopped(parked, app, small_pages):
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")
    await app.operator.pause_operation(begun.id)

    await run_until_idle(app)
    paused = await app.operator.operation(begun.id)
    await app.operator.resume_operation(begun.id)
    await run_until_idle(app)

    assert (paused.state, paused.done) == ("paused", 0)
    assert (await app.operator.operation(begun.id)).done == 7


async def test_a_cancelled_operation_does_nothing_more(parked, app):
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")
    await app.operator.cancel_operation(begun.id)

    await run_until_idle(app)

    assert live(parked, "parked_at is not null") == 7
    with pytest.raises(InvalidSetting, match=f"operation {begun.id} is cancelled"):
        await app.operator.resume_operation(begun.id)
    with pytest.raises(NotFound, match="no operation 999"):
        await app.operator.pause_operation(999)


async def test_a_step_that_fails_leaves_neither_effect_nor_progress(
    parked, app, monkeypatch: pytest.MonkeyPatch
):
    """Effect and progress are one transaction: a step is repeated as a whole."""
    kind = bulk.OPERATIONS["restart_parked"]
    seen: list[int] = []

    async def apply(database: Any, tx: Any, order: Any, items: Any) -> list[ItemResult]:
        results = await kind.apply(database, tx, order, items)
        seen.append(len(results))
        if len(seen) == 1:
            raise ConnectionError("lost in the middle of the step")
        return results

    flaky = OperationKind(kind.name, kind.order, kind.freeze, kind.count, kind.page, apply)
    monkeypatch.setitem(bulk.OPERATIONS, kind.name, flaky)
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")

    async def ended() -> bool:
        return (await app.operator.operation(begun.id)).state == "done"

    async with app.worker(**FAST_SETTINGS):
        await wait_until(ended, 20)  # the step is repeated after a moment

    assert seen == [7, 7]
    assert (
        (await app.operator.operation(begun.id)).done,
        (await app.operator.operation(begun.id)).failed,
    ) == (7, 0)


@pytest.mark.parametrize("step", ["operation.stepping:2", "operation.stepped:2"])
async def test_a_worker_that_dies_within_an_operation_repeats_and_loses_nothing(
    step, parked, app, database_url, tmp_path, small_pages
):
    """T1: killed before or after a step's commit, the next worker goes on where it stood."""
    (tmp_path / "bare.py").write_text(_BARE)
    begun = await app.operator.restart_parked(ParkedFilter(), source="ann")

    with WorkerProcess("bare:app", database_url, die_at=step, path=tmp_path) as worker:
        await asyncio.to_thread(worker.wait_dead)
    await run_until_idle(app, lease=1.0)  # the other is seen dead after it

    items = await app.operator.operation_items(begun.id)
    assert [item.number for item in items] == [1, 2, 3, 4, 5, 6, 7]
    assert {item.key for item in items} == {f"k{n}" for n in range(7)}
    assert (await app.operator.operation(begun.id)).done == 7


async def test_an_operation_whose_step_keeps_failing_ends_as_failed(
    app, clock, monkeypatch: pytest.MonkeyPatch
):
    async def page(*_: Any) -> OperationPage:
        raise RuntimeError("cannot be read")

    kind = replace(bulk.OPERATIONS["put_back"], name="broken")
    monkeypatch.setitem(bulk.OPERATIONS, "broken", replace(kind, page=page))
    order = PutBackOrder(HistoryFilter(key="x"))
    begun = await app.operator.start("broken", order, source="ann")

    async def failed() -> bool:
        await clock.advance(timedelta(minutes=2))
        return (await app.operator.operation(begun.id)).state == "failed"

    async with app.worker(poll=0.02, lease=1.0):
        await wait_until(failed, 10, every=0.05)

    assert "cannot be read" in (await app.operator.operation(begun.id)).error

    # Whoever has mended what was wrong has it go on.
    monkeypatch.setitem(bulk.OPERATIONS, "broken", kind)
    await app.operator.resume_operation(begun.id)
    await run_until_idle(app)

    ended = await app.operator.operation(begun.id)
    assert (ended.state, ended.error) == ("done", None)


def park_step(visits: Visits, id: int) -> None:
    """Three workers die with the operation's step in their hands."""
    for _ in range(3):
        dead = visits.join()
        visits.hold(dead, visits.start(visits.visit(str(id), operation.QUEUE)))
        visits.declare_dead(dead)
        visits.recover()
    visits.query("update mainspring.lease set worker_id = null")


async def test_an_operation_whose_step_kills_its_workers_is_parked_and_can_be_resumed(parked, app):
    """T13: it says that it is parked and why, and goes on when an operator says so."""
    begun = await app.operator.restart_parked(ParkedFilter(error_type="E"), source="ann")
    park_step(parked, begun.id)

    stalled = await app.operator.operation(begun.id)
    [listed] = await app.operator.operations(state="parked")
    running = await app.operator.operations(state="running")
    await app.operator.resume_operation(begun.id)
    await run_until_idle(app)

    assert stalled.state == "parked"
    assert "the worker that ran it died (3 of 3)" in stalled.error
    assert (listed, running) == (stalled, [])
    ended = await app.operator.operation(begun.id)
    assert (ended.state, ended.done, ended.error) == ("done", 7, None)


async def test_a_parked_operation_can_be_paused_and_cancelled(parked, app):
    begun = await app.operator.restart_parked(ParkedFilter(error_type="E"), source="ann")
    park_step(parked, begun.id)
    await app.operator.pause_operation(begun.id)
    paused = await app.operator.operation(begun.id)

    await app.operator.cancel_operation(begun.id)
    await run_until_idle(app)

    assert (paused.state, paused.error) == ("paused", None)
    assert (await app.operator.operation(begun.id)).state == "cancelled"
    assert live(parked, "parked_at is not null") == 7
    assert parked.row(str(begun.id), operation.QUEUE) is None  # its step has ended


async def test_a_step_may_wait_and_items_may_be_counted_only(app, monkeypatch):
    """S18: what a paced operation over millions of things needs."""
    calls: list[str | None] = []

    async def count(*_: Any) -> int:
        return 4

    async def page(_: Any, __: Any, ___: Any, position: str | None, most: int) -> OperationPage:
        calls.append(position)
        if len(calls) == 1:
            return OperationPage([], "0", wait=0.01, why="the world is busy")
        return (
            OperationPage([1, 2], '"half"', wait=0.01)
            if position is None
            else OperationPage([3, 4], None)
        )

    async def apply(_: Any, __: Any, ___: Any, items: Any) -> list[ItemResult]:
        return [ItemResult("q", str(item)) for item in items]

    slow = OperationKind("slow", PutBackOrder, lambda o, now: o, count, page, apply, counted=True)
    monkeypatch.setitem(bulk.OPERATIONS, "slow", slow)
    begun = await app.operator.start("slow", PutBackOrder(HistoryFilter(key="x")), source="ann")

    async def ended() -> bool:
        return (await app.operator.operation(begun.id)).state == "done"

    async with app.worker(poll=0.02):
        await wait_until(ended)

    assert calls == [None, None, '"half"']
    assert (await app.operator.operation(begun.id)).done == 4
    assert await app.operator.operation_items(begun.id) == []


async def test_only_the_last_step_waits_for_the_disk(app, monkeypatch):
    """P10: what a crash takes of the others it takes with their position, and they are done again."""
    flushed: list[str] = []

    async def count(*_: Any) -> int:
        return 2

    async def page(_: Any, __: Any, ___: Any, position: str | None, most: int) -> OperationPage:
        return OperationPage([1], '"half"') if position is None else OperationPage([2], None)

    async def apply(_: Any, connection: Any, ___: Any, items: Any) -> list[ItemResult]:
        flushed.append(await connection.fetchval("show synchronous_commit"))
        return [ItemResult("q", str(item)) for item in items]

    quick = OperationKind("quick", PutBackOrder, lambda o, now: o, count, page, apply)
    monkeypatch.setitem(bulk.OPERATIONS, "quick", quick)
    begun = await app.operator.start("quick", PutBackOrder(HistoryFilter(key="x")), source="ann")

    async def ended() -> bool:
        return (await app.operator.operation(begun.id)).state == "done"

    async with app.worker(poll=0.02):
        await wait_until(ended)

    assert flushed == ["off", "on"]


async def test_of_two_workers_with_the_same_page_the_second_does_nothing(app, monkeypatch):
    """T6: also when the first put all of its items off, so that nothing was counted."""
    applied: list[int] = []

    async def count(*_: Any) -> int:
        return 2

    async def page(_: Any, __: Any, ___: Any, position: str | None, most: int) -> OperationPage:
        await both.wait()  # each worker has read where the operation stands
        return OperationPage([1], '"half"') if position is None else OperationPage([2], None)

    async def apply(_: Any, __: Any, ___: Any, items: Any) -> list[ItemResult]:
        applied.extend(items)
        return []

    both = asyncio.Barrier(2)
    putting_off = OperationKind("off", PutBackOrder, lambda o, now: o, count, page, apply)
    monkeypatch.setitem(bulk.OPERATIONS, "off", putting_off)
    begun = await app.operator.start("off", PutBackOrder(HistoryFilter(key="x")), source="ann")
    database = await app.database()
    connections = [await database.connect("test") for _ in range(2)]

    await asyncio.gather(
        *(operation._step(database, c, bulk.OPERATIONS, begun) for c in connections)
    )

    for connection in connections:
        await connection.close()
    assert applied == [1]


async def test_an_unknown_kind_names_the_nearest(app):
    with pytest.raises(NotFound, match="did you mean 'put_back'"):
        await app.operator.start("put_bak", None, source="ann")


# -- putting back


def done_task(app: Mainspring) -> tuple[Any, list[Any]]:
    ids: list[Any] = []

    @app.task
    async def note(n: int) -> int:
        return n

    return note, ids


async def test_past_tasks_are_put_back_with_their_id_and_payload(app, visits):
    """T6: past tasks can be put back in bulk and run again under the same idempotency key."""
    note, _ = done_task(app)
    handles = await note.enqueue_many([{"n": n} for n in range(5)])
    grouped = await note.options(group="acme", key="one").enqueue(n=9)
    await run_until_idle(app)
    since = visits.now() - timedelta(hours=1)

    begun = await app.operator.put_back(HistoryFilter(queue="note", since=since), source="ann")
    await run_until_idle(app)

    assert (
        (await app.operator.operation(begun.id)).done,
        (await app.operator.operation(begun.id)).failed,
    ) == (6, 0)
    for handle in [*handles, grouped]:
        runs = visits.history(handle.key)
        assert [run["outcome"] for run in runs] == ["done", "done"]
        assert {str(handle.id)} == {str(run["id"]) for run in runs}


async def test_a_task_that_ran_twice_is_put_back_once(app, visits):
    """T6"""
    note, _ = done_task(app)
    handle = await note.enqueue(n=1)
    await run_until_idle(app)
    wanted = HistoryFilter(key=handle.key)
    for _ in range(2):
        await app.operator.put_back(wanted, source="ann")
        await run_until_idle(app)

    assert len(visits.history(handle.key)) == 3


async def test_a_task_whose_key_is_live_is_left_and_reported(app, visits):
    note, _ = done_task(app)
    await note.options(key="one").enqueue(n=1)
    await run_until_idle(app)
    await note.options(key="one", delay=timedelta(hours=1)).enqueue(n=2)

    begun = await app.operator.put_back(HistoryFilter(key="one"), source="ann")
    await run_until_idle(app)

    (item,) = await app.operator.operation_items(begun.id)
    assert item.error == "a task with its key is live"
    assert visits.row("one", "note")["payload"] == {"n": 2}


async def test_a_fresh_id_on_demand_is_the_key_too_where_the_old_one_was(app, visits):
    """T6: a fresh idempotency key on demand."""
    note, _ = done_task(app)
    handle = await note.enqueue(n=1)
    await run_until_idle(app)

    begun = await app.operator.put_back(HistoryFilter(key=handle.key), source="ann", fresh_ids=True)
    await run_until_idle(app)

    (item,) = await app.operator.operation_items(begun.id)
    assert handle.key != item.key
    (run,) = visits.history(item.key)
    assert item.key == str(run["id"])


async def test_putting_back_needs_a_span_or_a_key_and_what_is_over(app):
    with pytest.raises(InvalidSetting, match="needs a time span or a key"):
        await app.operator.put_back(HistoryFilter(queue="note"), source="ann")
    with pytest.raises(InvalidSetting, match="'parked' is not over"):
        await app.operator.put_back(HistoryFilter(key="x", outcomes=["parked"]), source="ann")
