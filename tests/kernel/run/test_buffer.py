"""The buffer: the next visit to start, by priority, age, limits, groups and turns. Pure memory."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Visit
from mainspring.limits import Bucket
from mainspring.limits.tuning import DEFAULT
from visits import known_keys, queue, run_of, visit


def buffer(
    *settings: Any,
    concurrency: int | None = None,
    part: int = 0,
    group_concurrency: int | None = None,
    group_rate: float | None = None,
) -> Buffer:
    found = Buffer(settings or [queue()], threading.Lock())
    for each in found.queues.values():
        each.limit(paused=False, concurrency=concurrency, rate=None)
        each.part = part
        each.groups.limit(group_concurrency, group_rate, 0.0)
    found.release_groups()  # as after any change of limits
    return found


def pause(found: Buffer, name: str, paused: bool) -> None:
    found.queues[name].limit(paused=paused, concurrency=None, rate=None)


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


def test_it_knows_whether_all_that_waits_is_of_a_low_priority() -> None:
    found = buffer()
    assert not found.choice.only_below(4), "nothing waits"

    found.add([visit("low", priority=1)])
    assert found.choice.only_below(4)

    found.add([visit("live", priority=4)])
    assert not found.choice.only_below(4)


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
    assert found.choice.startable(0.0) == 0

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
    found.queues["ring"].groups.foreign = {"g": 1}
    found.add([visit("a", group="g")])
    assert popped(found) == []

    found.queues["ring"].groups.foreign = {}
    found.release_groups()
    assert popped(found) == ["a"]


def test_a_full_group_leaves_the_rest_in_the_database() -> None:
    found = buffer(group_concurrency=1)
    visits = [visit(f"key {n:03}", at=n, group="g") for n in range(DEFAULT.group_keeps + 10)]
    found.add(visits)
    popped(found)

    assert found.behind_groups() == [("ring", "g")]
    assert len(known_keys(found)) == DEFAULT.group_keeps + 1


def test_a_group_that_ran_dry_is_hungry_and_refilled() -> None:
    found = buffer(group_concurrency=1)
    visits = [visit(f"key {n:03}", at=n, group="g") for n in range(DEFAULT.group_keeps + 10)]
    found.add(visits)
    started = popped(found)
    for each in visits:
        if each.key in started:
            found.ended(each)
            found.settled([run_of(each)])
            started += popped(found)
    assert started == [f"key {n:03}" for n in range(DEFAULT.group_keeps + 1)]
    assert found.queues["ring"].groups.hungry() == ["g"]

    found.refill("ring", "g", visits[DEFAULT.group_keeps + 1 :], more=False)

    assert popped(found) == [f"key {DEFAULT.group_keeps + 1:03}"]
    assert found.behind_groups() == []


def test_a_group_s_rate_is_kept_and_says_when_to_look_again() -> None:
    found = buffer(group_rate=10)
    found.add([visit("a", group="g"), visit("b", group="g")])

    assert popped(found, now=0.0) == []
    assert found.next_at() == pytest.approx(0.1)
    assert popped(found, now=0.1) == ["a"]
    assert found.next_at() <= 0.2 + 1e-9


def test_one_run_per_key_among_the_queues_of_a_class() -> None:
    found = buffer(queue("one", turns="t"), queue("two", turns="t"))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=2, name="two"), visit("b", at=3, name="two")])

    assert popped(found) == ["a", "b"]

    found.ended(first)
    assert popped(found) == []

    found.settled([run_of(first)])
    assert popped(found) == ["a"]


def test_a_run_that_counts_for_nothing_gives_its_turn_up() -> None:
    found = buffer(queue("one", turns="t"), queue("two", turns="t"))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=2, name="two")])
    popped(found)

    found.ended(first)
    found.turn_over(first)

    assert popped(found) == ["a"]


def test_a_visit_that_its_group_keeps_back_keeps_no_turn() -> None:
    found = buffer(queue("one", turns="t"), queue("two", turns="t"))
    found.queues["one"].groups.limit(1, None, 0.0)
    found.add([visit("first", at=1, name="one", group="g")])
    found.add([visit("a", at=2, name="one", group="g"), visit("a", at=3, name="two")])

    assert popped(found) == ["first", "a"]
    assert found.holds_any(lambda each: each.queue == "one")


def test_a_turn_that_another_worker_has_is_left_in_the_database() -> None:
    found = buffer(queue("one", turns="t"))
    found.turns.foreign = {("t", "a")}
    found.add([visit("a", name="one")])

    assert popped(found) == []
    assert ("one", "a") not in known_keys(found)


def test_dropped_visits_are_no_longer_in_hand() -> None:
    found = buffer(queue(turns="t"), group_concurrency=1)
    found.add([visit("a", shard=1), visit("b", shard=2)])
    found.add([visit(key, at=5, shard=1, group="g") for key in "ghi"])
    assert popped(found) == ["a", "b", "g"]
    found.add([visit("c", shard=1), visit("d", shard=2)])

    found.drop(lambda each: each.shard == 1, frozenset({2}))

    assert popped(found) == ["d"]
    assert known_keys(found) == {("ring", key) for key in "abdg"}
    assert not found.holds_any(lambda each: True)


def test_the_size_counts_what_is_in_the_levels() -> None:
    found = buffer(queue("one"), queue("two"))
    found.add([visit("a", name="one"), visit("b", name="two", priority=9)])
    found.add_page("two", 5, [visit("c", at=1, name="two"), visit("d", at=2, name="two")])

    assert found.size == 4
    found.pop(0.0)
    found.drop(lambda each: each.key == "c", frozenset({0}))
    assert found.size == 2


def test_a_page_older_than_what_waits_is_put_in_order() -> None:
    found = buffer()
    found.add_page("ring", 5, [visit("c", at=3)])
    found.add_page("ring", 5, [visit("a", at=1), visit("d", at=4)])

    assert popped(found) == ["a", "c", "d"]


def test_a_queue_at_its_limit_has_nothing_startable() -> None:
    """A backlog that may not start is no reason to wake slots or to refuse shards."""
    found = buffer(queue("one"), queue("two"), concurrency=1, part=1)
    found.queues["two"].limit(paused=False, concurrency=None, rate=None)
    found.add([visit(key, name="one") for key in "abc"])
    assert found.choice.startable(0.0) == 3

    found.pop(0.0)
    assert found.choice.startable(0.0) == 0

    found.add([visit("d", name="two")])
    assert found.choice.startable(0.0) == 1


def test_a_queue_without_visits_wants_no_part() -> None:
    found = buffer(concurrency=1, part=0)

    assert found.choice.startable(0.0) == 0
    assert not found.wants_part()

    found.add([visit("a")])
    found.choice.startable(0.0)
    assert found.wants_part()


def test_a_visit_that_waited_too_long_is_read_again() -> None:
    found = buffer()
    late = Tuning().stale + 1
    found.add([visit("old", read_at=0.0), visit("new", at=1, read_at=late)])

    assert popped(found, late) == ["new"]
    assert [each.key for each in found.take_stale()] == ["old"]
    assert found.take_stale() == []
    assert ("ring", "old") not in known_keys(found)


def test_a_stale_visit_spends_no_token_of_its_queue() -> None:
    """A2: the rate is for starts."""
    found = buffer()
    state = found.queues["ring"]
    state.limit(paused=False, concurrency=None, rate=0.1)
    state.bucket = Bucket(0.1, 0.0)
    found.add([visit(key, read_at=0.0) for key in "abc"])

    assert popped(found, 10.0) == []
    assert len(found.take_stale()) == 3

    found.add([visit("a", read_at=10.0)])
    assert popped(found, 10.0) == ["a"]


def test_a_stale_visit_spends_no_token_of_its_group() -> None:
    """A2: what the group keeps is as old and is forgotten too; the group is read anew."""
    found = buffer(group_rate=0.1)
    found.add([visit(key, group="g", read_at=0.0) for key in "abc"])
    assert popped(found, 0.0) == []

    assert popped(found, 10.0) == []
    assert known_keys(found) == set()
    assert found.queues["ring"].groups.hungry() == ["g"]

    found.refill("ring", "g", [visit(key, group="g", read_at=10.0) for key in "abc"], more=False)
    assert popped(found, 10.0) == ["a"]


def test_a_part_that_is_lent_while_a_visit_is_chosen_is_not_used() -> None:
    """The heart may shrink the part between the choice and the start: the gate decides."""
    found = buffer(concurrency=10, part=1)
    state = found.queues["ring"]
    first = visit("a", group="g")
    found.add([first])
    admit = state.groups.admit

    def lend(each: Visit, now: float) -> str:
        state.part = 0
        return admit(each, now)

    state.groups.admit = lend  # type: ignore[method-assign]

    assert found.pop(0.0) is None
    assert (state.running, found.size) == (0, 1)

    state.part, state.groups.admit = 1, admit  # type: ignore[method-assign]
    assert found.pop(0.0) == first


def test_a_visit_that_is_in_hand_or_was_settled_since_the_read_is_not_new() -> None:
    found = buffer()
    running, done = visit("a"), visit("b")
    found.add([running, done])
    found.read_sent()
    found.settled([run_of(done)])

    offered = visit("b", version=77)
    mine = frozenset({running.shard, done.shard})
    assert found.new_of([running, done, offered], mine) == [offered]
    assert found.new_of([offered], frozenset()) == []

    found.read_sent()
    assert found.new_of([done], mine) == [done]


def test_with_nothing_to_wait_for_there_is_no_next_time() -> None:
    found = buffer()

    assert found.pop(0.0) is None
    assert found.next_at() == math.inf


# -- background queues


def background(share: float = 0.25, slots: int = 8) -> Buffer:
    settings = [queue(), queue("crawl", share=share), queue("crawl too", share=share)]
    found = Buffer(settings, threading.Lock(), slots=slots)
    for each in found.queues.values():
        each.limit(paused=False, concurrency=None, rate=None)
    return found


def test_a_background_queue_gets_its_share_of_the_starts_under_any_load():
    """S18: it is not starved, although everything else has greater priority."""
    found = background()
    found.add(visit(f"live{n}", at=n) for n in range(40))
    found.add(visit(f"crawl{n}", at=n, name="crawl", priority=2) for n in range(40))

    started = []
    for _ in range(40):
        ready = found.pop(0)
        started.append(ready.queue)
        found.ended(ready)

    assert started[:5] == ["ring"] * 4 + ["crawl"]
    assert started[5:].count("crawl") == 8  # of 35: a quarter


def test_background_queues_together_leave_slots_to_others():
    """S18: a live visit finds a free slot, however long the others' runs take."""
    found = background()
    found.add(visit(f"a{n}", name="crawl", priority=2) for n in range(10))
    found.add(visit(f"b{n}", name="crawl too", priority=2) for n in range(10))

    first, second, third = found.pop(0), found.pop(0), found.pop(0)
    assert (first is not None, second is not None, third) == (True, True, None)
    assert found.choice.startable(0) == 0

    found.ended(first)
    assert found.choice.startable(0) > 0
    assert found.pop(0) is not None


