"""Hold: a run that lasts is marked in its row, and only a run that still counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring import crash_points
from mainspring.kernel.outcome import Again, Done, Parked
from mainspring.testing import wait_until
from visits import Visits, locked, queue
from workers import Gauge, working


def test_a_held_visit_shows_who_runs_it_and_since_when(visits: Visits, me) -> None:
    """T5."""
    visits.offer("a")
    run = visits.start("a")

    assert visits.hold(me, run) == {run.token}

    row = visits.row("a")
    assert (row["pass"], row["holder"], row["held_until"]) == (run.token, me, None)
    status = visits.query("select state::text, holder from mainspring.visit_status")
    assert [tuple(r.values()) for r in status] == [("running", me)]


def test_a_hold_that_is_sent_again_holds_still(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    assert visits.hold(me, run) == {run.token}


def test_a_worker_that_was_declared_dead_holds_nothing(visits: Visits, me) -> None:
    """T2: sent before and arrived after, it would be taken for a crash of the visit."""
    visits.offer("a")
    run = visits.start("a")
    visits.declare_dead(me)

    assert visits.hold(me, run) == set()

    assert visits.row("a")["pass"] is None


def test_a_visit_that_another_run_holds_is_not_held(visits: Visits, me) -> None:
    visits.offer("a")
    first, second = visits.start("a"), visits.start("a")
    visits.hold(me, first)

    assert visits.hold(visits.join(), second) == set()

    assert visits.row("a")["pass"] == first.token


def test_a_visit_that_was_offered_again_is_not_held(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.offer("a")

    assert visits.hold(me, run) == set()


def test_a_settled_visit_is_not_held(visits: Visits, me) -> None:
    visits.offer("a", "b")
    done, again = visits.start("a"), visits.start("b")
    late = [visits.start("a"), visits.start("b")]
    visits.settle(me, (done, Done()), (again, Again(after=0)))

    assert visits.hold(me, *late) == set()


def test_a_parked_visit_is_not_held(visits: Visits, me) -> None:
    visits.offer("a")
    visits.settle(me, (visits.start("a"), Parked(error_type="E", error="no")))

    assert visits.hold(me, visits.start("a")) == set()


def test_a_locked_visit_is_skipped(visits: Visits, me, mainspring_url: str) -> None:
    visits.offer("a", "b")
    one, two = visits.start("a"), visits.start("b")

    with locked(mainspring_url, "a"):
        assert visits.hold(me, one, two) == {two.token}

    assert visits.hold(me, one) == {one.token}


def test_a_work_timeout_is_counted_from_the_start(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")

    visits.hold(me, run, work_timeout=60)

    row = visits.row("a")
    assert row["held_until"] - row["started_at"] == timedelta(seconds=60)


def test_released_holds_are_due_again_at_once_and_count_nothing(visits: Visits, me) -> None:
    """T10."""
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    visits.call("release_holds", worker_id=me, runs=[run.token])

    assert visits.keys(me) == ["a"]
    row = visits.row("a")
    assert (row["attempt"], row["crashes"], row["version"]) == (0, 0, run.visit.version)


def test_only_the_holder_releases_its_hold(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    visits.call("release_holds", worker_id=visits.join(), runs=[run.token])

    assert visits.row("a")["pass"] == run.token


def test_an_offer_leaves_the_hold_in_place(visits: Visits, me) -> None:
    """The run goes on; that it was superseded shows when it settles."""
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    visits.offer("a")

    assert visits.row("a")["pass"] == run.token
    assert visits.keys(me) == []


async def test_a_visit_that_is_locked_before_its_start_is_not_tried_without_a_pause(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One open transaction of a user must not make the reader spin: it read 420 pages a second."""
    gauge, pages = Gauge(seconds=0), []
    visits.offer("a")
    with locked(database_url, "a") as other:
        async with working(
            database_url, queue(handler=gauge, hold_after=0), poll=10.0, lease=30.0
        ) as worker:
            monkeypatch.setattr(crash_points, "listener", lambda step: pages.append(step))
            await asyncio.sleep(1)
            tried = pages.count("page.read")
            assert not gauge.started

            other.rollback()
            await wait_until(lambda: gauge.started == ["a"] and not worker.owned.runs, 3)

    assert 2 <= tried <= 60


async def test_a_hold_that_arrives_after_its_run_was_given_up_is_cleared(
    visits: Visits, database_url: str
) -> None:
    """T1: a living worker holds it for no run; nobody else would ever take it for lost."""
    gauge = Gauge()
    async with working(database_url, queue(handler=gauge)) as worker:
        with visits.connection.transaction():
            visits.offer("a")
            run = visits.start("a")
            assert worker.owned.worker_id is not None
            assert visits.hold(worker.owned.worker_id, run) == {run.token}

        await wait_until(lambda: gauge.started == ["a"], 10)
        await wait_until(lambda: visits.row("a") is None)
    assert visits.history("a")[0]["attempt"] == 1
