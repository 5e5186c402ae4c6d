"""Limits, priorities, turns and pauses, as workers keep them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring.kernel.tuning import Tuning
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge, working


def keys(count: int) -> list[str]:
    return [f"key {n:03}" for n in range(count)]


def left(visits: Visits) -> int:
    return visits.value("select count(*) from mainspring.visit")


async def test_a_group_never_runs_more_than_its_limit_over_two_workers(
    visits: Visits, database_url: str
) -> None:
    """T13: exact, and all get done."""
    gauge = Gauge(by=lambda run: run.visit.group)
    ring = queue(handler=gauge, group_concurrency=2)
    visits.register(ring)
    for n in range(4):
        visits.offer(*(f"{n} {key}" for key in keys(20)), group=f"group {n}")

    async with working(database_url, ring), working(database_url, ring):
        await wait_until(lambda: left(visits) == 0, 20)

    assert max(gauge.most.values()) == 2
    assert Counter(gauge.started).most_common(1)[0][1] == 1


async def test_a_group_larger_than_the_buffer_is_run_to_its_end(
    visits: Visits, database_url: str
) -> None:
    """What a full group keeps back is left in the database and read when there is room."""
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, group_concurrency=1)
    visits.register(ring)
    visits.offer(*keys(150), group="one")

    async with working(database_url, ring):
        await wait_until(lambda: left(visits) == 0, 20)

    assert gauge.started == keys(150)


async def test_a_rated_group_larger_than_the_buffer_is_run_to_its_end(
    visits: Visits, database_url: str
) -> None:
    """T13: at its rate, in its order, and without a poll."""
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, group_rate=400)
    visits.register(ring)
    visits.offer(*keys(150), group="one")

    async with working(database_url, ring, poll=60.0):
        await wait_until(lambda: left(visits) == 0, 20)

    assert gauge.started == keys(150)


async def test_a_full_group_does_not_keep_others_back(visits: Visits, database_url: str) -> None:
    gate, gauge = Gate(), Gauge(seconds=0)

    async def handler(run):
        return await (gate(run) if run.visit.group else gauge(run))

    ring = queue(handler=handler, group_concurrency=1)
    visits.register(ring)
    visits.offer(*(f"grouped {key}" for key in keys(60)), group="full")
    visits.offer(*keys(10))

    async with working(database_url, ring, concurrency=4):
        await wait_until(lambda: len(gauge.started) == 10)
        assert len(gate.runs) == 1
        gate.open.set()
        await wait_until(lambda: left(visits) == 0, 20)


async def test_a_queue_never_runs_more_than_its_limit_over_two_workers(
    visits: Visits, database_url: str
) -> None:
    """T13: exact across workers, and all get done."""
    gauge = Gauge()
    ring = queue(handler=gauge, concurrency=3)
    visits.register(ring)
    visits.offer(*keys(60))

    async with working(database_url, ring), working(database_url, ring):
        await wait_until(lambda: left(visits) == 0, 20)
        assert visits.query("select * from mainspring.violation") == []

    assert gauge.most["ring"] <= 3
    assert sorted(gauge.started) == keys(60)


async def test_one_permit_serves_two_workers_with_work_in_both(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0.005)
    ring = queue(handler=gauge, concurrency=1)
    visits.register(ring)
    async with working(database_url, ring) as one, working(database_url, ring) as two:
        await wait_until(lambda: len(one.owned.shards) == len(two.owned.shards) == 512, 10)

        visits.offer(*keys(12))
        await wait_until(lambda: left(visits) == 0, 30)

    assert gauge.most["ring"] == 1


async def test_a_queue_s_limit_does_not_keep_other_queues_back(
    visits: Visits, database_url: str
) -> None:
    gate, gauge = Gate(), Gauge(seconds=0)
    slow, quick = queue("slow", handler=gate, concurrency=1), queue("quick", handler=gauge)
    visits.register(slow, quick)
    visits.offer(*keys(20), queue="slow")
    visits.offer(*keys(20), queue="quick")

    async with working(database_url, slow, quick, concurrency=4):
        await wait_until(lambda: len(gauge.started) == 20)
        gate.open.set()
        await wait_until(lambda: left(visits) == 0, 20)

    assert len(gate.runs) == 20


async def test_a_queue_never_starts_more_than_its_rate(visits: Visits, database_url: str) -> None:
    """T13: over any span, rate times span and a tenth of a second's worth at most."""
    rate = 40
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, rate=rate)
    visits.register(ring)
    visits.offer(*keys(24))

    async with working(database_url, ring):
        await wait_until(lambda: left(visits) == 0, 20)

    times = gauge.started_at
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= (times[last] - times[first]) * rate + rate / 10 + 1