def test_a_background_queue_runs_alone_when_nothing_else_waits():
    found = background(share=0.01)
    found.add([visit("a", name="crawl", priority=2)])

    assert found.pop(0).key == "a"


def test_a_turn_goes_to_the_most_urgent_of_those_that_wait_for_it() -> None:
    """S14: the others wait on, and have it one after the other."""
    found = buffer(*(queue(name, turns="t") for name in ("one", "two", "three", "four")))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=3, name="two"), visit("a", at=2, name="three")])
    found.add([visit("a", at=4, name="four")])
    assert popped(found) == ["a"]

    found.ended(first)
    found.settled([run_of(first)])
    second = found.pop(0.0)

    assert second is not None
    assert second.queue == "three"
    assert popped(found) == []

    found.ended(second)
    found.settled([run_of(second)])
    third = found.pop(0.0)

    assert third is not None
    assert third.queue == "two"


def test_whoever_comes_first_has_a_turn_that_nobody_runs_in() -> None:
    found = buffer(*(queue(name, turns="t") for name in ("one", "two", "three", "high")))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=2, name="two"), visit("a", at=3, name="three")])
    popped(found)
    found.ended(first)
    found.settled([run_of(first)])
    found.add([visit("a", at=9, name="high", priority=9)])

    urgent = found.pop(0.0)

    assert urgent is not None
    assert urgent.queue == "high"
    assert popped(found) == []
    found.ended(urgent)
    found.settled([run_of(urgent)])
    assert popped(found) == ["a"]


