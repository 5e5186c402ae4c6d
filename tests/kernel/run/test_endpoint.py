"""Queues that need somebody elsewhere: slots of their own, an endpoint that is away, visits put off."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.endpoint import Endpoint
from mainspring.errors import EndpointAway, InvalidSetting
from mainspring.kernel import Done, Outcome, Parked, Postponed, Retry, Run
from mainspring.kernel.run.queue import QueueState
from mainspring.testing import Clock, wait_until
from visits import Visits, queue
from workers import Gate, working


async def done(_: Run) -> Outcome:
    return Done()


async def test_runs_in_slots_of_their_own_leave_the_others_to_the_worker(
    visits: Visits, database_url: str
) -> None:
    """S2: twenty runs that wait for somebody take none of the worker's two slots."""
    waiting = Gate()
    apart = queue("apart", handler=waiting, slots=20)
    for n in range(20):
        visits.offer(f"w{n}", queue="apart")
    async with working(database_url, apart, queue(handler=done), concurrency=2) as worker:
        await wait_until(lambda: len(waiting.runs) == 20)
        assert worker.runner.free == 2
        visits.offer("a")
        await wait_until(lambda: visits.row("a") is None)
        waiting.open.set()
        await wait_until(lambda: visits.row("w19", queue="apart") is None)


async def test_a_queue_has_no_more_runs_than_slots_of_its_own(
    visits: Visits, database_url: str
) -> None:
    waiting = Gate()
    for n in range(7):
        visits.offer(f"w{n}", queue="apart")
    async with working(database_url, queue("apart", handler=waiting, slots=3)) as worker:
        await wait_until(lambda: worker.buffer.size == 4)
        assert len(waiting.runs) == 3
        waiting.open.set()
        await wait_until(lambda: len(waiting.ended) == 7)


async def test_a_worker_full_of_long_runs_starts_those_with_slots_of_their_own(
    visits: Visits, database_url: str
) -> None:
    long = Gate()
    visits.offer("long")
    async with working(
        database_url, queue(handler=long), queue("apart", handler=done, slots=2), concurrency=1
    ):
        await wait_until(lambda: len(long.runs) == 1)
        visits.offer("w", queue="apart")
        await wait_until(lambda: visits.row("w", queue="apart") is None)
        long.open.set()


async def test_a_timeout_within_a_handler_ends_its_own_run(
    visits: Visits, database_url: str
) -> None:
    """A handler's own deadline belongs to the task that it began in, so that must stay its task."""
    ended: list[str] = []

    async def patient(run: Run) -> Outcome:
        try:
            async with asyncio.timeout(0.05):
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append(run.visit.key)
        return Done()

    for n in range(5):
        visits.offer(f"w{n}", queue="apart")
    async with working(database_url, queue("apart", handler=patient, slots=5)):
        await wait_until(lambda: len(ended) == 5)


