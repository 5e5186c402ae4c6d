"""Without faults everything is run exactly once (T2)."""

from __future__ import annotations

import asyncio
from collections import Counter

from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working


def keys(count: int) -> list[str]:
    return [f"key {n:04}" for n in range(count)]


async def test_a_read_under_way_does_not_bring_back_what_is_settled_meanwhile(
    visits: Visits, database_url: str
) -> None:
    """A page is older than its arrival: a visit in it may have been settled since it was sent."""
    gauge = Gauge(seconds=0.001)
    ring = queue(handler=gauge)

    async with working(database_url, ring, poll=0.01, page=50) as worker:
        for n in range(20):
            visits.offer(*(f"{n} {key}" for key in keys(50)))
            for _ in range(5):
                worker.reader.restart()  # reads what is in hand again, as sweeps and hints do
                await asyncio.sleep(0.002)
        await wait_until(lambda: len(set(gauge.started)) == 1000, 20)

    assert [key for key, count in Counter(gauge.started).items() if count > 1] == []


async def test_two_workers_that_share_the_work_run_everything_once(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge)
    visits.offer(*keys(500))

    async with working(database_url, ring), working(database_url, ring):
        visits.offer(*(f"more {key}" for key in keys(500)))
        await wait_until(lambda: len(set(gauge.started)) == 1000, 20)

    assert len(gauge.started) == 1000
    assert visits.value("select count(*) from mainspring.history") == 1000
