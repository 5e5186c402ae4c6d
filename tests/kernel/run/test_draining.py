"""Stopping and draining: nothing new is taken, what runs gets its grace, the rest goes back."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge, working


async def test_running_work_ends_within_the_grace(visits: Visits, database_url: str) -> None:
    """T10."""
    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate), grace=5.0) as worker:
        await wait_until(lambda: gate.keys == {"a"})
        stopping = asyncio.create_task(worker.stop())
        await wait_until(lambda: worker.owned.closed)

        gate.open.set()
        await stopping

        assert gate.ended == ["a"]
        assert visits.row("a") is None


async def test_nothing_new_is_taken_while_stopping(visits: Visits, database_url: str) -> None:
    """T10."""
    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate), grace=5.0) as worker:
        await wait_until(lambda: gate.keys == {"a"})
        stopping = asyncio.create_task(worker.stop())
        await wait_until(lambda: not worker.owned.shards)

        visits.offer("b")
        gate.open.set()
        await stopping

        assert gate.keys == {"a"}
        assert visits.row("b") is not None


async def test_what_is_left_after_the_grace_goes_back_at_once(
    visits: Visits, database_url: str
) -> None:
    """T10: not after a timeout, and neither an attempt nor a crash is counted."""
    gate, second = Gate(), Gauge(seconds=0)
    visits.offer("a")
    async with working(database_url, queue(handler=gate), grace=0.05):
        await wait_until(lambda: gate.keys == {"a"})

    row = visits.row("a")
    assert (row["pass"], row["attempt"], row["crashes"]) == (None, 0, 0)
    assert visits.value("select count(*) from mainspring.worker") == 0
    async with working(database_url, queue(handler=second)):
        await wait_until(lambda: second.started == ["a"], 1)


async def test_another_worker_takes_the_shards_while_the_first_still_ends(
    visits: Visits, database_url: str
) -> None:
    """T10: new work does not wait for the grace of the one that stops."""
    gate, other = Gate(), Gauge(seconds=0)
    visits.offer("slow")
    async with working(database_url, queue(handler=gate), grace=5.0) as first:
        await wait_until(lambda: gate.keys == {"slow"})
        async with working(database_url, queue(handler=other)):
            stopping = asyncio.create_task(first.stop())

            visits.offer(*(f"new {n}" for n in range(20)))
            await wait_until(lambda: len(other.started) == 20)

            assert gate.ended == []
            gate.open.set()
            await stopping
    assert "slow" not in other.started
    assert visits.row("slow") is None


async def test_a_worker_that_stops_leaves_no_row_lease_or_hold(
    visits: Visits, database_url: str
) -> None:
    visits.offer(*(f"key {n}" for n in range(50)))
    async with working(database_url, queue(handler=Gauge(seconds=0))):
        pass

    assert visits.value("select count(*) from mainspring.worker") == 0
    assert visits.value("select count(*) from mainspring.lease where worker_id is not null") == 0
    assert visits.value("select count(*) from mainspring.visit where pass is not null") == 0


async def test_a_drain_ends_when_nothing_is_due(visits: Visits, database_url: str) -> None:
    """T14."""
    gauge = Gauge(seconds=0)
    visits.offer(*(f"key {n}" for n in range(300)))
    visits.offer("later", after=3600)

    async with working(database_url, queue(handler=gauge), wait=False) as worker:
        async with asyncio.timeout(10):
            await worker.drained()

    assert len(gauge.started) == 300
    assert visits.row("later") is not None


async def test_a_drain_waits_for_what_is_still_running(visits: Visits, database_url: str) -> None:
    """T14."""
    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate)) as worker:
        await wait_until(lambda: gate.keys == {"a"})
        draining = asyncio.create_task(worker.drained())
        await asyncio.sleep(0.15)  # three looks of the drain
        assert not draining.done()

        gate.open.set()
        await asyncio.wait_for(draining, 5)

    assert visits.row("a") is None


async def test_a_drain_looks_again_when_a_run_began_and_ended_while_it_looked(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T14: that run may have left something due which the look was too early to see."""
    looks = []
    async with working(database_url, queue(handler=Gauge(seconds=0))) as worker:
        look = worker._anything_due

        async def look_and_be_overtaken() -> bool:
            looks.append(await look())
            if len(looks) == 1:
                visits.offer("a")
                await wait_until(lambda: visits.row("a") is None and worker._at_rest(), 20)
            return looks[-1]

        monkeypatch.setattr(worker, "_anything_due", look_and_be_overtaken)
        await asyncio.wait_for(worker.drained(), 30)

    assert looks == [False, False]


async def test_a_drain_does_not_wait_for_a_paused_queue(visits: Visits, database_url: str) -> None:
    """T14: nobody would ever run what waits there."""
    visits.call("pause_queue", name="ring", paused=True, reason=None, until=None)
    visits.offer("a")

    async with working(database_url, queue(handler=Gauge())) as worker, asyncio.timeout(3):
        await worker.drained()

    assert visits.row("a") is not None


async def test_a_drain_does_not_wait_for_a_queue_that_is_paused_while_it_works(
    visits: Visits, database_url: str
) -> None:
    """T14: what was read before the pause is in memory, and goes nowhere."""
    gate = Gate()
    visits.offer(*(f"key {n}" for n in range(5)))
    async with working(database_url, queue(handler=gate), concurrency=1) as worker:
        await wait_until(lambda: len(gate.runs) == 1)
        visits.call("pause_queue", name="ring", paused=True, reason=None, until=None)
        await wait_until(lambda: worker.buffer.queues["ring"].paused)

        gate.open.set()
        await asyncio.wait_for(worker.drained(), 3)

    assert visits.value("select count(*) from mainspring.visit") == 4


async def test_a_stop_gives_results_back_that_are_in_although_the_visit_is_locked(
    visits: Visits, database_url: str
) -> None:
    """T10: a user's transaction that ends within the grace loses no result."""
    gauge = Gauge(seconds=0)
    visits.offer("a")
    import psycopg

    with psycopg.connect(database_url) as other:
        async with working(database_url, queue(handler=gauge), grace=5.0) as worker:
            other.execute("select from mainspring.visit where key = 'a' for update")
            await wait_until(lambda: gauge.started == ["a"])
            stopping = asyncio.create_task(worker.stop())
            await wait_until(lambda: worker.owned.closed)
            other.rollback()
            await stopping

    assert visits.row("a") is None
    assert len(visits.history("a")) == 1
