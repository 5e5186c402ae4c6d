"""One pool, workers of different code: each queue is run by whoever has it, exactly as in a whole pool."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import pytest

from mainspring.errors import InvalidSetting, MixedPool
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.visit import Run
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge
from workers import working as any_working

OWN = queue("mainspring.operation")
working = partial(any_working, lease=5.0)
BANDS = (
    "select count(distinct pool) from mainspring.lease where pool > 'default' and pool < 'default '"
)
WAITING = "select count(*) from mainspring.visit"


class Log:
    """A handler that notes which worker ran what."""

    def __init__(self) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()

    async def __call__(self, run: Run) -> Outcome:
        self.runs[run.visit.queue, run.visit.key] += 1
        return Done()

    def keys(self, name: str) -> int:
        return sum(queue == name for queue, _ in self.runs)


def assert_sound(visits: Visits) -> None:
    assert visits.query("select * from mainspring.violation") == []


async def whole(visits: Visits, *workers: Worker) -> None:
    """Wait until the pool is whole, and the workers have all of it between them."""
    await wait_until(lambda: visits.value(BANDS) == 0)
    await wait_until(lambda: sum(len(w.owned.shards) for w in workers) == 1024)
    await wait_until(lambda: not any(w.owned.by_queue for w in workers))


async def test_services_without_a_queue_in_common_share_a_pool(
    visits: Visits, database_url: str
) -> None:
    """T2: each runs all of its own, in every shard; the engine's own queues are shared."""
    bill, mail = Log(), Log()
    async with (
        working(database_url, queue("bill", handler=bill), OWN) as one,
        working(database_url, queue("mail", handler=mail), OWN) as two,
    ):
        visits.offer(*(f"b{n}" for n in range(100)), queue="bill")
        visits.offer(*(f"m{n}" for n in range(100)), queue="mail")
        await wait_until(lambda: visits.value(WAITING) == 0)

        assert (bill.keys("bill"), mail.keys("mail")) == (100, 100)
        await wait_until(lambda: len(two.owned.shards_of("mail")) == 1024)
        assert len(one.owned.shards_of("bill")) == 1024
        await wait_until(lambda: len(two.owned.shards_of(OWN.name)) == 512)
        await wait_until(lambda: len(one.owned.shards_of(OWN.name)) == 512)
        assert_sound(visits)


async def test_services_that_share_one_task_leave_nothing_standing(
    visits: Visits, database_url: str
) -> None:
    """T2: 100 calls of each queue, while both live; what both have is run once, by one of them."""
    first, second = Log(), Log()
    async with (
        working(database_url, queue("both", handler=first), queue("old", handler=first)),
        working(database_url, queue("both", handler=second), queue("new", handler=second)),
    ):
        for name in ("old", "new", "both"):
            visits.offer(*(f"{name} {n}" for n in range(100)), queue=name)
        await wait_until(lambda: visits.value(WAITING) == 0)

        assert (first.keys("old"), second.keys("new")) == (100, 100)
        assert first.keys("both") + second.keys("both") == 100
        assert set((first.runs + second.runs).values()) == {1}
        assert_sound(visits)


async def test_a_canary_runs_its_new_queue_and_leaves_the_pool_whole(
    visits: Visits, database_url: str
) -> None:
    """T2: all calls of what only the canary has are run; the others keep their share of the rest."""
    old, new = Log(), Log()
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(working(database_url, queue("ring", handler=old)))
            for _ in range(3)
        ]
        codes = [queue("ring", handler=old), queue("new", handler=new)]
        async with working(database_url, *codes) as canary:
            visits.offer(*(f"n{n}" for n in range(100)), queue="new")
            visits.offer(*(f"r{n}" for n in range(100)))
            await wait_until(lambda: visits.value(WAITING) == 0)
            assert (new.keys("new"), old.keys("ring")) == (100, 100)
            await wait_until(lambda: len(canary.owned.shards_of("ring")) == 256)
            assert len(canary.owned.shards_of("new")) == 1024
            assert_sound(visits)

        await whole(visits, *workers)
        visits.offer(*(f"again {n}" for n in range(100)))
        await wait_until(lambda: visits.value(WAITING) == 0)
        assert_sound(visits)


