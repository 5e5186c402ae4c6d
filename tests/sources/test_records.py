"""Records of real brokers become effects in this database, exactly once."""

from __future__ import annotations

from mainspring.sources import Enqueue, Record
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import Feed, Sources


async def test_each_record_enqueues_its_call_once(feed: Feed, sources: Sources) -> None:
    """T8, invariant 10: the stored offset is that of the records whose effects are committed."""
    app = sources.app
    done: list[int] = []

    @app.task
    async def charge(order: int) -> None:
        done.append(order)

    def to(record: Record) -> Enqueue:
        return Enqueue(charge.bind(record.json()["order"]))

    app.source("orders", feed.broker(), to=to)
    await feed.put([{"order": n} for n in range(60)], part=0)
    await feed.put([{"order": n} for n in range(60, 75)], part=1)
    async with app.worker(**FAST_SETTINGS):
        await wait_until(lambda: len(done) == 75, 30)
        await feed.put([{"order": 75}], part=1)
        await wait_until(lambda: len(done) == 76, 30)
    assert sorted(done) == list(range(76))
    assert sorted(sources.offsets().values())[-2:] != [0, 0]

    async with app.worker(**FAST_SETTINGS):
        await feed.put([{"order": 76}], part=0)
        await wait_until(lambda: len(done) == 77, 30)
    assert sorted(done) == list(range(77))
