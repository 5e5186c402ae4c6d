"""Leases: who is dead, who takes what, who gives what to whom. Pure decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from mainspring.sharing.shares import (
    Gift,
    Lease,
    Peer,
    Watch,
    load_gift,
    shards_to_take,
    surplus_gift,
)

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
ME, ANN, BOB = sorted((uuid4() for _ in range(3)), key=str)


def peer(id: UUID, beat: int = 0, *, free: int = 0) -> Peer:
    return Peer(id, beat, frozenset({"ring"}), 4, free, STARTED, "here", 1, True)


def leases(*owners: UUID | None, offered: dict[int, UUID] | None = None) -> list[Lease]:
    offered = offered or {}
    return [Lease("default", n, owner, 1, offered.get(n), None) for n, owner in enumerate(owners)]


class TestWatch:
    """T2: a worker that stops beating is taken over, and only such a worker."""

    def test_a_worker_that_stands_still_for_a_lease_time_is_dead(self) -> None:
        watch = Watch(10)
        for now in range(0, 10, 2):
            assert watch.look([peer(ANN, 7)], me=ME, now=now) == []

        assert watch.look([peer(ANN, 7)], me=ME, now=10) == [peer(ANN, 7)]

    def test_any_change_of_the_counter_is_movement(self) -> None:
        watch = Watch(10)
        for now in range(0, 100, 2):
            beat = 7 if now % 8 else 3  # backwards counts too

            assert watch.look([peer(ANN, beat)], me=ME, now=now) == []

    def test_after_a_gap_of_my_own_i_know_nothing_of_the_others(self) -> None:
        watch = Watch(10)
        watch.look([peer(ANN, 7)], me=ME, now=0)

        assert watch.look([peer(ANN, 7)], me=ME, now=60) == []
        assert watch.look([peer(ANN, 7)], me=ME, now=65) == []
        assert watch.look([peer(ANN, 7)], me=ME, now=70) == [peer(ANN, 7)]

    def test_a_beat_that_came_while_the_server_was_slow_counts_from_the_answer(self) -> None:
        """Asked at 2, answered at 6: it may have beaten at 6, and its runs go on until 13."""
        watch = Watch(10)
        watch.look([peer(ANN, 7)], me=ME, now=0)
        watch.look([peer(ANN, 8)], me=ME, now=2, read_at=6)
        for now in (6, 8, 10, 12, 14):
            assert watch.look([peer(ANN, 8)], me=ME, now=now) == []

        assert watch.look([peer(ANN, 8)], me=ME, now=16) == [peer(ANN, 8)]

    def test_i_never_declare_myself_dead(self) -> None:
        watch = Watch(10)

        assert all(watch.look([peer(ME, 7)], me=ME, now=now) == [] for now in range(50))

    def test_a_worker_that_came_later_has_a_lease_time_of_its_own(self) -> None:
        watch = Watch(10)
        for now in range(0, 8, 2):
            watch.look([peer(ANN, 1)], me=ME, now=now)

        dead = [watch.look([peer(ANN, 1), peer(BOB, 1)], me=ME, now=now) for now in range(8, 20, 2)]

        assert [peer(BOB, 1) in found for found in dead] == [False] * 5 + [True]


class TestTaking:
    def test_alone_i_take_everything(self) -> None:
        assert shards_to_take(leases(None, None, None), {ME}, me=ME) == 3

    def test_with_others_i_take_a_fair_share(self) -> None:
        assert shards_to_take(leases(*[None] * 5), {ME, ANN}, me=ME) == 3

    def test_what_i_have_counts(self) -> None:
        assert shards_to_take(leases(ME, ME, None, None), {ME, ANN}, me=ME) == 0

    def test_what_was_freed_for_me_is_taken_above_my_share(self) -> None:
        found = leases(ME, ME, None, ANN, offered={2: ME})

        assert shards_to_take(found, {ME, ANN}, me=ME) == 1

    def test_what_was_freed_for_another_is_left_to_it(self) -> None:
        assert shards_to_take(leases(None, offered={0: ANN}), {ME, ANN}, me=ME) == 0

    def test_what_was_freed_for_one_that_is_gone_is_anyone_s(self) -> None:
        assert shards_to_take(leases(None, offered={0: ANN}), {ME}, me=ME) == 1


class TestGiving:
    def test_what_i_have_above_my_share_goes_to_the_poorest(self) -> None:
        found = leases(ME, ME, ME, ME, ANN, ANN)

        assert surplus_gift(found, [peer(ME), peer(ANN), peer(BOB)], me=ME) == Gift(BOB, [2, 3])

    def test_an_even_division_moves_nothing(self) -> None:
        assert surplus_gift(leases(ME, ME, ANN), [peer(ME), peer(ANN)], me=ME) is None

    def test_alone_nothing_is_given(self) -> None:
        assert surplus_gift(leases(ME, ME), [peer(ME)], me=ME) is None

    def test_what_is_on_its_way_to_a_worker_counts_as_its_own(self) -> None:
        found = leases(ME, ME, None, None, offered={2: ANN, 3: ANN})

        assert surplus_gift(found, [peer(ME), peer(ANN)], me=ME) is None

    @given(st.lists(st.sampled_from([ME, ANN, BOB]), min_size=1, max_size=40))
    def test_gifts_come_to_rest_with_fair_shares(self, owners: list[UUID]) -> None:
        peers = [peer(ME), peer(ANN), peer(BOB)]
        owned = list(owners)
        for _ in range(100):
            gifts = [surplus_gift(leases(*owned), peers, me=p.id) for p in peers]
            gift = next((g for g in gifts if g is not None), None)
            if gift is None:
                break
            for shard in gift.shards:
                owned[shard] = gift.to
        counts = [owned.count(p.id) for p in peers]

        assert gift is None
        assert min(counts) >= len(owned) // 3

    def test_a_newcomer_gets_shards_where_all_others_have_a_fair_share(self) -> None:
        peers = [peer(ME), peer(ANN), peer(BOB)]

        gift = surplus_gift(leases(ME, ME, ANN, ANN), peers, me=ME)

        assert gift == Gift(BOB, [1])

    def test_waiting_visits_go_to_a_worker_with_free_slots(self) -> None:
        gift = load_gift({1: 2, 2: 1, 3: 9}, [peer(ME), peer(ANN, free=3)], me=ME, keep=())

        assert gift == Gift(ANN, [2, 1])

    def test_to_the_one_with_most_free_slots(self) -> None:
        peers = [peer(ME), peer(ANN, free=1), peer(BOB, free=2)]

        assert load_gift({1: 1}, peers, me=ME, keep=()) == Gift(BOB, [1])

    def test_nobody_is_idle_so_nothing_is_given(self) -> None:
        assert load_gift({1: 5}, [peer(ME), peer(ANN)], me=ME, keep=()) is None

    def test_a_shard_that_came_as_a_gift_stays_for_a_while(self) -> None:
        assert load_gift({1: 5}, [peer(ME), peer(ANN, free=4)], me=ME, keep={1}) is None
