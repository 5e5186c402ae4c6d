"""Background work: what an operator or a caller puts behind live work stays behind it to its end."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from mainspring import (
    First,
    Mainspring,
    Outcome,
    Promise,
    RetryPolicy,
    first_of,
    gather,
    sleep,
)
from mainspring.processes.operate.bulk import LOW_PRIORITY, TaskFilter
from mainspring.testing import Clock, run_until_idle

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def trip(app: Mainspring) -> Mainspring:
    """A process whose first step is a decider that can be made to fail."""
    app.mended = False  # type: ignore[attr-defined]

    @app.task
    def seat(n: int) -> int:
        return n

    @app.task
    def sum_up(seats: list[int]) -> int:
        return sum(seats)

    @app.process(retry=ONCE)
    def book(seats: int) -> Promise[int]:
        if not app.mended:  # type: ignore[attr-defined]
            raise ConnectionError("the airline is closed")
        return sum_up(gather(*[seat(n) for n in range(seats)]))

    @app.task
    def note(total: int) -> int:
        return total

    @app.task
    def tell(total: int) -> int:
        return total

    @app.process
    def travel() -> Promise[int]:
        return tell(note.options(priority=7)(book(3)))

    return app


def priorities(url: str) -> dict[str, set[int]]:
    """At which priorities the steps ran that succeeded."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select queue, array_agg(priority::integer) from mainspring.history"
            " where outcome = 'done' and queue not like 'mainspring.%' group by queue"
        ).fetchall()
    return {queue: set(found) for queue, found in rows}


async def test_all_that_a_mass_restart_sets_in_motion_gives_way(
    trip: Mainspring, database_url: str
) -> None:
    """P10: restarts go behind live work, and so do the tasks that they make or release."""
    handle = await trip.processes["travel"].start()
    await run_until_idle(trip)
    trip.mended = True  # type: ignore[attr-defined]

    await trip.operator.processes.restart_tasks(TaskFilter(actor="book"))
    await run_until_idle(trip)

    assert await handle.result(5) == 3
    low = {LOW_PRIORITY}
    assert priorities(database_url) == {
        "travel": {5}, "book": low, "seat": low, "sum_up": low,
        "note": {7},  # its call says so
        "tell": {5},  # it follows from a step that did not give way
    }  # fmt: skip


async def test_a_restart_of_the_usual_priority_hands_nothing_on(
    trip: Mainspring, database_url: str
) -> None:
    """P10: with a priority, as the operator says."""
    handle = await trip.processes["travel"].start()
    await run_until_idle(trip)
    trip.mended = True  # type: ignore[attr-defined]

    await trip.operator.processes.restart_tasks(TaskFilter(actor="book"), priority=4)
    await run_until_idle(trip)

    assert await handle.result(5) == 3
    found = priorities(database_url)
    assert (found["book"], found["seat"], found["sum_up"]) == ({4}, {5}, {5})


async def test_a_step_that_its_call_puts_back_puts_nobody_else_back(
    app: Mainspring, database_url: str
) -> None:
    """P15: the priority of a call is that of its task alone; that of a start is the process's."""

    @app.task
    def slow(n: int) -> int:
        return n

    @app.task
    def after(n: int) -> int:
        return n

    @app.process
    def mixed() -> Promise[int]:
        return after(slow.options(priority=1)(1))

    @app.process
    def usual() -> Promise[int]:
        return after(slow(1))

    await mixed.start()
    await run_until_idle(app)
    assert priorities(database_url) == {"mixed": {5}, "slow": {1}, "after": {5}}

    await usual.options(priority=0).start()
    await run_until_idle(app)
    assert priorities(database_url) == {
        "mixed": {5}, "usual": {0}, "slow": {0, 1}, "after": {0, 5},
    }  # fmt: skip


async def test_a_restart_gives_way_after_timers_races_and_actors_elsewhere_too(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P10: what a timer, the first of several or an actor elsewhere releases is still of the restart."""
    is_mended = False
    seat = app.signal("seat", str)

    @app.task(remote=True)
    def scan(page: int) -> int:
        raise NotImplementedError

    @app.task
    def slept(_: None) -> int:
        return 1

    @app.task
    def raced(won: First[int]) -> int:
        return won.value

    @app.task
    def scanned(pages: int) -> int:
        return pages

    @app.task
    def missed(answer: Outcome[str]) -> int:
        return int(answer.failed)

    @app.task
    def quick(n: int) -> int:
        return n

    @app.task
    def total(parts: list[int]) -> int:
        return sum(parts)

    @app.process(retry=ONCE)
    def book() -> Promise[int]:
        if not is_mended:
            raise ConnectionError("the airline is closed")
        race = first_of(quick(10), slept(sleep(3600)))
        late = missed(seat.wait(timeout=timedelta(seconds=60)))
        return total([slept(sleep(60)), raced(race), scanned(scan(100)), late])

    handle = await book.start()
    await run_until_idle(app)
    is_mended = True
    await app.operator.processes.restart_tasks(TaskFilter(actor="book"))
    await run_until_idle(app)
    [task] = await app.remote.pull("scan")
    await app.remote.complete(task.ticket, 100)
    await clock.advance(61)
    await run_until_idle(app)

    assert await handle.result(5) == 112
    found = priorities(database_url)
    names = ("book", "quick", "slept", "raced", "scanned", "missed", "total")
    assert {name: found[name] for name in names} == {name: {LOW_PRIORITY} for name in names}