def test_a_queue_that_is_paused_holds_no_turn_up() -> None:
    """S2: its visit was called up, but the others of the entity go on without it."""
    found = buffer(*(queue(name, turns="t") for name in ("one", "two", "three")))
    first = visit("a", at=1, name="one")
    found.add([first, visit("a", at=2, name="two"), visit("a", at=3, name="three")])
    popped(found)
    found.ended(first)
    found.settled([run_of(first)])

    pause(found, "two", True)
    found.release_turns()  # as after any look at the settings
    other = found.pop(0.0)

    assert other is not None
    assert other.queue == "three"


def test_a_turn_is_not_lost_with_the_visit_that_was_called_up() -> None:
    found = buffer(*(queue(name, turns="t") for name in ("one", "two", "three")))
    first = visit("a", at=1, name="one")
    called = visit("a", at=2, name="two", read_at=0.0)
    found.add([first, called, visit("a", at=3, name="three")])
    popped(found)
    found.ended(first)
    found.settled([run_of(first)])

    other = found.pop(Tuning().stale + 1)

    assert found.take_stale() == [called]
    assert other is not None
    assert other.queue == "three"


def test_visits_that_come_back_are_started_by_their_age() -> None:
    """T4: and no page is sorted again for them."""
    found = buffer(queue("one", turns="t"), queue("two", turns="t"))
    firsts = [visit(key, at=n, name="one") for n, key in enumerate("abc")]
    found.add([*firsts, *(visit(key, at=10 + n, name="two") for n, key in enumerate("abcdef"))])
    assert popped(found) == ["a", "b", "c", "d", "e", "f"]
    found.add([visit("g", at=30, name="two"), visit("h", at=31, name="two")])

    for each in reversed(firsts):
        found.ended(each)
        found.settled([run_of(each)])

    assert popped(found) == ["a", "b", "c", "g", "h"]


