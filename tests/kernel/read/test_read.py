"""Read: due, free visits of a worker's shards, the greatest priority and the oldest first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from mainspring.ids import shard_of
from mainspring.kernel.outcome import Parked
from mainspring.kernel.read.orders import UNIT
from mainspring.kernel.visit import END
from visits import Visits


def test_within_a_priority_the_oldest_is_read_first(visits: Visits, me) -> None:
    """T4."""
    for key in ("first", "second", "third"):
        visits.offer(key)

    assert visits.keys(me) == ["first", "second", "third"]


def test_equal_times_are_read_in_the_order_of_their_keys(visits: Visits, me) -> None:
    visits.offer("c", "a", "b")

    assert visits.keys(me) == ["a", "b", "c"]


def test_each_level_is_read_by_itself(visits: Visits, me) -> None:
    visits.offer("low", priority=1)
    visits.offer("high", priority=9)
    visits.offer("middle")

    assert visits.keys(me, most=1) == ["high", "middle", "low"]


def test_a_future_visit_is_not_read(visits: Visits, me) -> None:
    visits.offer("later", after=60)

    assert visits.keys(me) == []


def test_a_future_visit_is_read_when_its_time_has_come(visits: Visits, me, clock) -> None:
    visits.offer("later", after=60)

    clock.advance_sync(60)

    assert visits.keys(me) == ["later"]


def test_a_held_visit_is_not_read(visits: Visits, me) -> None:
    visits.offer("a")
    visits.hold(me, visits.start("a"))

    assert visits.keys(me) == []


def test_a_parked_visit_is_not_read(visits: Visits, me) -> None:
    visits.offer("a")
    visits.settle(me, (visits.start("a"), Parked(error_type="E", error="no")))

    assert visits.keys(me) == []


def test_only_the_given_shards_are_read(visits: Visits, me) -> None:
    keys = [f"key {n}" for n in range(50)]
    visits.offer(*keys)
    mine = {shard_of(key, 1024) for key in keys[:10]}

    read = visits.keys(me, shards=sorted(mine))

    assert set(keys[:10]) <= set(read)
    assert {shard_of(key, 1024) for key in read} <= mine


def test_groups_that_wait_for_room_are_passed_over(visits: Visits, me) -> None:
    visits.offer("full", group="g")
    visits.offer("free", group="h")
    visits.offer("alone")

    assert set(visits.keys(me, behind=[f"ring{UNIT}g"])) == {"free", "alone"}


def test_a_group_is_passed_over_in_its_own_queue_only(visits: Visits, me) -> None:
    """Names with spaces in them are not taken for one another."""
    visits.offer("a", group="b g")

    assert visits.keys(me, behind=[f"ring b{UNIT}g", f"other{UNIT}b g"]) == ["a"]


def test_a_page_goes_on_where_the_last_one_ended(visits: Visits, me) -> None:
    visits.offer(*"abcdefg")

    first = visits.read(me, most=3)
    second = visits.read(me, after=first[-1].position, most=3)
    third = visits.read(me, after=second[-1].position, most=3)

    assert "".join(v.key for v in (*first, *second, *third)) == "abcdefg"


def test_a_sweep_reads_up_to_a_position(visits: Visits, me) -> None:
    visits.offer(*"abcd")
    page = visits.read(me)

    assert visits.keys(me, upto=page[1].position) == ["a", "b"]
    assert visits.keys(me, upto=END) == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("me")
def test_a_worker_that_was_declared_dead_reads_nothing(visits: Visits) -> None:
    visits.offer("a")

    assert visits.keys(uuid4()) == []


def test_what_was_read_is_noted_as_reach(visits: Visits, me) -> None:
    visits.offer("a")
    visits.offer("b", priority=7)
    page = {v.priority: v for v in visits.read(me)}

    reach = visits.call("read_reach", worker_ids=[me])

    assert {(r["priority"], r["due_at"], r["key"]) for r in reach} == {
        (5, page[5].due_at, "a"),
        (7, page[7].due_at, "b"),
    }


def test_the_reach_of_a_bulk_is_what_was_read_of_it(visits: Visits, me) -> None:
    """All of it is due at the same time: without the key a death would make suspects of the rest."""
    visits.offer(*"abcdef", at=visits.now())
    assert [v.key for v in visits.read(me, most=2)] == ["a", "b"]
    [page] = visits.call("read_reach", worker_ids=[me])
    assert page["key"] == "b"

    first = visits.visit("a")
    visits.read(me, after=(first.due, "b"), most=2)
    [further] = visits.call("read_reach", worker_ids=[me])
    assert (further["due_at"], further["key"]) == (page["due_at"], "d")

    visits.query("insert into mainspring.reach values (%s, 'ring', 5, %s)", me, page["due_at"])
    [before] = visits.call("read_reach", worker_ids=[me])
    assert before["key"] is None, "of the release before: all of that time"


def test_trimmed_reach_keeps_the_newest_note_of_each_level(visits: Visits, me) -> None:
    for key in "abc":
        visits.offer(key)
        last = visits.read(me)[-1]

    visits.call("trim_reach", worker_id=me)

    rows = visits.query("select due_at, key from mainspring.reach")
    assert [(row["due_at"], row["key"]) for row in rows] == [(last.due_at, "c")]


def test_a_group_is_read_by_priority_then_age(visits: Visits, me) -> None:
    visits.offer("old", group="g")
    visits.offer("new", group="g")
    visits.offer("urgent", group="g", priority=9)
    visits.offer("foreign", group="h")

    rows = visits.call("read_group", queues=["ring"], groups=["g"], most=[2], worker_id=me)

    assert [row["key"] for row in rows] == ["urgent", "old"]


def next_due(
    visits: Visits,
    since: datetime,
    *,
    shards: Sequence[int] | None = None,
    known_keys: Sequence[str] = (),
) -> float:
    """Seconds; infinite if nothing is."""
    values = {"queues": ["ring"], "shards": shards, "since": since, "known_keys": list(known_keys)}
    seconds = visits.call("next_due", **values)[0]["seconds"]
    return math.inf if seconds is None else seconds


@pytest.mark.usefixtures("me")
def test_next_due_answers_the_seconds_until_the_earliest_future_visit(visits: Visits) -> None:
    visits.offer("soon", after=5)
    visits.offer("later", after=60, priority=9)
    visits.offer("now")

    seconds = next_due(visits, visits.now())

    assert 4 < seconds <= 5


@pytest.mark.usefixtures("me")
def test_next_due_knows_what_came_due_since_the_last_read(visits: Visits) -> None:
    """Else a retry in a millisecond, due between a read and this, waits for the next poll."""
    since = visits.now()
    visits.offer("seen", after=-1)
    visits.offer("missed", at=since + timedelta(milliseconds=1))
    visits.offer("later", after=60)

    seconds = next_due(visits, since)

    assert -60 < seconds <= 0


@pytest.mark.usefixtures("me")
def test_next_due_passes_over_what_is_in_hand(visits: Visits) -> None:
    """What was just read is due still; the same key of another queue is another visit."""
    since = visits.now()
    visits.offer("read", at=since + timedelta(milliseconds=1))
    visits.offer("later", after=60)

    mine = next_due(visits, since, known_keys=[f"ring{UNIT}read"])
    others = next_due(visits, since, known_keys=[f"rung{UNIT}read", f"ring{UNIT}other"])

    assert 50 < mine <= 60
    assert others <= 0


@pytest.mark.usefixtures("me")
def test_next_due_passes_over_the_timers_of_others(visits: Visits) -> None:
    visits.offer("theirs", after=5)
    visits.offer("mine", after=9)
    mine = visits.row("mine")["shard"]

    seconds = next_due(visits, visits.now(), shards=[mine])

    assert 8 < seconds <= 9


@pytest.mark.usefixtures("me")
def test_next_due_is_never_late_where_others_have_many_timers(visits: Visits) -> None:
    """It looks at so many of them and then answers for the last: the reader looks again then."""
    for n in range(30):
        visits.offer(*(f"{n} {m}" for m in range(10)), after=5 + n)
    visits.query("update mainspring.visit set shard = 7")
    visits.offer("mine", after=100)
    visits.query("update mainspring.visit set shard = 8 where key = 'mine'")

    seconds = next_due(visits, visits.now(), shards=[8])

    assert 20 < seconds < 30


@pytest.mark.usefixtures("me")
def test_next_due_is_null_when_nothing_is_scheduled(visits: Visits) -> None:
    visits.offer("now")

    assert next_due(visits, visits.now()) == math.inf