async def test_a_group_never_starts_more_than_its_rate(visits: Visits, database_url: str) -> None:
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, group_rate=20)
    visits.register(ring)
    visits.offer(*(f"g {key}" for key in keys(8)), group="g")
    visits.offer(*(f"h {key}" for key in keys(8)), group="h")

    async with working(database_url, ring):
        await wait_until(lambda: left(visits) == 0, 20)

    times = [
        at for key, at in zip(gauge.started, gauge.started_at, strict=True) if key.startswith("g")
    ]
    assert times[-1] - times[0] >= (len(times) - 1 - 2) / 20


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(
    visits: Visits, database_url: str
) -> None:
    """T13."""
    gauge = Gauge(seconds=0)
    ring, other = queue(handler=gauge), queue("other", handler=Gauge(seconds=0))
    visits.register(ring, other)
    async with working(database_url, ring, other) as worker:
        visits.call("pause_queue", name="ring", paused=True, reason=None, until=None)
        await wait_until(lambda: worker.buffer.queues["ring"].paused)
        visits.offer(*keys(5))
        visits.offer(*keys(5), queue="other")
        await wait_until(lambda: left(visits) == 5)
        assert gauge.started == []

        visits.call("pause_queue", name="ring", paused=False, reason=None, until=None)
        await wait_until(lambda: left(visits) == 0)

    assert gauge.started == keys(5)


async def test_the_greatest_priority_goes_first_and_within_it_the_oldest(
    visits: Visits, database_url: str
) -> None:
    """T4, T13."""
    gauge = Gauge(seconds=0)
    for key, priority in (("low", 1), ("first", 5), ("second", 5), ("high", 9)):
        visits.offer(key, priority=priority)

    async with working(database_url, queue(handler=gauge), concurrency=1):
        await wait_until(lambda: left(visits) == 0)

    assert gauge.started == ["high", "first", "second", "low"]


async def test_queues_of_one_class_take_turns_on_a_key(visits: Visits, database_url: str) -> None:
    """Of all queues of a class one run per key at a time, over two workers."""
    gauge = Gauge(by=lambda run: run.visit.key, seconds=0.003)
    queues = [queue(name, handler=gauge, turns="entity") for name in ("one", "two", "three")]
    visits.register(*queues)
    for name in ("one", "two", "three"):
        visits.offer(*keys(20), queue=name)

    async with working(database_url, *queues), working(database_url, *queues):
        await wait_until(lambda: left(visits) == 0, 20)

    assert max(gauge.most.values()) == 1
    assert len(gauge.started) == 60


async def test_another_key_does_not_wait_for_a_turn(visits: Visits, database_url: str) -> None:
    gate = Gate()
    queues = [queue(name, handler=gate, turns="entity") for name in ("one", "two")]
    visits.register(*queues)
    visits.offer("a", queue="one")
    visits.offer("a", "b", queue="two")

    async with working(database_url, *queues):
        await wait_until(lambda: len(gate.runs) == 2)
        assert gate.keys == {"a", "b"}
        gate.open.set()
        await wait_until(lambda: left(visits) == 0)


async def test_an_operator_s_limit_applies_at_once(visits: Visits, database_url: str) -> None:
    gate = Gate()
    ring = queue(handler=gate)
    async with working(database_url, ring) as worker:
        visits.call("limit_queue", name="ring", source="", changes='{"concurrency": 2}')
        await wait_until(lambda: worker.buffer.queues["ring"].concurrency == 2)
        visits.offer(*keys(10))
        await wait_until(lambda: len(gate.runs) == 2)
        await asyncio.sleep(0.1)  # nothing more may start: there is no step to wait for
        assert len(gate.runs) == 2

        visits.call("limit_queue", name="ring", source="", changes='{"concurrency": null}')
        await wait_until(lambda: len(gate.runs) == 10)
        gate.open.set()
        await wait_until(lambda: left(visits) == 0)


async def test_a_visit_that_expired_in_the_queue_is_not_started(
    visits: Visits, database_url: str, clock
) -> None:
    gauge = Gauge(seconds=0)
    visits.offer("late")
    visits.change("late", expires_at=visits.now() + timedelta(seconds=30))
    await clock.advance(60)

    async with working(database_url, queue(handler=gauge)):
        await wait_until(lambda: left(visits) == 0)

    assert gauge.started == []
    assert [story["outcome"] for story in visits.history("late")] == ["expired"]


@pytest.mark.parametrize("paused", [False, True], ids=["limited", "paused"])
async def test_a_backlog_that_may_not_start_does_not_starve_another_queue(
    paused: bool, visits: Visits, database_url: str
) -> None:
    """A1: it fills no more than its own part of the buffer, and its slots are not taken."""
    gate, gauge = Gate(), Gauge(seconds=0)
    slow, quick = queue("slow", handler=gate, concurrency=1), queue("quick", handler=gauge)
    visits.register(slow, quick)
    visits.offer(*keys(400), queue="slow")

    async with working(database_url, slow, quick, concurrency=2, page=50, grace=0) as worker:
        state = worker.buffer.queues["slow"]
        await wait_until(lambda: len(gate.runs) == 1 and state.buffered >= 50)
        if paused:
            visits.call("pause_queue", name="slow", paused=True, reason=None, until=None)
            await wait_until(lambda: state.paused)
        visits.offer(*keys(400), queue="quick")

        await wait_until(lambda: len(gauge.started) == 400, 3)
        assert len(gate.runs) == 1


