"""Deaths: what a dead worker held is blamed only where a run of it can have killed it."""

from __future__ import annotations

from uuid import UUID

import pytest

from mainspring.db.database import Database
from mainspring.db.session import Session
from mainspring.kernel.lease.dead import declare_dead, declare_ended, deny_death
from mainspring.testing import Clock
from visits import Visits, queue

LEASE = 10.0


@pytest.fixture
def session(database_url: str):
    session = Session(Database(database_url), "supervisor")
    yield session
    session.close()


def dies(visits: Visits, session: Session, worker_id: UUID, *, fenced: bool = False) -> None:
    """It is declared dead, as by another worker or its supervisor."""
    beat = visits.value("select beat from mainspring.worker where id = %s", worker_id)
    values = {"pool": "default", "beat": beat}
    assert declare_dead(session, worker_id, **values, lease=LEASE, fenced=fenced) is not None


def holder(visits: Visits, *keys: str) -> UUID:
    """A worker that holds these visits, from now on."""
    worker_id = visits.join()
    holds(visits, worker_id, *keys)
    return worker_id


def holds(visits: Visits, worker_id: UUID, *keys: str) -> None:
    for key in keys:
        run = visits.start(key)
        run.started = visits.now().timestamp()  # by the clock that the test moves
        visits.hold(worker_id, run)


def beats(visits: Visits, worker_id: UUID) -> None:
    assert visits.beat(worker_id, slots=4, free=4)


def crashes(visits: Visits, *keys: str) -> list[int]:
    return [visits.row(key)["crashes"] for key in keys]


def test_a_death_is_counted_for_what_was_held(visits: Visits, me, session: Session) -> None:
    visits.offer("a")
    dies(visits, session, holder(visits, "a"))

    visits.recover()

    assert crashes(visits, "a") == [1]


def test_one_that_was_cut_off_has_not_died_of_its_runs(
    visits: Visits, me, session: Session
) -> None:
    """T13: its watchdog ended it because the database did not answer."""
    visits.offer("a")
    dies(visits, session, holder(visits, "a"), fenced=True)

    [freed] = visits.recover()

    assert (freed["orphaned"], freed["parked"]) == (True, False)
    assert crashes(visits, "a") == [0]
    assert visits.row("a")["error"] is None
    suspects = "select count(*) from mainspring.lease where suspect_of is not null"
    assert visits.value(suspects) == 0


@pytest.mark.parametrize("recovered", ["before", "after"])
def test_who_was_declared_dead_and_lives_takes_the_blame_from_its_runs(
    visits: Visits, me, session: Session, recovered: str
) -> None:
    """T13: whether others have counted it already, or will."""
    visits.register(queue(crash_limit=2))
    visits.offer("a", "b")
    for _ in range(3):
        worker_id = holder(visits, "a", "b")
        dies(visits, session, worker_id)
        if recovered == "before":
            visits.recover()
            assert crashes(visits, "a", "b") == [1, 1]
        deny_death(session, worker_id)
        visits.recover()
        assert crashes(visits, "a", "b") == [0, 0]

    assert visits.value("select count(*) from mainspring.blame") == 0


def test_what_is_taken_back_is_that_worker_s_alone(visits: Visits, me, session: Session) -> None:
    visits.offer("a")
    first = holder(visits, "a")
    dies(visits, session, first)
    visits.recover()
    second = holder(visits, "a")
    dies(visits, session, second)
    visits.recover()
    assert crashes(visits, "a") == [2]

    deny_death(session, first)
    deny_death(session, first)  # its answer was lost

    assert crashes(visits, "a") == [1]


def test_a_key_that_is_another_visit_s_by_then_keeps_its_count(
    visits: Visits, me, session: Session
) -> None:
    visits.offer("a")
    first = holder(visits, "a")
    dies(visits, session, first)
    visits.recover()
    visits.query("delete from mainspring.visit")
    visits.offer("a")
    visits.change("a", crashes=2)

    deny_death(session, first)

    assert crashes(visits, "a") == [2]


