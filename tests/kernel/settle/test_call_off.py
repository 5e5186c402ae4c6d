"""Calling visits off by the statements: who wins, and that nothing starts again what was called off."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.kernel.outcome import DONE, Cancelled, Done, Expired, Parked, Postponed, Retry
from visits import Visits, queue


def call_off(visits: Visits, key: str) -> list[str]:
    row = visits.row(key)
    assert row is not None
    found = visits.call(
        "call_off_visits",
        shards=[row["shard"]],
        keys=[key],
        queues=[row["queue"]],
        reason="not wanted",
        waits=False,
        spares_held=False,
    )
    return [answer["answer"] for answer in found]


def held(visits: Visits, me: Any, key: str = "a"):
    visits.offer(key)
    run = visits.start(key)
    assert visits.hold(me, run) == {run.token}
    run.held = True
    return run


def outcomes(visits: Visits, key: str = "a") -> list[tuple[str, str | None]]:
    return [(row["outcome"], row["error"]) for row in visits.history(key)]


def test_what_waits_is_gone_at_once(visits: Visits, me) -> None:
    """T13: a waiting call that is cancelled is not started, and history says so."""
    visits.offer("a")

    assert call_off(visits, "a") == ["cancelled"]

    assert visits.row("a") is None
    assert outcomes(visits) == [("cancelled", "not wanted")]


def test_a_short_run_comes_too_late(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")

    assert call_off(visits, "a") == ["cancelled"]

    assert visits.settle(me, (run, Done('"late"'))) == ["gone"]
    assert outcomes(visits) == [("cancelled", "not wanted")]


def test_a_result_that_comes_before_the_stop_stands(visits: Visits, me) -> None:
    """T13: exactly one of the two: a run that ends by itself has won."""
    run = held(visits, me)
    assert call_off(visits, "a") == ["running"]

    assert visits.settle(me, (run, Done('"fine"'))) == ["settled"]

    assert outcomes(visits) == [("done", None)]


@pytest.mark.parametrize(
    "outcome",
    [
        Cancelled("cancelled while it ran"),
        Retry(1.0, "ValueError", "no"),
        Parked("ValueError", "no"),
        Postponed(5.0, "later"),
        Expired(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_whatever_else_a_run_comes_to_ends_what_was_called_off(
    visits: Visits, me, outcome: Any
) -> None:
    """T13: a failure of a cancelled run is not tried again."""
    run = held(visits, me)
    call_off(visits, "a")

    assert visits.settle(me, (run, outcome)) == ["settled"]

    assert visits.row("a") is None
    assert outcomes(visits) == [("cancelled", "not wanted")]
    assert visits.settle(me, (run, outcome)) == ["gone"]  # sent twice it changes nothing
    assert len(outcomes(visits)) == 1


def test_what_a_dead_worker_ran_is_over_and_not_parked(visits: Visits, me) -> None:
    """T13: after a crash a cancelled run is not started again."""
    visits.register(queue(crash_limit=1))
    dead = visits.join()
    held(visits, dead)
    call_off(visits, "a")
    visits.declare_dead(dead)

    [freed] = visits.recover()
    assert (freed["called_off"], freed["parked"]) == (True, False)
    places = {"shards": [freed["shard"]], "keys": ["a"], "queues": [freed["queue"]]}
    assert [row["key"] for row in visits.call("end_called_off", **places)] == ["a"]

    assert visits.row("a") is None
    assert outcomes(visits) == [("cancelled", "not wanted")]


def test_between_freeing_and_ending_nobody_can_start_it(visits: Visits, me) -> None:
    """A worker of the release before frees it only: it has expired then."""
    run = held(visits, me)
    call_off(visits, "a")
    visits.call("release_holds", worker_id=me, runs=[run.token])

    [read] = visits.read(me)

    assert read.expires_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_an_offer_made_meanwhile_outlives_the_run_that_was_called_off(visits: Visits, me) -> None:
    run = held(visits, me)
    call_off(visits, "a")
    visits.offer("a")

    assert visits.settle(me, (run, Cancelled())) == ["superseded"]

    row = visits.row("a")
    assert row is not None
    assert (row["called_off"], row["expires_at"], row["pass"]) == (None, None, None)


def test_the_first_reason_stands_and_again_changes_nothing(visits: Visits, me) -> None:
    run = held(visits, me)
    assert call_off(visits, "a") == ["running"]
    visits.query("update mainspring.visit set called_off = 'first'")

    assert call_off(visits, "a") == ["running"]

    visits.settle(me, (run, Cancelled()))
    assert outcomes(visits) == [("cancelled", "first")]


def test_the_run_of_another_kind_of_queue_is_left_alone(visits: Visits, me) -> None:
    visits.query("update mainspring.queue set kind = 'stage'")
    run = held(visits, me)

    assert call_off(visits, "a") == []

    assert visits.settle(me, (run, DONE)) == ["settled"]


def test_what_is_for_later_is_made_due(visits: Visits, me) -> None:
    """T13: run now."""
    visits.offer("a", after=3600)
    run = visits.start("a")
    assert visits.keys(me) == []
    row = visits.row("a")
    assert row is not None
    places = {"shards": [row["shard"]], "keys": ["a"], "queues": [row["queue"]]}

    assert [found["key"] for found in visits.call("make_due", **places)] == ["a"]
    assert visits.call("make_due", **places) == []

    assert visits.keys(me) == ["a"]
    assert visits.visit("a").version == run.visit.version
