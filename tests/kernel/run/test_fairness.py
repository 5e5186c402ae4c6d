"""Fairness: background priorities give way while other work is about (T4, P10, S18)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from mainspring.kernel.run.fairness import BACKGROUND_BELOW, Fairness
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.tuning import Tuning
from mainspring.testing import wait_until
from visits import Visits, queue, run_of, visit
from workers import Gate, working

TUNING = Tuning()
ALWAYS = Tuning(live=1000.0)


QUEUE, CRAWL = QueueState(queue()), QueueState(queue("crawl", share=0.5))


def fairness(slots: int = 8) -> Fairness:
    """With other work read at 100 s: two background visits may be under way."""
    found = Fairness([QUEUE, CRAWL], slots, TUNING)
    found.met(100.0)
    return found


def start(found: Fairness, version: int, now: float, queue: QueueState = QUEUE) -> None:
    found.started(visit("a", version=version, priority=1), queue, now)


def test_few_background_starts_are_unsettled_at_a_time() -> None:
    found = fairness()
    for version in (1, 2):
        assert found.opens_at(100.0) == 100.0
        start(found, version, 100.0)

    assert found.opens_at(100.01) > 100.01
    assert found.settled([run_of(visit("a", version=1))])
    assert found.opens_at(100.01) == 100.01


def test_one_may_start_however_few_slots_there_are() -> None:
    assert fairness(slots=1).opens_at(100.0) == 100.0


def test_a_start_that_lasts_keeps_no_other_back() -> None:
    """S18: it waits for something, or somebody has locked it: slots are filled all the same."""
    found = fairness()
    start(found, 1, 100.0)
    start(found, 2, 100.02)

    opens_at = found.opens_at(100.03)

    assert opens_at == pytest.approx(100.0 + TUNING.background_start)
    assert found.opens_at(opens_at) == opens_at


def test_alone_background_work_does_not_give_way() -> None:
    found = fairness()
    late = 100.0 + TUNING.live
    for version in range(10):
        start(found, version, late)

    assert found.opens_at(late) == late
    assert not found.settled([run_of(visit("a", version=1))])


def test_a_start_that_was_owed_keeps_no_other_back() -> None:
    """A crawl that always has its share would else let no other background work start."""
    found = fairness()
    for version in range(100):
        found.started(visit("live"), QUEUE, 100.0)
        if found.owes:
            start(found, version, 100.0, CRAWL)

    assert found.opens_at(100.0) == 100.0


def test_the_heart_may_ask_while_visits_start() -> None:
    """It asks from its own thread how many visits wait: nothing is changed by that."""
    found = fairness(slots=4_000)
    stop = threading.Event()
    with ThreadPoolExecutor(1) as heart:
        asked = heart.submit(lambda: [found.opens_at(100.0) for _ in iter(stop.is_set, True)])
        for version in range(20_000):
            start(found, version, 100.0)
            if version >= 500:
                found.settled([run_of(visit("a", version=version - 500))])
        stop.set()

    assert asked.result()


def test_shares_have_at_least_theirs_of_the_starts() -> None:
    """S18: a quarter of the starts is one of four, not one of five."""
    crawl = QueueState(queue("crawl", share=0.25))
    found = Fairness([QUEUE, crawl], 8, TUNING)
    of_crawl = 0
    for _ in range(100):
        chosen = crawl if found.owes else QUEUE
        of_crawl += chosen is crawl
        found.count_start(chosen)

    assert of_crawl == 24  # the first is earned by four


def test_a_small_share_is_had_beside_a_great_one_that_is_full() -> None:
    """S18: the crawl of one kind keeps the crawl of another from nothing but its part."""
    great, small = (QueueState(queue(name, share=s)) for name, s in (("a", 0.5), ("b", 0.25)))
    found = Fairness([great, small], 8, TUNING)
    for _ in range(3):
        great.began()
    assert (found.is_crowded(great), found.is_crowded(small)) == (False, False)
    small.began()
    assert (found.is_crowded(great), found.is_crowded(small)) == (True, True)
    great.ended()
    assert (found.is_crowded(great), found.is_crowded(small)) == (False, False)
    small.began()
    small.began()
    great.ended()
    assert (found.is_crowded(great), found.is_crowded(small)) == (True, True)


async def test_background_visits_give_way_while_other_work_is_about(
    visits: Visits, database_url: str
) -> None:
    """P10: and nothing of them is forgotten, though slots are free."""
    tuning = Tuning(live=1000.0, background_start=1000.0)
    gate = Gate()
    async with working(
        database_url, queue(handler=gate), lease=60.0, concurrency=40, tuning=tuning
    ):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*(f"low {n:03}" for n in range(300)), priority=1)
        await wait_until(lambda: len(gate.runs) == 1 + 10)
        visits.offer("live too")
        await wait_until(lambda: "live too" in gate.keys)
        started = len(gate.runs)

        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 302, 15)

    assert started == 12
    assert len(set(gate.ended)) == 302


async def test_other_priorities_do_not_give_way(visits: Visits, database_url: str) -> None:
    """3 and 4 are only behind 5."""
    tuning = Tuning(live=1000.0, background_start=1000.0)
    gate = Gate()
    queues = [queue(handler=gate), queue("behind", handler=gate)]
    async with working(database_url, *queues, lease=60.0, concurrency=500, tuning=tuning):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        keys = [f"low {n:03}" for n in range(150)]
        visits.offer(*keys, queue="behind", priority=BACKGROUND_BELOW)

        await wait_until(lambda: len(gate.runs) == 151, 15)

        gate.open.set()


async def test_a_share_of_the_starts_is_had_all_the_same_and_no_more(
    visits: Visits, database_url: str
) -> None:
    """S18: live work keeps its latency beside a crawl, and the crawl keeps its share."""
    tuning = Tuning(live=1000.0, background_start=1000.0)
    gate = Gate()
    queues = [queue(handler=gate), queue("behind", handler=gate, share=0.5)]
    async with working(database_url, *queues, lease=60.0, concurrency=250, tuning=tuning):
        visits.offer("first")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*(f"low {n:03}" for n in range(240)), queue="behind", priority=1)
        few = 250 // tuning.background_part
        await wait_until(lambda: len(gate.runs) == 1 + few)
        for n in range(50):
            visits.offer(f"live {n:03}")
        await wait_until(lambda: len(gate.runs) >= 51 + few + 45, 15)
        await wait_until(lambda: "live 049" in gate.keys)

        behind = sum(run.visit.queue == "behind" for run in gate.runs)
        assert few + 45 <= behind <= few + 52

        gate.open.set()


async def test_runs_that_wait_do_not_keep_background_visits_back(
    visits: Visits, database_url: str
) -> None:
    """S18: slots are filled, though no run of the first ones has ended."""
    gate = Gate()
    async with working(
        database_url, queue(handler=gate), lease=60.0, concurrency=100, tuning=ALWAYS
    ):
        visits.offer("live")
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer(*(f"low {n:03}" for n in range(100)), priority=1)
        await wait_until(lambda: len(gate.runs) == 100, 15)
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 101, 15)


async def test_results_that_wait_to_be_written_leave_less_room_for_what_a_commit_adds(
    visits: Visits, database_url: str
) -> None:
    """P15: a fan-out's tasks do not wait in memory as a whole, run and not yet written."""
    gate = Gate()
    alone = {"lease": 60.0, "concurrency": 1, "tuning": Tuning(taken_in=5)}
    async with working(database_url, queue(handler=gate), **alone) as worker:
        visits.offer("running")
        await wait_until(lambda: len(gate.runs) == 1)
        read = gate.runs[0].visit
        worker.settler.unsettled = 3
        worker.port.take_in([replace(read, key=f"made {n}", version=n) for n in range(4)])
        waiting = worker.buffer.size
        worker.settler.unsettled = 0
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 1 + waiting)

    assert waiting == 2
