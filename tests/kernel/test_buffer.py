"""The buffer: the next visit to start, by priority, age, limits, groups and turns. Pure memory."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.kernel.buffer import GROUP_KEEPS, Buffer
from mainspring.kernel.visit import Visit
from visits import queue

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def visit(key: str, *, at: float = 0, name: str = "ring", **fields: Any) -> Visit:
    values = {
        "shard": 0,
        "key": key,
        "queue": name,
        "id": UUID(int=1),
        "group": None,
        "priority": 5,
        "due_at": NOON + timedelta(seconds=at),
        "version": hash(key),
        "attempt": 0,
        "crashes": 0,
        "expires_at": None,
        "payload": "{}",
    }
    return Visit(**{**values, **fields})


def buffer(*settings: Any, **state: Any) -> Buffer:
    found = Buffer(settings or [queue()], threading.Lock())
    for each in found.queues.values():
        for name, value in state.items():
            setattr(each, name, value)
        each.changed()
    return found


def pause(found: Buffer, name: str, paused: bool) -> None:
    found.queues[name].paused = paused
    found.queues[name].changed()


def popped(found: Buffer, now: float = 0.0) -> list[str]:
    """Everything that may start now, in order."""
    keys = []
    while (each := found.pop(now)) is not None:
        keys.append(each.key)
    return keys


def test_the_greatest_priority_and_within_it_the_oldest_comes_first() -> None:
    """T4."""
    found = buffer()
    found.add([visit("b", at=2), visit("low", priority=1), visit("a", at=1)])
    found.add([visit("high", at=9, priority=9)])

    assert popped(found) == ["high", "a", "b", "low"]


def test_the_oldest_of_several_queues_comes_first() -> None:
    found = buffer(queue("one"), queue("two"))
    found.add([visit("b", at=2, name="one"), visit("a", at=1, name="two")])

    assert popped(found) == ["a", "b"]


def test_equal_times_go_by_key() -> None:
    found = buffer()
    found.add([visit("b"), visit("a"), visit("c")])

    assert popped(found) == ["a", "b", "c"]


def test_a_paused_queue_keeps_only_itself_back() -> None:
    found = buffer(queue("one"), queue("two"))
    found.add([visit("a", name="one"), visit("b", name="two")])
    pause(found, "one", True)

    assert popped(found) == ["b"]
    assert found.startable == 0

    pause(found, "one", False)
    assert popped(found) == ["a"]


def test_a_queue_s_part_is_kept() -> None:
    found = buffer(concurrency=10, part=2)
    visits = [visit(key) for key in "abc"]
    found.add(visits)

    assert popped(found) == ["a", "b"]
    assert found.queues["ring"].wants_part

    found.ended(visits[0])
    assert popped(found) == ["c"]


def test_a_group_s_limit_is_kept_and_keeps_only_itself_back() -> None:
    found = buffer(group_concurrency=1)
    visits = [visit(key, at=n, group="g") for n, key in enumerate("abc")]
    found.add([*visits, visit("other", at=9, group="h"), visit("alone", at=10)])

    assert popped(found) == ["a", "other", "alone"]

    found.ended(visits[0])
    assert popped(found) == ["b"]
    found.ended(visits[1])
    assert popped(found) == ["c"]


def test_what_other_workers_hold_counts_for_the_group() -> None:
    found = buffer(group_concurrency=1)
    found.foreign_groups = {("ring", "g"): 1}
    found.add([visit("a", group="g")])
    assert popped(found) == []

    found.foreign_groups = {}
    found.release_groups()
    assert popped(found) == ["a"]


def test_a_full_group_leaves_the_rest_in_the_database() -> None:
    found = buffer(group_concurrency=1)
    visits = [visit(f"key {n:03}", at=n, group="g") for n in range(GROUP_KEEPS + 10)]
    found.add(visits)
    popped(found)

    assert found.behind_groups() == ["ring g"]
    assert len(found.in_hand) == GROUP_KEEPS + 1


def test_a_group_that_ran_dry_is_hungry_and_refilled() -> None:
    found = buffer(group_concurrency=1)
    visits = [visit(f"key {n:03}", at=n, group="g") for n in range(GROUP_KEEPS + 10)]
    found.add(visits)
    started = popped(found)
    for each in visits:
        if each.key in started:
            found.ended(each)
            found.settled(each)
            started += popped(found)
    assert started == [f"key {n:03}" for n in range(GROUP_KEEPS + 1)]
    assert found.hungry_groups() == [("ring", "g")]

    found.refill("ring", "g", visits[GROUP_KEEPS + 1 :], more=False)

    assert popped(found) == [f"key {GROUP_KEEPS + 1:03}"]
    assert found.behind_groups() == []


def test_a_group_s_rate_is_kept_and_says_when_to_look_again() -> None:
    found = buffer(group_rate=10)
    found.add([visit("a", group="g"), visit("b", group="g")])

    assert popped(found, now=0.0) == []
    assert found.next_at == pytest.approx(0.1)
    assert popped(found, now=0.1) == ["a"]
    assert found.next_at <= 0.2 + 1e-9


def test_one_run_per_key_among_the_queues_of_a_class() -> None:
    found = buffer(queue("one", turns="t"), queue("two", turns="t"))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=2, name="two"), visit("b", at=3, name="two")])

    assert popped(found) == ["a", "b"]

    found.ended(first)
    assert popped(found) == ["a"]


def test_a_turn_that_another_worker_has_is_left_in_the_database() -> None:
    found = buffer(queue("one", turns="t"))
    found.foreign_turns = {("t", "a")}
    found.add([visit("a", name="one")])

    assert popped(found) == []
    assert ("one", "a") not in found.in_hand


def test_dropped_visits_are_no_longer_in_hand() -> None:
    found = buffer()
    found.add([visit("a", shard=1), visit("b", shard=2)])
    found.add_suspect(visit("s", shard=1))

    assert found.drop(lambda each: each.shard == 1) == 2

    assert popped(found) == ["b"]
    assert found.in_hand == {("ring", "b")}


def test_suspects_are_kept_apart() -> None:
    found = buffer()
    found.add_suspect(visit("s"))

    assert popped(found) == []
    assert found.size == 1


def test_a_visit_that_is_in_hand_or_was_settled_since_the_read_is_not_new() -> None:
    found = buffer()
    running, done = visit("a"), visit("b")
    found.add([running, done])
    found.read_sent()
    found.settled(done)

    assert not found.is_new(running)
    assert not found.is_new(done)
    assert found.is_new(visit("b", version=77))

    found.read_sent()
    assert found.is_new(done)


def test_with_nothing_to_wait_for_there_is_no_next_time() -> None:
    found = buffer()

    assert found.pop(0.0) is None
    assert found.next_at == math.inf
