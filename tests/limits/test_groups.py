"""Groups: counted exactly, kept in part, forgotten when idle. Pure memory."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.kernel.visit import Visit
from mainspring.limits import Groups
from mainspring.limits.tuning import DEFAULT

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()


def visit(n: int, *, group: str = "g", shard: int = 0, priority: int = 5) -> Visit:
    key = f"{group} {n:03}"
    return Visit(shard, key, "ring", UUID(int=1), group, priority, NOON + n, n, 0, 0, None, "{}")


def visits(count: int, **fields: Any) -> list[Visit]:
    return [visit(n, **fields) for n in range(count)]


def groups(concurrency: int | None = None, rate: float | None = None) -> Groups:
    found = Groups()
    found.limit(concurrency, rate, 0.0)
    return found


def admitted(found: Groups, some: list[Visit], now: float = 0.0) -> list[str]:
    return [found.admit(each, now) for each in some]


def running(found: Groups) -> dict[str, int]:
    return {group.name: group.running for group in found}


class TestAdmission:
    def test_without_limits_everything_starts_and_is_counted(self) -> None:
        found = groups()

        assert admitted(found, visits(3)) == ["started"] * 3
        assert running(found) == {"g": 3}

    def test_a_full_group_keeps_a_few_and_leaves_the_rest(self) -> None:
        found = groups(2)

        answers = admitted(found, visits(DEFAULT.group_keeps + 4))

        assert answers == ["started"] * 2 + ["kept"] * DEFAULT.group_keeps + ["left"] * 2
        assert found.behind() == ["g"]
        assert found.is_behind("g")

    def test_what_comes_after_one_that_was_left_does_not_overtake_it(self) -> None:
        """Of a page that was read before the group was full, when there is room again."""
        found = groups(1)
        some = visits(DEFAULT.group_keeps + 4)
        assert (
            admitted(found, some[:-1])
            == ["started"] + ["kept"] * DEFAULT.group_keeps + ["left"] * 2
        )
        for each in some[: DEFAULT.group_keeps + 1]:
            for freed in found.ended(each):
                assert found.admit(freed, 0.0) == "started"

        assert found.hungry() == ["g"]
        assert found.admit(some[-1], 0.0) == "left"
        [first] = found.refill("g", some[-3:-1], more=False)
        assert found.admit(first, 0.0) == "started"

    def test_once_something_was_left_all_that_follows_is_left(self) -> None:
        """What is kept must come before what is in the database."""
        found = groups(1)
        first, *rest = visits(DEFAULT.group_keeps + 3)
        admitted(found, [first, *rest[: DEFAULT.group_keeps + 1]])
        [freed] = found.ended(first)
        assert found.admit(freed, 0.0) == "started"

        assert found.admit(rest[-1], 0.0) == "left"

    def test_groups_are_counted_apart(self) -> None:
        found = groups(1)

        assert admitted(found, [visit(1, group="g"), visit(2, group="h")]) == ["started"] * 2

    def test_what_others_run_counts(self) -> None:
        found = groups(2)
        found.foreign = {"g": 1}

        assert admitted(found, visits(2)) == ["started", "kept"]


class TestRelease:
    def test_an_end_frees_the_first_by_priority_then_age(self) -> None:
        found = groups(1)
        first = visit(0)
        admitted(found, [first, visit(3), visit(2), visit(4, priority=9)])

        assert found.ended(first) == [visit(4, priority=9)]

    def test_as_many_are_freed_as_there_is_room_for(self) -> None:
        found = groups(3)
        found.foreign = {"g": 2}
        some = visits(5)
        assert admitted(found, some) == ["started"] + ["kept"] * 4

        found.foreign = {}
        [group] = found
        assert found.release(group) == some[1:3]

    def test_over_its_limit_a_group_frees_nothing(self) -> None:
        found = groups(3)
        some = visits(5)
        admitted(found, some)
        found.limit(1, None, 0.0)

        assert found.ended(some[0]) == []
        assert found.ended(some[1]) == []
        assert found.ended(some[2]) == [some[3]]

    def test_an_idle_group_is_forgotten(self) -> None:
        found = groups(1)
        first = visit(0)
        found.admit(first, 0.0)

        found.ended(first)

        assert len(found) == 0


class TestLimitsThatChange:
    def test_the_same_limits_are_no_change(self) -> None:
        found = groups(1, 2.0)

        assert not found.limit(1, 2.0, 0.0)
        assert found.limit(2, 2.0, 0.0)

    def test_a_limit_lifted_during_a_run_and_set_again_leaves_no_ghost(self) -> None:
        found = groups(1)
        first = visit(1)
        found.admit(first, 0.0)
        found.limit(None, None, 0.0)
        found.ended(first)
        found.limit(1, None, 0.0)

        assert found.admit(visit(2), 0.0) == "started"

    def test_runs_started_without_a_limit_count_when_one_is_set(self) -> None:
        found = groups()
        admitted(found, visits(2))
        found.limit(2, None, 0.0)

        assert found.admit(visit(3), 0.0) == "kept"

    def test_a_lifted_limit_frees_all(self) -> None:
        found = groups(1)
        some = visits(20)
        admitted(found, some)
        found.limit(None, None, 0.0)

        [group] = found
        assert found.release(group) == some[1:]

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("add"), st.integers(0, 2)),
                st.tuples(st.just("end"), st.integers(0, 100)),
                st.tuples(st.just("limit"), st.sampled_from([None, 1, 2, 5])),
                st.tuples(st.just("rate"), st.sampled_from([None, 0.5, 10.0])),
            ),
            max_size=80,
        )
    )
    def test_the_count_never_drifts(self, moves: list[tuple[str, Any]]) -> None:
        """Whatever the limits do, a group's count is what runs."""
        found, now, number = groups(), 0.0, 0
        under_way: list[Visit] = []

        def enter(some: list[Visit]) -> None:
            under_way.extend(each for each in some if found.admit(each, now) == "started")

        for move, value in moves:
            now += 0.05
            if move == "add":
                number += 1
                enter([visit(number, group=f"g{value}")])
            elif move == "end" and under_way:
                enter(found.ended(under_way.pop(value % len(under_way))))
            elif move in ("limit", "rate"):
                size, rate = found.concurrency, found.rate
                found.limit(*((value, rate) if move == "limit" else (size, value)), now)
                for group in found:
                    enter(found.release(group))
            enter(found.release_rated(now))

            actual = {name: count for name, count in running(found).items() if count}
            expected = {name: 0 for name in actual}
            for each in under_way:
                expected[each.group] = expected.get(each.group, 0) + 1
            assert actual == expected