def test_what_is_parked_stays_parked(visits: Visits, me, session: Session) -> None:
    """With a limit of one the first death parks, and a process may have been told of it."""
    visits.register(queue(crash_limit=1))
    visits.offer("a")
    worker_id = holder(visits, "a")
    dies(visits, session, worker_id)
    visits.recover()

    deny_death(session, worker_id)

    assert visits.row("a")["parked_at"] is not None


@pytest.mark.parametrize("seen", ["silent", "declared"])
def test_when_several_fall_silent_at_once_only_runs_that_had_just_begun_are_blamed(
    visits: Visits, me, session: Session, clock: Clock, seen: str
) -> None:
    """T13: a host without power. A run that kills its worker at once is still counted."""
    visits.offer("long", "short")
    one, other = visits.join(), visits.join()
    holds(visits, one, "long")
    clock.advance_sync(60)
    beats(visits, one)
    holds(visits, one, "short")
    clock.advance_sync(1)
    beats(visits, other)
    clock.advance_sync(LEASE)
    if seen == "declared":
        dies(visits, session, other)
    dies(visits, session, one)

    visits.recover()

    assert crashes(visits, "long", "short") == [0, 1]


def test_deaths_that_follow_each_other_are_not_at_once(
    visits: Visits, me, session: Session, clock: Clock
) -> None:
    """T13: a run that kills late, one worker after the other, is found: it is never older than the time
    between two deaths that it causes."""
    visits.offer("killer")
    for death in range(1, 4):
        worker_id = holder(visits, "killer")
        clock.advance_sync(LEASE / 2)
        beats(visits, worker_id)
        dies(visits, session, worker_id)
        visits.recover()
        assert crashes(visits, "killer") == [death]

    assert visits.row("killer")["parked_at"] is not None


def test_a_worker_that_died_yesterday_is_no_excuse(
    visits: Visits, me, session: Session, clock: Clock
) -> None:
    """Nobody is left in its pool to declare it dead, so its row stays."""
    visits.offer("a")
    visits.join()
    clock.advance_sync(86400)
    worker_id = holder(visits, "a")
    clock.advance_sync(60)
    beats(visits, worker_id)
    beats(visits, me)
    clock.advance_sync(LEASE)
    beats(visits, me)
    dies(visits, session, worker_id)

    visits.recover()

    assert crashes(visits, "a") == [1]


def test_an_hour_of_running_forgets_earlier_deaths(
    visits: Visits, me, session: Session, clock: Clock
) -> None:
    """T13: three spot machines in a night are no reason to park a run of hours."""
    visits.offer("a")
    visits.change("a", crashes=2)
    worker_id = holder(visits, "a")
    clock.advance_sync(3700)
    beats(visits, worker_id)
    dies(visits, session, worker_id)

    visits.recover()

    assert crashes(visits, "a") == [1]
    assert "1 of 3" in visits.row("a")["error"]
    assert visits.row("a")["parked_at"] is None


def test_a_supervisor_says_of_one_that_was_fenced_that_others_had_buried_it_wrongly(
    visits: Visits, me, session: Session, database_url: str
) -> None:
    visits.offer("a")
    worker_id = holder(visits, "a")
    dies(visits, session, worker_id)
    visits.recover()
    assert crashes(visits, "a") == [1]

    values = {"pool": "default", "dead_id": worker_id, "lease": LEASE}
    assert not declare_ended(Database(database_url), **values, fenced=True)

    assert crashes(visits, "a") == [0]


def test_deaths_of_long_ago_are_forgotten(
    visits: Visits, me, session: Session, clock: Clock
) -> None:
    visits.offer("a", "b")
    dies(visits, session, holder(visits, "a"))
    visits.recover()
    clock.advance_sync(31 * 86400)
    dies(visits, session, holder(visits, "b"))
    visits.recover()

    assert visits.value("select count(*) from mainspring.death") == 1
    assert [row["key"] for row in visits.query("select key from mainspring.blame")] == ["b"]
