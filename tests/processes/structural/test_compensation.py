"""Compensations that a cancel, a scope, a restart and an operator meet half way: once each, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import psycopg
import pytest
from journeys import Trip, is_sound, saga

from mainspring import Mainspring, Outcome, Promise, first_of, gather, scope, sleep
from mainspring.errors import Refused
from mainspring.kernel.worker import Worker
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.testing import Clock, run_until_idle, wait_until
from visits import known_keys


@pytest.fixture
def trip(app: Mainspring) -> Trip:
    return Trip(app)


async def test_a_compensation_s_own_steps_are_not_undone_by_a_cancel(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: what undoes is kept as a whole: its steps that are done stay, and its scope still has a
    handler."""

    @trip.app.process
    def move(booked: Outcome[str]) -> Promise[str]:
        voucher = trip.step("voucher")
        with scope() as s:
            s.on_error(trip.apologise)
            s.returns(trip.book("mail", after=[voucher, trip.go.wait()]))
        return s.promise

    @trip.app.process
    def journey() -> Promise[str]:
        with scope() as s:
            hotel = trip.book("hotel")
            hotel.compensate(move, hotel)
            s.returns(trip.book("car", after=[hotel]))
        return s.promise

    trip.broken = {"car", "mail"}
    handle = await trip.started(journey)
    assert trip.ran == ["hotel", "voucher"]
    await handle.cancel()
    await run_until_idle(trip.app)
    await handle.signal(trip.go, True)
    await run_until_idle(trip.app)

    assert trip.ran == ["hotel", "voucher", "apologise"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_no_scope_ends_after_a_cancel_that_had_nothing_to_undo(
    trip: Trip, clock: Clock, mainspring_url: str
) -> None:
    """P15: while a compensation of before is kept, the timeout of another scope calls no handler."""

    @trip.app.process
    def journey() -> Promise[str]:
        with scope() as s:
            hotel = trip.step("hotel")
            s.returns(trip.book("car", after=[hotel]))
        with scope(timeout=timedelta(minutes=5)) as waiting:
            waiting.on_error(trip.apologise)
            waiting.returns(trip.conclude([], trip.go.wait()))
        return trip.conclude([s.promise, waiting.promise], True)

    trip.broken = {"car", "free hotel"}
    handle = await trip.started(journey)
    await handle.cancel()
    await run_until_idle(trip.app)
    await clock.advance(timedelta(minutes=6))
    await run_until_idle(trip.app)
    assert trip.ran == ["hotel"]

    trip.broken.clear()
    await trip.app.operator.processes.restart_tasks(TaskFilter(actor="free"))
    await run_until_idle(trip.app)
    assert trip.ran == ["hotel", "free hotel"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_scope_around_is_undone_after_the_one_in_it(
    trip: Trip, clock: Clock, mainspring_url: str
) -> None:
    """P15: a scope that runs out of time while one in it is being undone waits for that one's undo."""

    @trip.app.process
    def journey() -> Promise[str]:
        with scope(timeout=timedelta(minutes=5)) as around:
            around.on_error(trip.apologise)
            insured = trip.step("insurance")
            with scope() as inner:
                hotel = trip.step("hotel", insured)
                inner.returns(trip.book("car", after=[hotel]))
            around.returns(inner.promise)
        return around.promise

    trip.broken = {"car", "free hotel"}
    handle = await trip.started(journey)
    await clock.advance(timedelta(minutes=6))
    await run_until_idle(trip.app)
    assert trip.ran == ["insurance", "hotel"]

    trip.broken.clear()
    await trip.app.operator.processes.restart_tasks(TaskFilter(actor="free"))
    await run_until_idle(trip.app)
    assert trip.ran[2:] == ["free hotel", "free insurance", "apologise"]
    assert await handle.result(5) == "apologise"
    is_sound(mainspring_url)


async def test_a_compensation_that_is_given_up_stops_no_other(
    trip: Trip, mainspring_url: str
) -> None:
    """P9, P15: what was booked before it is freed all the same."""
    handle = await trip.started(saga(trip))
    trip.broken = {"free car"}
    await handle.cancel()
    await run_until_idle(trip.app)
    operator = trip.app.operator.processes
    [task] = [t.id for t in (await operator.graph(handle.id)).tasks if t.state == "parked"]
    await operator.fail(handle.id, task, "the car was stolen")
    await run_until_idle(trip.app)

    assert trip.ran == ["hotel", "car", "free hotel"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_restart_waits_until_what_it_redoes_is_undone(
    trip: Trip, mainspring_url: str
) -> None:
    """P12, P15: half undone, a restart would lose the rest: neither undone nor told of."""

    @trip.app.process
    def journey() -> Promise[str]:
        with scope() as s:
            s.on_error(trip.apologise)
            hotel = trip.step("hotel")
            s.returns(trip.book("car", after=[hotel]))
        return s.promise

    trip.broken = {"car", "free hotel"}
    handle = await trip.started(journey)
    operator = trip.app.operator.processes
    with pytest.raises(Refused, match="compensations of what would be redone have not ended"):
        await operator.restart(handle.id)

    trip.broken.clear()
    await operator.restart_tasks(TaskFilter(actor="free"))
    await run_until_idle(trip.app)
    assert trip.ran == ["hotel", "free hotel", "apologise"]
    await operator.restart(handle.id)
    await run_until_idle(trip.app)
    assert trip.ran[3:] == ["hotel", "car"]
    assert await handle.status() == "finished"
    is_sound(mainspring_url)


async def test_a_restart_from_before_a_scope_that_was_undone_is_refused(
    trip: Trip, mainspring_url: str
) -> None:
    """P12: what was undone is not redone by a restart of what it depends on, either."""

    @trip.app.process
    def journey() -> Promise[str]:
        insured = trip.book("insurance")
        with scope() as s:
            s.on_error(trip.apologise)
            hotel = trip.step("hotel", insured)
            s.returns(trip.book("car", after=[hotel]))
        return s.promise

    trip.broken = {"car"}
    handle = await trip.started(journey)
    assert await handle.result(5) == "apologise"
    trip.broken.clear()
    operator = trip.app.operator.processes
    first = next(t.id for t in (await operator.graph(handle.id)).tasks if t.actor == "book")
    with pytest.raises(
        Refused, match="lies in a scope that has failed and was undone: restart from"
    ):
        await operator.restart(handle.id, first)
    is_sound(mainspring_url)

    await operator.restart(handle.id)
    await run_until_idle(trip.app)
    assert trip.ran == [
        "insurance",
        "hotel",
        "free hotel",
        "apologise",
        "insurance",
        "hotel",
        "car",
    ]
    is_sound(mainspring_url)


async def test_a_step_that_waits_to_be_redone_is_undone(trip: Trip, mainspring_url: str) -> None:
    """P12, P15: it was done before the restart, and has not begun again when the cancel comes."""

    @trip.app.process
    def journey() -> Promise[str]:
        insured = trip.book("insurance")
        hotel = trip.step("hotel", insured)
        return trip.conclude([hotel], trip.go.wait())

    handle = await trip.started(journey)
    trip.broken = {"insurance"}
    operator = trip.app.operator.processes
    graph = await operator.graph(handle.id)
    first = next(t.id for t in graph.tasks if t.actor == "book")
    await operator.restart(handle.id, first)
    await run_until_idle(trip.app)
    await handle.cancel()
    await run_until_idle(trip.app)

    assert trip.ran == ["insurance", "hotel", "free hotel if booked"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_step_that_lost_a_race_is_undone_with_the_rest(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: it was called off, and may have had its effect."""

    @trip.app.process
    def journey() -> Promise[str]:
        slow = trip.step("train", trip.go.wait())
        fast = trip.step("plane")
        return trip.conclude([], trip.go.wait(), after=[first_of([fast, slow])])

    handle = await trip.started(journey)
    assert trip.ran == ["plane"]
    await handle.cancel()
    await run_until_idle(trip.app)

    assert trip.ran[1:] == ["free train if booked", "free plane"]
    is_sound(mainspring_url)


async def test_a_tree_that_is_cancelled_without_compensation_undoes_nothing(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: compensate=False goes down to the children of children, alone and together."""
    journey = saga(trip)

    @trip.app.process
    def tour(number: int) -> Promise[str]:
        return journey.child()

    @trip.app.process
    def season() -> Promise[list[str]]:
        return gather([tour.child(n) for n in range(4)])

    handle = await trip.started(season)
    await handle.cancel(compensate=False)
    await run_until_idle(trip.app)

    assert sorted(trip.ran) == ["car"] * 4 + ["hotel"] * 4
    found = await trip.app.operator.processes.search()
    assert [process.state for process in found] == ["cancelled"] * 9
    is_sound(mainspring_url)


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_step_that_waits_for_its_turn_does_not_begin_after_its_undo(
    trip: Trip, mainspring_url: str, is_read: bool
) -> None:
    """P15: a worker has it in hand, for its actor's limit, when the cancel comes: it is booked no more."""
    begun, over = asyncio.Event(), asyncio.Event()

    @trip.app.task(concurrency=1)
    async def reserve(what: str) -> str:
        if what == "first":
            begun.set()
            await over.wait()
        trip.ran.append(what)
        return what

    @trip.app.process
    def journey(what: str) -> Promise[str]:
        booked = reserve(what, after=[sleep(0), sleep(0)] if is_read else [])
        booked.compensate(trip.free, what, booked)
        return trip.conclude([booked], trip.go.wait())

    await journey.start("first")
    async with trip.app.worker(poll=0.1) as worker:
        await asyncio.wait_for(begun.wait(), 20)
        second = await journey.start("second")
        await wait_until(lambda: ("reserve", 2) in in_hand(worker), 20)
        await second.cancel()
        await wait_until(lambda: trip.ran == ["free second if booked"], 20)
        over.set()
        async with asyncio.timeout(20):
            await worker.drained()

    assert trip.ran == ["free second if booked", "first"]
    assert await second.status() == "cancelled"


def in_hand(worker: Worker) -> set[tuple[str, int]]:
    """How many visits of each queue the worker has, running or not."""
    return set(Counter(queue for queue, _ in known_keys(worker.buffer)).items())


async def test_a_parent_that_has_ended_is_not_told_of_its_children(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: it was cancelled with them; what its children undo afterwards concerns nobody."""
    journey = saga(trip)

    @trip.app.process
    def tour() -> Promise[str]:
        return journey.child()

    handle = await trip.started(tour)
    await handle.cancel()
    await run_until_idle(trip.app)

    assert trip.ran == ["hotel", "car", "free car", "free hotel"]
    with psycopg.connect(mainspring_url) as connection:
        told = "select key from mainspring.history where key like 'child/%'"
        assert connection.execute(told).fetchall() == []


async def test_of_two_cancels_at_once_one_undoes_and_the_other_is_refused(
    trip: Trip, mainspring_url: str
) -> None:
    """P13, P15: two operators, and the process's own handle."""
    handle = await trip.started(saga(trip))
    operator = trip.app.operator.processes
    await handle.cancel()
    answers = await asyncio.gather(
        operator.cancel(handle.id), operator.cancel(handle.id), return_exceptions=True
    )
    await run_until_idle(trip.app)

    assert sorted(type(answer).__name__ for answer in answers) == ["Answer", "Refused"]
    assert trip.ran == ["hotel", "car", "free car", "free hotel"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)
