"""Cancelling undoes what was done: in reverse, once, children too, whatever it meets half way (P15)."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from journeys import Trip, is_sound, saga

from mainspring import Mainspring, Outcome, ProcessFilter, Promise, gather, scope
from mainspring.errors import ProcessFailed, Refused
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.testing import run_until_idle


@pytest.fixture
def trip(app: Mainspring) -> Trip:
    return Trip(app)


async def test_a_cancel_undoes_what_was_done_in_reverse(trip: Trip, mainspring_url: str) -> None:
    """P15: what a saga booked is freed, newest first; no handler runs, and then it is cancelled."""
    handle = await trip.started(saga(trip))
    assert trip.ran == ["hotel", "car"]

    answer = await trip.app.operator.processes.cancel(handle.id)
    assert (answer.tasks, answer.compensations) == (3, 2)
    assert await handle.status() == "open"
    with pytest.raises(ProcessFailed, match="ProcessCancelled: cancelled"):
        await handle.result(5)
    await run_until_idle(trip.app)

    assert trip.ran == ["hotel", "car", "free car", "free hotel"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_cancel_undoes_nothing_when_it_is_told_not_to(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: compensate=False, by the handle and by an operation."""
    journey = saga(trip)
    handle = await trip.started(journey)
    await handle.cancel(compensate=False)
    await run_until_idle(trip.app)
    assert await handle.status() == "cancelled"

    other = await trip.started(journey)
    await trip.app.operator.processes.cancel_all(ProcessFilter(state="open"), compensate=False)
    await run_until_idle(trip.app)
    assert await other.status() == "cancelled"

    assert trip.ran == ["hotel", "car"] * 2
    is_sound(mainspring_url)


async def test_a_step_in_flight_may_have_had_its_effect_and_is_undone(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: what is handed out when the cancel comes is undone too; its undo copes with nothing to undo."""
    begun = asyncio.Event()

    @trip.app.task
    async def slow() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @trip.app.process
    def journey() -> Promise[str]:
        hotel = trip.step("hotel")
        going = slow(after=[hotel])
        going.compensate(trip.free, "slow", going)
        return going

    handle = await journey.start()
    async with trip.app.worker(poll=0.1) as worker:
        await asyncio.wait_for(begun.wait(), 20)
        await handle.cancel()
        async with asyncio.timeout(20):
            await worker.drained()

    assert trip.ran == ["hotel", "free slow if booked", "free hotel"]
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_scope_that_closed_is_kept_and_a_step_outside_of_any_is_undone(trip: Trip) -> None:
    """P15: a scope that closed has succeeded, unless one around it is open; without a scope the
    compensation is the process's own."""

    @trip.app.process
    def journey() -> Promise[str]:
        with scope() as first:
            first.returns(trip.step("train"))
        insured = trip.step("insurance", first.promise)
        with scope() as around:
            with scope() as inner:
                inner.returns(trip.step("hotel", insured))
            around.returns(trip.conclude([inner.promise], trip.go.wait()))
        return around.promise

    handle = await trip.started(journey)
    assert trip.ran == ["train", "insurance", "hotel"]
    await handle.cancel()
    await run_until_idle(trip.app)

    assert trip.ran[3:] == ["free hotel", "free insurance"]
    assert await handle.status() == "cancelled"


async def test_a_cancel_meets_a_scope_that_is_being_undone(trip: Trip, mainspring_url: str) -> None:
    """P15: the undo that is under way goes on, once; what was done before that scope is undone after it."""

    @trip.app.process
    def journey() -> Promise[str]:
        insured = trip.step("insurance")
        with scope() as s:
            s.on_error(trip.apologise)
            hotel = trip.step("hotel", insured)
            s.returns(trip.book("car", after=[hotel]))
        return s.promise

    trip.broken = {"car", "free hotel"}
    handle = await trip.started(journey)
    assert trip.ran == ["insurance", "hotel"]

    await handle.cancel()
    await run_until_idle(trip.app)
    assert trip.ran == ["insurance", "hotel"]
    assert await handle.status() == "open"

    trip.broken.clear()
    await trip.app.operator.processes.restart_tasks(TaskFilter(actor="free"))
    await run_until_idle(trip.app)
    assert trip.ran == ["insurance", "hotel", "free hotel", "free insurance"]  # and no apology
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)


