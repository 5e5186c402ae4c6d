"""Limits: buckets drip at their rate, and parts never add up to more than the limit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.limits import Bucket, Part
from mainspring.limits.parts import next_rate, next_size


class TestBucket:
    def test_a_new_bucket_is_empty(self) -> None:
        """After a takeover nobody knows what the dead worker has used."""
        assert Bucket(10, now=0).ready_at(0) == pytest.approx(0.1)

    def test_a_token_drips_in_its_time(self) -> None:
        bucket = Bucket(10, now=0)

        assert bucket.ready_at(0.1) == 0.1
        bucket.take(0.1)
        assert bucket.ready_at(0.1) == pytest.approx(0.2)

    def test_an_idle_bucket_holds_a_tenth_of_a_second_s_worth(self) -> None:
        bucket = Bucket(100, now=0)
        taken = 0
        while bucket.ready_at(1000) <= 1000:
            bucket.take(1000)
            taken += 1

        assert taken == 10

    def test_without_a_rate_there_is_never_a_token(self) -> None:
        assert Bucket(0, now=0).ready_at(99) == math.inf

    def test_another_rate_applies_from_then_on(self) -> None:
        bucket = Bucket(1, now=0)

        bucket.change(10, now=0.5)

        assert bucket.ready_at(0.5) == pytest.approx(0.55)

    def test_a_clock_that_stands_still_or_goes_back_gives_nothing(self) -> None:
        bucket = Bucket(10, now=5)
        bucket.ready_at(5)

        assert bucket.ready_at(4) > 4

    @given(
        rate=st.floats(0.5, 500),
        steps=st.lists(st.floats(0, 0.5), max_size=80),
    )
    def test_never_more_starts_than_the_rate_allows(self, rate: float, steps: list[float]) -> None:
        bucket, now, taken = Bucket(rate, now=0), 0.0, 0
        for step in steps:
            now += step
            while bucket.ready_at(now) <= now:
                bucket.take(now)
                taken += 1

            assert taken <= now * rate + max(1.0, rate / 10) + 1e-6


class TestSizes:
    def test_alone_i_take_the_whole_limit(self) -> None:
        assert next_size(8, 0, [], wants=True, running=0) == 8

    def test_who_wants_nothing_keeps_what_runs(self) -> None:
        assert next_size(8, 8, [], wants=False, running=3) == 3

    def test_where_another_wants_i_shrink_to_a_fair_share(self) -> None:
        assert next_size(8, 8, [Part(0, 0, wants=True)], wants=True, running=2) == 4

    def test_but_never_below_what_runs(self) -> None:
        assert next_size(8, 8, [Part(0, 0, wants=True)], wants=True, running=7) == 7

    def test_one_permit_goes_round(self) -> None:
        """With fewer permits than workers one that has had its turn gives its permit up."""
        assert next_size(1, 1, [Part(0, 0, wants=True)], wants=True, running=0) == 0
        assert next_size(1, 0, [Part(0, 0, wants=True)], wants=True, running=0) == 1

    @pytest.mark.parametrize(("limit", "workers"), [(10, 4), (5, 4), (7, 2), (4, 4), (23, 7)])
    def test_what_the_division_leaves_over_is_used(self, limit: int, workers: int) -> None:
        """T13: 10 permits of 4 workers are all used, whoever held how many before; none starves."""
        parts = [Part(limit, 0, wants=True), *[Part(0, 0, wants=True)] * (workers - 1)]
        for _ in range(4):
            for who in range(workers):
                others = [part for n, part in enumerate(parts) if n != who]
                size = next_size(limit, parts[who].size, others, wants=True, running=0)
                parts[who] = Part(size, 0, wants=True)

        sizes = {part.size for part in parts}
        assert sum(part.size for part in parts) == limit
        assert sizes <= {limit // workers, -(-limit // workers)}

    def test_a_lowered_limit_is_kept_as_runs_end(self) -> None:
        assert next_size(2, 8, [], wants=True, running=5) == 5
        assert next_size(2, 5, [], wants=True, running=1) == 2

    @given(
        limit=st.integers(1, 20),
        mine=st.integers(0, 30),
        others=st.lists(st.builds(Part, st.integers(0, 20), st.just(0.0), st.booleans())),
        wants=st.booleans(),
        running=st.integers(0, 30),
    )
    def test_after_any_change_of_the_limit_only_what_runs_is_above_it(
        self, limit: int, mine: int, others: list[Part], wants: bool, running: int
    ) -> None:
        """A7: never above what the others leave of the limit, never below what runs."""
        runs = min(running, mine)
        left = limit - sum(part.size for part in others)

        size = next_size(limit, mine, others, wants=wants, running=runs)

        assert runs <= size <= max(runs, left)

    @given(
        moves=st.lists(
            st.tuples(
                st.integers(0, 2), st.booleans(), st.integers(0, 10), st.sampled_from([1, 4, 9])
            ),
            max_size=60,
        ),
    )
    def test_parts_come_down_to_a_lowered_limit(
        self, moves: list[tuple[int, bool, int, int]]
    ) -> None:
        parts = [Part(0, 0, wants=False)] * 3
        limit = 4
        for who, wants, running, limit in moves:
            others = [part for n, part in enumerate(parts) if n != who]
            runs = min(running, parts[who].size)
            size = next_size(limit, parts[who].size, others, wants=wants, running=runs)
            parts[who] = Part(size, 0, wants)
        for _ in range(3):
            for who in range(3):
                others = [part for n, part in enumerate(parts) if n != who]
                size = next_size(limit, parts[who].size, others, wants=True, running=0)
                parts[who] = Part(size, 0, wants=True)

        assert sum(part.size for part in parts) <= limit

    @given(
        limit=st.integers(1, 20),
        moves=st.lists(
            st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 20)), max_size=60
        ),
    )
    def test_parts_never_add_up_to_more_than_the_limit(
        self, limit: int, moves: list[tuple[int, bool, int]]
    ) -> None:
        """Under any interleaving: each move is one worker's turn under the queue row's lock."""
        parts = [Part(0, 0, wants=False)] * 4
        for who, wants, running in moves:
            mine = parts[who]
            others = [part for n, part in enumerate(parts) if n != who]
            size = next_size(limit, mine.size, others, wants=wants, running=min(running, mine.size))
            parts[who] = Part(size, 0, wants)

            assert sum(part.size for part in parts) <= limit
            assert size >= min(running, mine.size)

    @given(limit=st.integers(1, 10), order=st.permutations(range(5)))
    def test_every_worker_that_wants_gets_its_turn(self, limit: int, order: list[int]) -> None:
        parts = [Part(0, 0, wants=True)] * 5
        had = set()
        for who in order * 10:
            others = [part for n, part in enumerate(parts) if n != who]
            size = next_size(limit, parts[who].size, others, wants=True, running=0)
            parts[who] = Part(size, 0, wants=True)
            had |= {n for n, part in enumerate(parts) if part.size}

        assert had == set(range(5))


class TestRates:
    def test_alone_i_take_the_whole_rate(self) -> None:
        assert next_rate(100.0, 0.0, [], wants=True) == 100.0

    def test_where_another_wants_i_keep_a_share(self) -> None:
        assert next_rate(100.0, 100.0, [Part(0, 0.0, wants=True)], wants=True) == 50.0

    def test_who_wants_nothing_gives_all_back(self) -> None:
        assert next_rate(100.0, 60.0, [], wants=False) == 0.0

    @given(
        limit=st.floats(0.1, 1000),
        moves=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60),
    )
    def test_rates_never_add_up_to_more_than_the_limit(self, limit, moves) -> None:
        parts = [Part(0, 0.0, wants=False)] * 4
        for who, wants in moves:
            others = [part for n, part in enumerate(parts) if n != who]
            parts[who] = Part(0, next_rate(limit, parts[who].rate, others, wants=wants), wants)

            assert sum(part.rate for part in parts) <= limit * (1 + 1e-9)