class TestRates:
    def test_a_new_group_waits_for_its_first_token(self) -> None:
        found = groups(rate=10.0)

        assert found.admit(visit(1), 0.0) == "kept"
        assert found.next_at() == pytest.approx(0.1)
        assert found.release_rated(0.05) == []
        assert found.release_rated(0.1) == [visit(1)]
        assert found.admit(visit(1), 0.1) == "started"

    def test_one_token_starts_one(self) -> None:
        found = groups(rate=10.0)
        admitted(found, visits(5))
        started = []
        for tenths in range(1, 4):
            freed = found.release_rated(tenths / 10 + 1e-9)
            started += [v for v in freed if found.admit(v, tenths / 10 + 1e-9) == "started"]

        assert started == visits(3)

    def test_one_that_tries_too_early_keeps_its_place(self) -> None:
        """Left in the database, it would have all that is kept wait behind it."""
        found = groups(rate=10.0)
        some = visits(DEFAULT.group_keeps + 4)
        assert admitted(found, some) == ["kept"] * DEFAULT.group_keeps + ["left"] * 4
        [first] = found.release_rated(0.1)
        [group] = found
        [early] = found.release(group)

        assert found.admit(first, 0.1) == "started"
        assert found.admit(early, 0.1) == "kept"
        assert found.take_dropped() == []
        [second] = found.release_rated(0.2)
        assert (second, found.admit(second, 0.2)) == (early, "started")

    def test_an_urgent_one_takes_the_place_of_the_last(self) -> None:
        found = groups(rate=10.0)
        admitted(found, visits(DEFAULT.group_keeps))

        assert found.admit(visit(99, priority=9), 0.0) == "kept"
        assert found.take_dropped() == [visit(DEFAULT.group_keeps - 1)]
        assert found.take_dropped() == []
        assert found.admit(visit(DEFAULT.group_keeps), 0.0) == "left"
        assert found.release_rated(0.1) == [visit(99, priority=9)]

    def test_starts_follow_the_rate_and_wait_for_no_end(self) -> None:
        """Also after a read of the group, of whose visits only the first has tried."""
        found = groups(rate=10.0)
        found.admit(visit(0), 0.0)
        [first] = found.release_rated(0.1)
        assert found.admit(first, 0.1) == "started"
        [early] = found.refill("g", visits(5)[1:], more=False)
        assert found.admit(early, 0.1) == "kept"
        started = []
        for now in (0.25, 0.4, 0.55, 0.7):
            for freed in found.release_rated(now):
                assert found.admit(freed, now) == "started"
                started.append(freed)

        assert started == visits(5)[1:]

    def test_a_rated_group_is_forgotten_when_its_bucket_is_full(self) -> None:
        """Not before: a new bucket begins full. Not never: groups are many."""
        found = groups(rate=10.0)
        found.admit(visit(1), 0.0)
        found.release_rated(0.1)
        found.admit(visit(1), 0.1)
        found.ended(visit(1))

        found.release_rated(0.15)
        assert len(found) == 1
        found.release_rated(0.3 + DEFAULT.group_rests)
        assert len(found) == 0

    def test_a_group_that_has_run_since_is_not_forgotten_when_it_would_have_been(self) -> None:
        """T13: a new bucket would begin with tokens that were used."""
        found = groups()
        found.own(frozenset([0]), now=0.0)
        found.limit(None, 0.1, now=0.0, burst=3)
        for now in (100.0, 105.0, 105.1):
            assert found.admit(visit(1), now) == "started"
            found.ended(visit(1))
        found.release_rated(112.0)  # when the first of them would have dripped again

        assert found.admit(visit(1), 112.0) == "started"
        found.ended(visit(1))
        assert found.admit(visit(1), 112.1) == "kept"

    def test_many_rated_groups_leave_nothing_behind(self) -> None:
        found, now = groups(rate=1000.0), 0.0
        for n in range(200):
            each = visit(n, group=f"g{n}")
            found.admit(each, now)
            now += 0.01
            found.release_rated(now)
            assert found.admit(each, now) == "started"
            found.ended(each)
            now += 1.0 + DEFAULT.group_rests
            found.release_rated(now)

        assert len(found) == 0
        assert found.next_at() == math.inf

    def test_a_lifted_rate_frees_all(self) -> None:
        found = groups(rate=0.001)
        admitted(found, visits(20))
        found.limit(None, None, 1.0)

        [group] = found
        assert found.release(group) == visits(20)
        assert admitted(found, visits(20), 1.0) == ["started"] * 20