async def test_a_parked_compensation_waits_for_an_operator(trip: Trip, mainspring_url: str) -> None:
    """P9, P15: the process is open until its compensations have ended; a second cancel is refused, and
    one without compensation gives them up."""
    handle = await trip.started(saga(trip))
    trip.broken = {"free car"}
    await handle.cancel()
    await run_until_idle(trip.app)
    operator = trip.app.operator.processes

    assert trip.ran == ["hotel", "car"]
    names = [cause.name for cause in (await operator.why(handle.id)).causes]
    assert (names[0], names[-1]) == ("cancelling", "parked_task")
    with pytest.raises(
        Refused, match=r"is being cancelled and its compensations run; to give them"
    ):
        await operator.cancel(handle.id)
    with pytest.raises(Refused, match="restart it when they have ended"):
        await operator.restart(handle.id)

    await operator.cancel(handle.id, compensate=False)
    assert await handle.status() == "cancelled"
    is_sound(mainspring_url)

    trip.broken.clear()
    await operator.restart(handle.id)
    await run_until_idle(trip.app)
    assert trip.ran == ["hotel", "car"] * 2
    assert await handle.status() == "open"
    await handle.signal(trip.go, True)
    await run_until_idle(trip.app)
    assert await handle.status() == "finished"


async def test_children_undo_what_they_did_when_their_parent_is_cancelled(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: a cancel goes down to the children of children, and each undoes what is its own."""
    journey = saga(trip)

    @trip.app.process
    def tour() -> Promise[str]:
        bus = trip.step("bus")
        return journey.child(after=[bus])

    @trip.app.process
    def season() -> Promise[str]:
        return tour.child()

    handle = await trip.started(season)
    await handle.cancel()
    await run_until_idle(trip.app)

    assert sorted(trip.ran[3:]) == ["free bus", "free car", "free hotel"]
    assert trip.ran.index("free car") < trip.ran.index("free hotel")
    found = await trip.app.operator.processes.search()
    assert {process.state for process in found} == {"cancelled"}
    is_sound(mainspring_url)


async def test_a_compensation_of_several_steps_is_not_cut_short(trip: Trip) -> None:
    """P15: an undo may be a decider; a cancel that comes while its steps run leaves them alone."""

    @trip.app.process
    def free_all(booked: Outcome[str]) -> Promise[str]:
        return trip.conclude([], trip.go.wait())

    @trip.app.process
    def journey() -> Promise[str]:
        with scope() as s:
            hotel = trip.book("hotel")
            hotel.compensate(free_all, hotel)
            s.returns(trip.book("car", after=[hotel]))
        return s.promise

    trip.broken = {"car"}
    handle = await trip.started(journey)
    await handle.cancel()
    await run_until_idle(trip.app)
    assert await handle.status() == "open"

    await handle.signal(trip.go, True)
    await run_until_idle(trip.app)
    assert trip.ran == ["hotel", "conclude"]
    assert await handle.status() == "cancelled"


async def test_a_wide_tree_is_cancelled_together_and_what_has_an_undo_alone(
    trip: Trip, mainspring_url: str
) -> None:
    """P15: each process of a tree is cancelled once, with its children, whoever it was done with."""
    journey = saga(trip)

    @trip.app.process
    def leaf(number: int) -> Promise[bool]:
        return trip.go.wait()

    @trip.app.process
    def branch(number: int) -> Promise[list[bool]]:
        return gather([leaf.child(n) for n in range(6)])

    @trip.app.process
    def tree() -> Promise[list[Any]]:
        return gather([journey.child(), *(branch.child(n) for n in range(6)), journey.child()])

    handle = await trip.started(tree)
    await handle.cancel()
    await run_until_idle(trip.app)

    found = await trip.app.operator.processes.search(limit=100)
    assert [process.state for process in found] == ["cancelled"] * (1 + 2 + 6 + 36)
    assert sorted(trip.ran[4:]) == ["free car"] * 2 + ["free hotel"] * 2
    is_sound(mainspring_url)
    with psycopg.connect(mainspring_url) as connection:
        rows = connection.execute(
            "select count(*), count(distinct payload ->> '@') from mainspring.history"
            " where key like 'cancel/%' and outcome = 'done'"
        ).fetchall()
        done = connection.execute("select xmin::text from mainspring.process").fetchall()
    assert rows == [(45, 45)]
    assert len(set(done)) <= 20  # transactions