async def test_a_rate_slower_than_the_buffer_s_patience_is_still_reached(
    visits: Visits, database_url: str
) -> None:
    """A2: each visit waits until it is stale, is read again, and only its start spends a token."""
    tuning = Tuning(stale=0.04)
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, rate=8)
    visits.register(ring)
    visits.offer(*keys(6))

    async with working(database_url, ring, tuning=tuning):
        await wait_until(lambda: len(gauge.started) == 6, 3)
        await wait_until(lambda: left(visits) == 0)

    assert sorted(gauge.started) == keys(6)
    assert gauge.started_at[-1] - gauge.started_at[0] < 2 * 5 / 8


async def test_a_group_s_rate_slower_than_the_buffer_s_patience_is_still_reached(
    visits: Visits, database_url: str
) -> None:
    """A2."""
    tuning = Tuning(stale=0.1)
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge, group_rate=8)
    visits.register(ring)
    visits.offer(*(f"g {key}" for key in keys(6)), group="g")
    visits.offer(*(f"h {key}" for key in keys(6)), group="h")

    async with working(database_url, ring, tuning=tuning):
        await wait_until(lambda: len(gauge.started) == 12, 20)
        await wait_until(lambda: left(visits) == 0)

    assert len(set(gauge.started)) == 12


async def test_a_large_group_limit_is_used_in_full(visits: Visits, database_url: str) -> None:
    """B1: however few visits a full group keeps in memory."""
    gauge = Gauge(by=lambda run: run.visit.group, seconds=0.05)
    ring = queue(handler=gauge, group_concurrency=100)
    visits.register(ring)
    visits.offer(*keys(300), group="one")
    later: list[int] = []

    async with working(database_url, ring, concurrency=150):
        await wait_until(lambda: len(gauge.started) > 150, 5)
        while left(visits):
            if len(gauge.started) < 280:
                later.append(gauge.running["one"])
            await asyncio.sleep(0.005)

    assert gauge.most["one"] <= 100
    assert max(later) > 64
    assert sorted(gauge.started) == keys(300)


async def test_a_transaction_that_has_many_queues_keeps_no_heart_from_beating(
    visits: Visits, database_url: str
) -> None:
    """T2: each row of a queue is waited for a moment; twenty such moments are longer than a lease."""
    gate = Gate()
    limited = [queue(f"limited-{n}", concurrency=5) for n in range(20)]
    visits.offer("a")
    async with working(database_url, queue(handler=gate), *limited, lease=1.0) as worker:
        await wait_until(lambda: len(gate.runs) == 1)
        with psycopg.connect(database_url) as operator:
            operator.execute("update mainspring.queue set paused_at = now() where name <> 'ring'")
            beat = visits.value("select beat from mainspring.worker")
            await wait_until(
                lambda: visits.value("select beat from mainspring.worker") > beat + 8, 20
            )

            assert gate.runs[0].stopped is None
            assert worker.owned.worker_id == visits.value("select id from mainspring.worker")
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None)


async def test_a_queue_whose_row_is_free_has_its_part_whatever_else_is_locked(
    visits: Visits, database_url: str
) -> None:
    """T13: rows that somebody has are asked for last, and in turn."""
    gauge = Gauge()
    limited = [queue(f"limited-{n}", handler=gauge, concurrency=5) for n in range(20)]
    async with working(database_url, *limited, lease=1.0):
        with psycopg.connect(database_url) as operator:
            operator.execute(
                "update mainspring.queue set paused_at = now()"
                " where name <> 'ring' and name <> 'limited-15'"
            )
            visits.offer("a", queue="limited-15")

            await wait_until(lambda: gauge.started == ["a"], 10)


@pytest.mark.parametrize(
    ("limit", "group"),
    [({"concurrency": 1}, None), ({"group_concurrency": 1}, "g"), ({"turns": "class"}, None)],
)
async def test_a_run_that_counts_for_nothing_leaves_its_place(
    visits: Visits, database_url: str, limit: dict[str, Any], group: str | None
) -> None:
    """T13: of its queue, its group and its turn: the visit itself needs them again."""
    gate = Gate()
    visits.offer("a", group=group)
    async with working(database_url, queue(handler=gate, **limit), lease=60.0) as worker:
        await wait_until(lambda: len(gate.runs) == 1)
        worker.runner.hanging.stop(gate.runs[0], "fenced")

        await wait_until(lambda: len(gate.runs) == 2)
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None)
