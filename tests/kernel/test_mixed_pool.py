"""One pool, two applications: the one that came second is turned away, not half served."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mainspring.errors import MixedPool
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working

OWN = queue("mainspring.operation")


async def test_a_worker_without_a_queue_in_common_is_turned_away(
    visits: Visits, database_url: str
) -> None:
    """T2: neither could run what lies in the other's shards; the error names both and the remedy."""
    async with working(database_url, queue("bill"), OWN) as first:
        with pytest.raises(MixedPool, match=r"'bill'.*'mail'.*pool='...'") as error:
            async with working(database_url, queue("mail"), OWN):
                pass

        assert (error.value.pool, error.value.mine) == ("default", ["mail"])
        assert "mainspring.operation" not in str(error.value)
        assert len(first.hand.shards) == 1024


async def test_of_two_that_start_at_once_one_works(visits: Visits, database_url: str) -> None:
    """T2: who goes is decided by the database's order, so it is never both and never none."""

    async def attempt(name: str) -> Worker | None:
        try:
            async with working(database_url, queue(name)) as worker:
                await over.wait()
                return worker
        except MixedPool:
            over.set()
            return None

    over = asyncio.Event()
    async with asyncio.timeout(20):
        ends = await asyncio.gather(attempt("bill"), attempt("mail"))

    assert [worker is None for worker in ends].count(True) == 1


async def test_a_dead_stranger_only_delays(visits: Visits, database_url: str) -> None:
    """T2: what does not beat is declared dead after a lease time, as always."""
    dead = visits.join(queues=["bill"])
    visits.call("make_leases", pool="default")
    visits.take(dead)

    async with working(database_url, queue("mail")) as worker:
        assert len(worker.hand.shards) == 1024


async def test_a_stranger_that_leaves_is_no_hindrance(visits: Visits, database_url: str) -> None:
    leaving = visits.join(queues=["bill"])
    visits.call("beat", worker_id=leaving, slots=0, free=0)

    async with working(database_url, queue("mail")) as worker:
        assert len(worker.hand.shards) == 1024


async def test_workers_with_a_queue_in_common_share_the_pool(
    visits: Visits, database_url: str, caplog
) -> None:
    """T2: old and new code of one application, in a rolling deploy; the difference is told."""
    caplog.set_level(logging.WARNING, "mainspring")
    async with (
        working(database_url, queue("ring"), queue("old")) as one,
        working(database_url, queue("ring"), queue("new")) as two,
    ):
        await wait_until(lambda: one.hand.shards and two.hand.shards)
        await wait_until(lambda: any(r.msg == "pool.mixed" for r in caplog.records))

        assert not one.hand.shards & two.hand.shards


async def test_a_queue_that_moves_to_another_pool_is_run_there_alone(
    visits: Visits, database_url: str
) -> None:
    """T2: a rolling deploy that changes a task's pool; the old code's worker leaves it alone."""
    before, after = Gauge(seconds=0), Gauge(seconds=0)
    async with working(database_url, queue(handler=before)) as old:
        visits.offer("a")
        await wait_until(lambda: before.started == ["a"])
        moved = queue(handler=after, pool="heavy")
        async with working(database_url, moved, pool="heavy"):
            await wait_until(lambda: old.buffer.queues["ring"].paused)
            visits.offer(*(f"key {n}" for n in range(20)))
            await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)

        assert before.started == ["a"]
        assert len(after.started) == 20
