"""Background priorities give way while other work is about (T4, P10, S18)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.kernel.read import background as lane
from mainspring.kernel.read.background import (
    ABOUT_SECONDS,
    BURST,
    LONGEST_BURST,
    LONGEST_COUNTED,
    RESTS,
    RESTS_OPERATING,
    Background,
)
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge, working


def busy() -> Background:
    """With other work read at 100 s, and a burst sent for at the same moment."""
    low = Background()
    low.met(100.0)
    low.burst(100.0)
    return low


def opens_at(
    low: Background,
    now: float,
    *,
    waiting: bool = False,
    unsettled: int = 0,
    operating: bool = False,
) -> float:
    return low.opens_at(now, waiting=waiting, unsettled=unsettled, operating=operating)


def test_alone_it_is_open_whatever_is_under_way() -> None:
    low = Background()
    low.burst(100.0)

    assert not low.gives_way(100.0)
    assert opens_at(low, 100.0, waiting=True, unsettled=1000) == 100.0


def test_a_burst_is_settled_and_rested_from_before_the_next() -> None:
    """P10: a few times as long as it took."""
    low = busy()

    assert opens_at(low, 100.01, waiting=True) > 100.01
    assert opens_at(low, 100.01, unsettled=BURST) > 100.01
    opens = 100.02 + RESTS * 0.02
    assert opens_at(low, 100.02) == pytest.approx(opens)
    assert opens_at(low, 100.03) == pytest.approx(opens)
    assert opens_at(low, opens + 0.01) == opens + 0.01


def test_beside_an_operation_it_rests_longer() -> None:
    """P10: both take the server's time."""
    low = busy()

    assert opens_at(low, 100.02, operating=True) == pytest.approx(100.02 + RESTS_OPERATING * 0.02)
    assert RESTS_OPERATING * LONGEST_COUNTED <= LONGEST_BURST  # and is not starved by it


def test_a_few_that_are_not_settled_keep_nobody_back() -> None:
    """Somebody may have locked them for long."""
    low = busy()

    opens = opens_at(low, 100.01, unsettled=lane.FEW_UNSETTLED)

    assert opens == pytest.approx(100.01 + RESTS * 0.01)


def test_it_is_not_starved_by_a_burst_that_does_not_end() -> None:
    """S18: nor by a long rest after it."""
    low = busy()
    low.met(100.9)

    assert opens_at(low, 100.99, waiting=True) <= 100 + LONGEST_BURST
    assert opens_at(low, 101.0, waiting=True) == pytest.approx(101 + RESTS * LONGEST_COUNTED)


def test_it_is_open_a_moment_after_other_work_was_last_read() -> None:
    low = busy()
    now = 100.0 + ABOUT_SECONDS

    assert opens_at(low, now, waiting=True, unsettled=BURST) == now


async def test_low_priorities_are_read_by_bursts_while_other_work_is_about(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10: and nothing of them is forgotten."""
    monkeypatch.setattr(lane, "ABOUT_SECONDS", 1000.0)
    monkeypatch.setattr(lane, "LONGEST_BURST", 1000.0)
    monkeypatch.setattr("mainspring.kernel.read.reader.QUICK_SECONDS", 1000.0)
    gate = Gate()
    async with working(database_url, queue(handler=gate), lease=60.0, concurrency=500):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*(f"low {n:03}" for n in range(300)), priority=1)
        await wait_until(lambda: len(gate.runs) == 1 + BURST)
        visits.offer("live too")
        await wait_until(lambda: "live too" in gate.keys)  # it was read after the burst
        started = len(gate.runs)

        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 302, 15)

    assert started == 2 + BURST
    assert len(set(gate.ended)) == 302


async def test_other_priorities_do_not_give_way(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 and 4 are only behind 5."""
    monkeypatch.setattr(lane, "ABOUT_SECONDS", 1000.0)
    monkeypatch.setattr(Background, "opens_at", lambda *_, **__: math.inf)
    gate = Gate()
    queues = [queue(handler=gate), queue("behind", handler=gate)]
    async with working(database_url, *queues, lease=60.0, concurrency=500):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        keys = [f"low {n:03}" for n in range(3 * BURST)]
        visits.offer(*keys, queue="behind", priority=lane.BACKGROUND_BELOW)

        await wait_until(lambda: len(gate.runs) == 1 + 3 * BURST, 15)

        gate.open.set()


async def test_a_share_of_the_starts_is_had_in_a_closed_lane_and_no_more(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18: live work keeps its latency beside a crawl, and the crawl keeps its share."""
    monkeypatch.setattr(lane, "ABOUT_SECONDS", 1000.0)
    monkeypatch.setattr(Background, "opens_at", lambda *_, **__: math.inf)
    gate = Gate()
    queues = [queue(handler=gate), queue("behind", handler=gate, share=0.5)]
    crawled = [f"low {n:03}" for n in range(5 * BURST)]
    async with working(database_url, *queues, lease=60.0, concurrency=1000):
        visits.offer("first")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*crawled, queue="behind", priority=1)
        visits.offer(*(f"live {n:03}" for n in range(100)))
        await wait_until(lambda: len(gate.runs) >= 101 + 50, 15)
        visits.offer("last")  # it is read later than they are
        await wait_until(lambda: any(run.visit.key == "last" for run in gate.runs))

        behind = sum(run.visit.queue == "behind" for run in gate.runs)
        assert 50 <= behind <= 50 + BURST  # by bursts

        gate.open.set()


async def test_runs_that_wait_do_not_keep_low_priorities_back(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18: slots are filled, though no run of the first burst has ended."""
    monkeypatch.setattr(lane, "ABOUT_SECONDS", 1000.0)
    gate = Gate()
    async with working(database_url, queue(handler=gate), lease=60.0, concurrency=3 * BURST):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*(f"low {n:03}" for n in range(3 * BURST)), priority=1)
        await wait_until(lambda: len(gate.runs) == 3 * BURST, 15)
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 1 + 3 * BURST, 15)


async def test_results_that_wait_to_be_written_leave_less_room_for_what_a_commit_adds(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P15: a fan-out's tasks do not wait in memory as a whole, run and not yet written."""
    monkeypatch.setattr("mainspring.kernel.worker.TAKEN_IN", 5)
    gate = Gate()
    async with working(database_url, queue(handler=gate), lease=60.0, concurrency=1) as worker:
        visits.offer("running")
        await wait_until(lambda: len(gate.runs) == 1)
        read = gate.runs[0].visit
        worker.settler.unsettled = 3
        worker.take_in([replace(read, key=f"made {n}", version=n) for n in range(4)])
        waiting = worker.buffer.size
        worker.settler.unsettled = 0
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 1 + waiting)

    assert waiting == 2


async def test_a_worker_knows_when_an_operation_is_under_way(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10: the rests beside it are longer."""
    monkeypatch.setattr(lane, "ABOUT_SECONDS", 1000.0)
    told: list[bool] = []
    opens = Background.opens_at

    def telling(self: Background, now: float, *, operating: bool, **rest: Any) -> float:
        told.append(operating)
        return opens(self, now, operating=operating, **rest)

    monkeypatch.setattr(Background, "opens_at", telling)
    gate = Gate()
    operations = queue("op", handler=gate, kind="operation", beside=True)
    async with working(database_url, queue(handler=Gauge(seconds=0)), operations, lease=60.0):
        visits.offer("live")
        visits.offer("low", priority=1)
        await wait_until(lambda: False in told)
        assert True not in told

        visits.offer("operation", queue="op")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer("low too", priority=1)
        await wait_until(lambda: True in told)
        gate.open.set()