def test_what_was_read_is_new_unless_its_own_queue_has_the_key_in_hand() -> None:
    found = buffer(queue("a"), queue("b"), queue("c"))
    found.add([visit("x", queue="a")])
    found.consumed.add(visit("x", queue="c", version=7).version)

    read = [
        visit("x", queue="a"),
        visit("x", queue="b"),
        visit("x", queue="c", version=7),
        visit("x", queue="c", version=8),
        visit("y", queue="a", shard=1),
    ]

    fresh = found.new_of(read, frozenset({0}))
    assert [(v.queue, v.key, v.version) for v in fresh[1:]] == [("c", "x", 8)]
    assert fresh[0].queue == "b"


def test_only_visits_that_wait_for_a_slot_for_a_while_may_go_to_another_worker() -> None:
    """What a slot takes at once, and what a limit keeps back, would go to and fro."""
    found = buffer(queue("a"), queue("limited"), queue("paused"))
    found.queues["limited"].limit(paused=False, concurrency=1, rate=None)
    pause(found, "paused", True)
    found.add(
        [
            visit("just read", queue="a", shard=1, read_at=9.9),
            visit("waited", queue="a", shard=2, read_at=9.7),
            visit("waited too", queue="a", shard=2, read_at=9.0),
            visit("handed over", queue="a", shard=3),  # nobody knows since when it waits
            visit("kept back", queue="limited", shard=4, read_at=1.0),
            visit("kept back", queue="paused", shard=5, read_at=1.0),
        ]
    )

    assert found.choice.waited_by_shard(10.0, 0.2, found.queues) == {2: 2, 3: 1}
    assert found.choice.waited_by_shard(10.0, 0.2, {"limited"}) == {}


def leaving(slots: int = 8, names: str = "abc") -> Buffer:
    settings = [queue(name, leaves_slots=True) for name in names]
    found = Buffer(
        [*settings, queue("crawl", share=0.5), queue("task")], threading.Lock(), slots=slots
    )
    for name in found.queues:
        found.queues[name].limit(paused=False, concurrency=None, rate=None)
    return found


def wait_for(found: Buffer, name: str, count: int) -> None:
    found.add([visit(f"{name}{n:02}", name=name) for n in range(count)])


def test_a_queue_with_runs_leaves_a_slot_to_each_that_has_none() -> None:
    """S2: however slow it is, another that gets something to do can start at once."""
    found = leaving()
    wait_for(found, "a", 20)
    assert len(popped(found)) == 6, "two of eight are left to b and c"
    assert not found.choice.can_start(0.0)

    wait_for(found, "b", 20)
    assert popped(found) == ["b00"], "and the last one is left to c"
    wait_for(found, "c", 20)
    assert popped(found) == ["c00"]


def test_the_end_of_a_run_leaves_its_slot_to_whoever_has_none() -> None:
    """S2: two slow ones do not crowd out a third."""
    found = leaving()
    wait_for(found, "a", 20)
    wait_for(found, "b", 20)
    assert len(popped(found)) == 7
    found.ended(visit("a00", name="a"))
    assert popped(found) == ["a06"]
    wait_for(found, "c", 1)
    assert popped(found) == ["c00"]


def test_no_more_than_a_quarter_of_the_slots_is_left() -> None:
    found = leaving(slots=8, names="abcdefgh")
    wait_for(found, "a", 20)
    assert len(popped(found)) == 6
    few = leaving(slots=3)
    wait_for(few, "a", 20)
    assert len(popped(few)) >= 3, "of three, none"


def test_a_background_queue_leaves_slots_too_and_others_need_not() -> None:
    found = leaving(slots=8, names="ab")
    wait_for(found, "a", 5)
    wait_for(found, "crawl", 5)
    assert len(popped(found)) == 7
    wait_for(found, "task", 1)
    assert popped(found) == ["task00"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_background_queue_is_owed_a_choice_only_while_it_has_visits(waits: bool) -> None:
    found = buffer(queue("live"), queue("crawl", share=0.25))
    found.add([visit(f"{n:02}", at=n, name="live") for n in range(20)])
    if waits:
        found.add([visit("c", name="crawl", priority=1)])
    found.pop(0.0)

    followed = 0
    while found.another(0.0) is not None:
        followed += 1

    assert followed == (3 if waits else 19)