class TestReading:
    def hungry(self, concurrency: int = 1) -> tuple[Groups, list[Visit]]:
        """A group whose runs have used up all that was kept; more is in the database."""
        found = groups(concurrency)
        some = visits(DEFAULT.group_keeps + 5)
        under_way = [each for each in some if found.admit(each, 0.0) == "started"]
        while under_way:
            for each in found.ended(under_way.pop(0)):
                assert found.admit(each, 0.0) == "started"
                under_way.append(each)
        return found, some

    def test_a_group_that_used_up_what_it_kept_is_hungry(self) -> None:
        found, _ = self.hungry()

        assert found.hungry() == ["g"]

    def test_a_full_group_is_not_hungry(self) -> None:
        found = groups(1)
        admitted(found, visits(DEFAULT.group_keeps + 5))

        assert found.hungry() == []

    def test_a_refill_frees_as_many_as_there_is_room_for(self) -> None:
        found, some = self.hungry(3)

        assert found.refill("g", some[-4:], more=False) == some[-4:-1]
        assert found.behind() == []
        assert found.hungry() == []

    def test_while_there_is_more_the_group_stays_behind(self) -> None:
        found, some = self.hungry()

        found.refill("g", some[-4:], more=True)

        assert found.behind() == ["g"]

    def test_a_refill_of_nothing_forgets_the_group(self) -> None:
        found, _ = self.hungry()

        assert found.refill("g", [], more=False) == []
        assert len(found) == 0

    def test_a_refill_of_a_group_that_was_forgotten_is_passed_on(self) -> None:
        assert groups(1).refill("g", visits(2), more=False) == visits(2)

    def test_stale_visits_are_answered_and_the_group_is_read_anew(self) -> None:
        found = groups(1)
        admitted(found, visits(4))
        assert not found.is_behind("g")

        assert found.stale("g") == visits(4)[1:]
        assert found.is_behind("g")
        assert groups().stale("unknown") == []


class TestShardsGivenAway:
    def test_what_is_not_wanted_is_no_longer_kept(self) -> None:
        found = groups(1)
        mine, other = (
            visits(3, group="g", shard=1),
            visits(DEFAULT.group_keeps + 3, group="h", shard=2),
        )
        admitted(found, [*mine, *other])

        found.sift(lambda kept: [v for v in kept if v.shard == 1], frozenset({1}))

        assert {group.name: len(group.kept) for group in found} == {"g": 2, "h": 0}
        assert found.behind() == []
        assert found.ended(mine[0]) == [mine[1]]
        assert found.ended(other[0]) == []
        assert [group.name for group in found] == ["g"]

    def test_a_shard_that_came_back_is_read_anew(self) -> None:
        found = groups(1)
        admitted(found, visits(DEFAULT.group_keeps + 3))

        found.sift(lambda kept: [], frozenset({0}))

        assert found.hungry() == []
        found.ended(visit(0))
        assert found.hungry() == ["g"]


def test_where_there_are_many_groups_each_keeps_fewer() -> None:
    """All of them wait for their rate: else a worker would have 32 visits of each in memory."""
    tuning = replace(DEFAULT, groups_keep=4000)
    found = Groups(tuning)
    found.limit(None, 0.001, 0.0)
    names = [f"tenant {n}" for n in range(2 * tuning.groups_keep)]
    kept = sum(
        admitted(found, visits(DEFAULT.group_keeps + 1, group=name)).count("kept") for name in names
    )

    assert found.keeps == 1
    assert sorted(found.hungry()) == []
    assert len(names) <= kept <= 7 * tuning.groups_keep
