"""Bursts: after a quiet time more may start at once, and never more than was not used."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from test_groups import visit

from mainspring import Mainspring
from mainspring.db.database import Database
from mainspring.errors import InvalidSetting
from mainspring.kernel.lease.dead import declare_ended
from mainspring.limits import Bucket, Groups, QueueLimits
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working


def test_a_bucket_holds_its_burst_and_no_more() -> None:
    bucket = Bucket(2, now=0, burst=5)
    taken = 0
    while bucket.ready_at(1000) <= 1000:
        bucket.take(1000)
        taken += 1
    assert taken == 5
    assert bucket.ready_at(1000) == pytest.approx(1000.5)


def test_a_bucket_begins_with_what_nobody_has_used() -> None:
    assert Bucket(2, now=0, burst=5, rested=1).ready_at(0) == 0
    assert Bucket(2, now=0, burst=5, rested=0.25).ready_at(0) == pytest.approx(0.25)


def test_a_burst_is_divided_like_the_rate() -> None:
    limits = QueueLimits(concurrency=None, rate=10, burst=20)
    assert [limits.burst_of(rate) for rate in (10, 5, 0)] == [20, 10, 0]
    assert QueueLimits(None, 10).burst_of(5) is None


class TestGroups:
    """Of a group its owner knows what was started since the shard is its own."""

    def test_a_group_that_was_quiet_starts_at_once(self) -> None:
        """T13: one start in ten seconds does not mean that each waits for ten seconds."""
        found = Groups()
        found.own(frozenset([0]), now=0.0)
        found.limit(None, 0.1, now=0.0)

        assert found.admit(visit(1), now=20.0) == "started"
        assert found.admit(visit(2), now=21.0) == "kept"

    def test_it_has_its_burst_then(self) -> None:
        found = Groups()
        found.own(frozenset([0]), now=0.0)
        found.limit(None, 0.1, now=0.0, burst=3)

        answers = [found.admit(visit(n), now=25.0) for n in range(4)]

        assert answers == ["started", "started", "kept", "kept"]

    def test_what_others_have_started_is_not_known(self) -> None:
        """A shard that was just taken, or was away for a while, begins without a token."""
        found = Groups()
        found.limit(None, 1.0, now=0.0, burst=10)
        found.own(frozenset([0, 1]), now=100.0)
        assert found.admit(visit(1, shard=1), now=100.0) == "kept"
        assert found.admit(visit(1, group="h"), now=103.5) == "started"

        found.own(frozenset([1]), now=104.0)
        found.own(frozenset([0, 1]), now=110.0)
        assert found.admit(visit(2, group="h"), now=110.5) == "kept"

    def test_another_rate_begins_without_a_token(self) -> None:
        found = Groups()
        found.own(frozenset([0]), now=0.0)
        found.limit(None, 1.0, now=100.0)
        assert found.admit(visit(1), now=100.5) == "kept"


async def test_a_queue_that_was_quiet_starts_its_burst_and_then_goes_by_its_rate(
    visits: Visits, database_url: str
) -> None:
    """T13: over two workers; their buckets begin with what nobody has used."""
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, rate=10, burst=8)
    visits.register(ring)
    visits.query(
        "update mainspring.queue set rate_rested_at = mainspring.now() - interval '1 minute'"
    )
    visits.offer(*(f"key {n:03}" for n in range(16)))
    async with working(database_url, ring), working(database_url, ring):
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 20)
    times = sorted(gauge.started_at)
    for first, _ in enumerate(times):
        for last in range(first, len(times)):
            allowed = (times[last] - times[first]) * 10 + 8 + 1
            assert last - first + 1 <= allowed + 0.5
    assert times[5] - times[0] < 0.5  # else each would have waited for a tenth of a second


async def test_what_is_left_of_a_burst_is_lost_with_its_worker(
    visits: Visits, database_url: str
) -> None:
    """T13: nobody knows what a dead worker has used, so its heir begins without a token."""
    ring = queue(handler=Gauge(seconds=0), rate=0.5, burst=5)
    visits.register(ring)
    rested = "select rate_rested_at from mainspring.queue where name = 'ring'"
    visits.offer("a", "b")
    async with working(database_url, ring) as worker:
        await wait_until(lambda: worker.buffer.queues["ring"].bucket is not None)
        await wait_until(lambda: visits.value(rested) is None)
        dead_id = worker.owned.worker_id
        database = Database(database_url)
        await asyncio.to_thread(
            declare_ended, database, pool="default", dead_id=dead_id, lease=worker.settings.lease
        )
        visits.query("update mainspring.queue set paused_at = mainspring.now()")
        await wait_until(lambda: visits.value("select count(*) from mainspring.part") == 0)
        assert visits.value(rested) is None
    gauge = Gauge(seconds=0)
    visits.query("update mainspring.queue set paused_at = null")
    visits.query("delete from mainspring.visit")
    visits.offer("c")
    async with working(database_url, queue(handler=gauge, rate=0.5, burst=5)):
        began = asyncio.get_running_loop().time()
        await wait_until(lambda: len(gauge.started_at) == 1, 20)
    assert gauge.started_at[0] - began > 1.0


async def test_a_queue_whose_work_comes_now_and_then_does_not_wait_each_time(
    visits: Visits, database_url: str
) -> None:
    """T13: a part of a rate is given back at rest; what drips meanwhile is not lost."""
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, rate=2)
    rested = "select rate_rested_at is not null from mainspring.queue where name = 'ring'"
    async with working(database_url, ring):
        for n in range(3):
            visits.offer(f"key {n}")
            await wait_until(lambda n=n: len(gauge.started_at) == n + 1)
            await wait_until(lambda: visits.value(rested))
            visits.query(
                "update mainspring.queue set rate_rested_at = rate_rested_at - interval '1 minute'"
            )
    assert min(after - before for before, after in pairwise(gauge.started_at)) < 0.5


async def test_a_burst_is_changed_at_run_time(visits: Visits, app: Mainspring) -> None:
    await app.operator.limit("ring", rate=5.0, burst=10, group_burst=3)
    [load] = await app.operator.queues(name="ring")
    assert (load.rate, load.burst, load.group_burst) == (5, 10, 3)
    with pytest.raises(InvalidSetting, match="burst must be a whole number of 1 to 1000000"):
        await app.operator.limit("ring", burst=0)