async def test_a_stranger_of_the_release_before_is_not_joined(
    visits: Visits, database_url: str
) -> None:
    """T2: it knows no bands, so neither could run what lies in the other's shards; the error says so."""
    before = visits.join(queues=["bill"], knows_bands=False)
    visits.call("make_leases", pool="default")
    visits.take(before)

    def turned_away() -> bool:
        visits.beat(before, slots=4, free=4)
        worker.heart.poke_beat()
        return worker.loop_port.turned_away_by is not None

    async with working(database_url, queue("mail"), OWN, wait=False) as worker:
        await wait_until(turned_away)
        with pytest.raises(MixedPool, match=r"'bill'.*'mail'.*release before.*pool='...'") as error:
            await worker.rejected()

    assert (error.value.pool, error.value.mine) == ("default", ["mail"])
    assert "mainspring.operation" not in str(error.value)


async def test_a_stranger_that_leaves_is_no_hindrance(visits: Visits, database_url: str) -> None:
    leaving = visits.join(queues=["bill"], knows_bands=False)
    visits.beat(leaving, slots=0, free=0)

    async with working(database_url, queue("mail")) as worker:
        assert len(worker.owned.shards) == 1024


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


def test_a_pool_s_name_has_no_control_characters() -> None:
    """T2: after one of these a lease names a band of the pool."""
    with pytest.raises(InvalidSetting, match="a pool's name must be printable"):
        WorkerSettings(pool="default\x1f")


async def test_a_turn_that_is_held_in_a_queue_i_lack_is_waited_for(
    visits: Visits, database_url: str
) -> None:
    """S14: the old code leaves amid a stage that the new code has no more."""
    gate, log = Gate(), Log()
    first = [queue("one", handler=gate, turns="t", hold_after=0.0), queue("two", turns="t")]
    visits.register(*first)
    visits.offer("a", queue="one")
    async with working(database_url, *first, grace=30.0) as old:
        await wait_until(lambda: len(gate.runs) == 1)
        second = queue("two", handler=log, turns="t")
        async with working(database_url, second, wait=False) as new:
            await wait_until(new.heart.joined.is_set)
            leaving = asyncio.create_task(old.stop())
            await wait_until(lambda: len(new.owned.shards_of("two")) == 1024, 20)
            visits.offer("a", *(f"b{n}" for n in range(100)), queue="two")
            await wait_until(lambda: visits.value(WAITING) == 2)
            passes = new.reader.intake.passes
            await wait_until(lambda: new.reader.intake.passes > passes + 1)

            assert log.runs["two", "a"] == 0, "two stages of one entity at a time"
            gate.open.set()
            await wait_until(lambda: visits.value(WAITING) == 0)
            await leaving
            assert log.runs["two", "a"] == 1


async def test_a_worker_that_leaves_amid_a_recut_keeps_nothing_for_its_grace(
    visits: Visits, database_url: str
) -> None:
    """T10: what it gave was another lease by then; the band that the recut wrote for it goes too."""
    gate, log = Gate(), Log()
    visits.offer("a")
    async with working(database_url, queue(handler=gate), grace=60.0) as old:
        await wait_until(lambda: len(gate.runs) == 1)
        codes = [queue(handler=log), queue("new", handler=log)]
        async with working(database_url, *codes, wait=False) as new:
            await wait_until(new.heart.joined.is_set)
            leaving = asyncio.create_task(old.stop())
            visits.offer(*(f"b{n}" for n in range(100)))
            await wait_until(lambda: visits.value(WAITING) == 1, 20)

            assert (log.keys("ring"), len(gate.runs)) == (100, 1)
            gate.open.set()
            await leaving
