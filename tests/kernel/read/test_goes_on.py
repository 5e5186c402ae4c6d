"""A visit that goes on after its run is read again, and nothing else is for its sake."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring import clock
from mainspring.db.database import Database
from mainspring.kernel.outcome import Again, Done, Outcome, Retry
from mainspring.kernel.run.queue import Cursor
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.visit import Run, instant
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import Visits, queue, visit
from workers import working

HOUR = 3600.0
FAILED = Retry(after=0, error_type="E", error="no")
PASSED = 9e9  # where a cursor stands that has passed whatever is meant


def worker_of(url: str) -> Worker:
    return Worker(Database(url), [queue()], WorkerSettings())


def ended(worker: Worker, outcome: Outcome, *, waited: float = 0.0) -> Run:
    """A run that began two seconds ago and took one, of a visit that was due so long before."""
    began = clock.local() - 2
    started = worker.owned.time.at(began)
    due = visit("a", due=started - waited)
    return Run(due, 1, started, began, seconds=1.0, outcome=outcome)


def cursor_at(worker: Worker, due: float) -> Cursor:
    cursor = worker.reader.intake.levels["ring"][5]
    cursor.position, cursor.more = (due, "z"), False
    return cursor


@pytest.mark.parametrize("outcome", [FAILED, Again(), Again(at=instant(0.0))])
async def test_a_backlog_is_not_read_again_for_one_that_goes_on_at_once(
    database_url: str, outcome: Outcome
) -> None:
    """It is due by the settle's time now, behind all that was due when it was read."""
    worker = worker_of(database_url)
    run = ended(worker, outcome, waited=HOUR)
    cursor = cursor_at(worker, run.started - HOUR / 2)

    worker._settled([run], "settled")

    assert cursor.more
    assert cursor.position == (run.started - HOUR / 2, "z")


@pytest.mark.parametrize("outcome", [FAILED, Again(), Again(at=instant(0.0))])
async def test_one_that_goes_on_at_once_is_read_from_the_end_of_its_run_on(
    database_url: str, outcome: Outcome
) -> None:
    """Its settle came to the server some time after that, and a read has passed it since."""
    worker = worker_of(database_url)
    run = ended(worker, outcome)
    cursor = cursor_at(worker, PASSED)

    worker._settled([run], "settled")

    assert cursor.more
    assert run.started + 0.9 < cursor.position[0] < run.started + 1


async def test_one_whose_backoff_was_over_before_the_answer_came_is_read(database_url: str) -> None:
    worker = worker_of(database_url)
    run = ended(worker, Retry(after=0.5, error_type="E", error="no"))
    cursor = cursor_at(worker, PASSED)

    worker._settled([run], "settled")

    assert cursor.more
    assert run.started + 1.4 < cursor.position[0] < run.started + 1.5


async def test_one_with_a_backoff_moves_no_cursor(database_url: str) -> None:
    worker = worker_of(database_url)
    run = ended(worker, Retry(after=30, error_type="E", error="no"))
    cursor = cursor_at(worker, run.started)

    worker._settled([run], "settled")

    assert not cursor.more


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_one_that_was_settled_by_another_clock_is_read(
    database_url: str, jump: float
) -> None:
    """Before the clock jumped or after it: either time is read from."""
    worker = worker_of(database_url)
    run = ended(worker, FAILED)
    now = clock.local()
    worker.owned.time.seen(worker.owned.time.at(now) + jump, sent=now, received=now)
    cursor = cursor_at(worker, PASSED)

    worker._settled([run], "settled")

    assert cursor.more
    assert cursor.position[0] < run.started + 1 + min(0.0, jump)


async def test_one_that_was_superseded_is_read_from_its_own_time_on(database_url: str) -> None:
    """What was offered meanwhile keeps the earlier time."""
    worker = worker_of(database_url)
    run = ended(worker, FAILED, waited=HOUR)
    cursor = cursor_at(worker, run.started)

    worker._settled([run], "superseded")

    assert cursor.more
    assert run.started - HOUR - 0.1 < cursor.position[0] < run.started - HOUR


async def test_failures_of_a_backlog_run_again_after_it(visits: Visits, database_url: str) -> None:
    """T4, T13: each is due anew when it has failed; no sweep is waited for."""
    ran: list[str] = []

    async def handler(run: Run) -> Outcome:
        ran.append(run.visit.key)
        return FAILED if run.visit.key in "bd" and not run.visit.attempt else Done()

    visits.offer(*"abcde")
    for key in "abcde":
        visits.change(key, due_at=visits.now() - timedelta(hours=1))
    async with working(database_url, queue(handler=handler), poll=60.0, lease=60.0):
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)

    assert ran[:5] == list("abcde")
    assert sorted(ran[5:]) == ["b", "d"]