async def test_the_log_says_once_that_an_endpoint_is_away_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S10: however many runs find it so; of whom is not said twice."""

    async def probe() -> None:
        raise EndpointAway("connection refused")

    caplog.set_level("INFO", "mainspring")
    endpoint = Endpoint("photos", probe)
    for _ in range(3):
        endpoint.left(EndpointAway("photos: connection refused"))
    shown = endpoint.shown()
    assert shown is not None
    assert shown["reason"] == "connection refused"
    endpoint.back()
    endpoint.left(EndpointAway("photos: again"))  # back only in its own opinion
    endpoint.back()
    for _ in range(3):
        endpoint.succeeded()
    await endpoint.close()
    away, again = [record.getMessage() for record in caplog.records]
    assert away == "endpoint.away endpoint=photos reason=connection refused"
    assert again.startswith("endpoint.back endpoint=photos seconds=")


async def test_nothing_starts_while_its_endpoint_is_away(visits: Visits, database_url: str) -> None:
    """S10: it is one fact, so no visit is started, settled or counted; all run when it is back."""
    back = asyncio.Event()

    async def probe() -> None:
        if not back.is_set():
            raise EndpointAway("connection refused")

    endpoint = Endpoint("photos", probe)
    endpoint.left(EndpointAway("connection refused"))
    ran: list[str] = []

    async def handle(run: Run) -> Outcome:
        ran.append(run.visit.key)
        endpoint.succeeded()
        return Done()

    for n in range(50):
        visits.offer(f"w{n}", queue="apart")
    before = [visits.row(f"w{n}", queue="apart") for n in range(50)]
    apart = queue("apart", handler=handle, endpoint=endpoint, slots=8)
    async with working(database_url, apart, queue(handler=done)) as worker:
        passes = worker.reader.intake.passes
        await wait_until(lambda: worker.reader.intake.passes > passes + 2, 30)
        visits.offer("other")
        await wait_until(lambda: visits.row("other") is None)
        assert ran == []
        assert [visits.row(f"w{n}", queue="apart") for n in range(50)] == before

        back.set()
        await wait_until(lambda: len(ran) == 50, 30)
    await endpoint.close()


async def test_what_is_postponed_keeps_its_attempts_and_deaths(
    visits: Visits, database_url: str
) -> None:
    """It was not tried: Again would forget failures, Retry would count one more."""
    worker_id = visits.join()
    visits.offer("a")
    visits.settle(worker_id, (visits.start("a"), Retry(after=0, error_type="E", error="no")))
    visits.query("update mainspring.visit set crashes = 1")
    visits.settle(worker_id, (visits.start("a"), Postponed(after=60, error="photos is away")))

    row = visits.row("a")
    assert (row["attempt"], row["crashes"], row["parked_at"]) == (1, 1, None)
    assert row["error"] == "photos is away"
    assert 55 < (row["due_at"] - visits.now()).total_seconds() <= 60
    assert [h["outcome"] for h in visits.query("select outcome from mainspring.history")] == [
        "retry"
    ]


async def test_an_endpoint_that_breaks_with_one_visit_parks_it_at_the_limit(
    visits: Visits, database_url: str
) -> None:
    """A poison entity would else break its service for ever, and never be parked."""
    visits.register(queue(crash_limit=2))
    worker_id = visits.join()
    visits.offer("a")
    broke = Postponed(after=0, error="photos broke", crash=True)
    visits.settle(worker_id, (visits.start("a"), broke))
    assert (visits.row("a")["crashes"], visits.row("a")["parked_at"]) == (1, None)
    visits.settle(worker_id, (visits.start("a"), broke))
    row = visits.row("a")
    assert (row["crashes"], row["attempt"], row["error"]) == (2, 0, "photos broke")
    assert row["parked_at"] is not None


async def test_a_postponed_settle_that_is_sent_twice_changes_nothing_more(visits: Visits) -> None:
    worker_id = visits.join()
    visits.offer("a")
    run = visits.start("a")
    broke = Postponed(after=0, error="photos broke", crash=True)
    assert visits.settle(worker_id, (run, broke)) == ["settled"]
    row = visits.row("a")
    assert visits.settle(worker_id, (run, broke)) == ["settled"]
    assert visits.row("a") == row


async def test_a_postponed_visit_is_tried_again_in_time(
    visits: Visits, database_url: str, clock: Clock
) -> None:
    outcomes: list[Outcome] = [Postponed(after=300, error="away"), Parked("E", "no")]

    async def handle(run: Run) -> Outcome:
        return outcomes.pop(0)

    visits.offer("a")
    async with working(database_url, queue(handler=handle)):
        await wait_until(lambda: visits.row("a")["error"] == "away")
        await clock.advance(301)
        await wait_until(lambda: visits.row("a")["parked_at"] is not None)
    assert visits.row("a")["attempt"] == 1


@pytest.mark.parametrize("slots", [0, -1, 1.5, True])
def test_slots_must_be_a_number_of_runs(slots: object) -> None:
    with pytest.raises(InvalidSetting, match="slots must be"):
        queue(slots=slots)


async def test_an_endpoint_that_is_back_gets_one_run_first_and_then_more() -> None:
    """A service that has just come up is not met by everything at once."""
    opened = asyncio.Event()

    async def probe() -> None:
        return

    endpoint = Endpoint("photos", probe)
    endpoint.when_back(opened.set)
    endpoint.left(EndpointAway("refused"))
    one, other = (QueueState(queue(name, endpoint=endpoint)) for name in "ab")
    assert not endpoint.has_room
    await opened.wait()
    assert endpoint.has_room
    one.began()
    assert not endpoint.has_room  # for the other queue neither
    endpoint.succeeded()
    assert endpoint.has_room
    other.began()
    assert not endpoint.has_room
    for _ in range(8):
        endpoint.succeeded()
    for _ in range(1000):
        one.began()
    assert endpoint.has_room
    await endpoint.close()
