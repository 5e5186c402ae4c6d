"""Shards: memory and the lease table never name two owners, whatever was read when."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

import pytest

from mainspring.db.database import Database
from mainspring.db.session import Session
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.pool_view import LeaseRow
from mainspring.kernel.lease.shards import Shards
from mainspring.kernel.owned import Owned
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.sharing.bands import code_of
from mainspring.sharing.shares import Peer
from visits import Visits, queue

SETTINGS = WorkerSettings()


class Thoughtless:
    """A loop port that has nothing to say; what waits and what is free is set by the test."""

    waiting: dict[int, int]
    free = 0

    def __init__(self) -> None:
        self.waiting = {}

    def waiting_by_shard(self, _queues: Collection[str]) -> dict[int, int]:
        return self.waiting

    def free_slots(self) -> int:
        return self.free

    def hold_after(self, _run: Any) -> tuple[float, float | None]:
        return 1.0, None

    def suspects_done(self) -> bool:
        return False

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Owner:
    """A worker that is nothing but its shards, on a pooled connection: nobody is woken."""

    def __init__(self, url: str, visits: Visits) -> None:
        self.session = Session(Database(url, pooled=True))
        self.owned, self.thoughts = Owned(), Thoughtless()
        loop_port: LoopPort = self.thoughts  # type: ignore[assignment]
        self.shards = Shards(
            self.session, self.owned, loop_port, SETTINGS, code_of(["ring"], [None])
        )
        self.owned.worker_id = visits.join()

    def look(self) -> None:
        """What a beat reads."""
        with self.session.transaction():
            peers = self.session.rows(SQL["read_workers"], Peer, pool="default")
            leases = self.session.rows(SQL["read_leases"], LeaseRow, pool="default")
        self.shards.seen(peers, leases)


@pytest.fixture
def owners(visits: Visits, database_url: str) -> Iterator[list[Owner]]:
    visits.register(queue())
    visits.call("make_leases", pool="default")
    found = [Owner(database_url, visits)]
    found[0].look()
    found[0].shards.take()
    found.append(Owner(database_url, visits))
    yield found
    for owner in found:
        owner.session.disconnect()


def table(visits: Visits, owner: Owner) -> set[int]:
    rows = visits.query(
        "select shard from mainspring.lease where worker_id = %s", owner.owned.worker_id
    )
    return {row["shard"] for row in rows}


def test_shares_between_two_beats_give_each_shard_once(visits: Visits, owners) -> None:
    """A3: the leases are as old as the last beat, what was given since is noted."""
    one, two = owners
    one.look()
    one.shards.share(look=True)
    two.look()
    two.shards.take()
    assert len(two.owned.shards) == 512

    for _ in range(3):
        one.shards.share(look=True)

    assert table(visits, one) == one.owned.shards
    assert table(visits, two) == two.owned.shards
    assert len(one.owned.shards) == len(two.owned.shards) == 512


@pytest.mark.usefixtures("visits")
def test_what_is_given_twice_is_not_owned_again(visits: Visits, owners) -> None:
    """A3: the second give is of shards that are another's by now."""
    one, two = owners
    one.look()
    stale = dict(one.shards._view.leases)
    given = tuple(range(100))
    one.shards._give("default", given, two.owned.worker_id)
    two.look()
    two.shards.take()
    one.shards._view.leases = stale

    one.shards._give("default", given, None)

    assert not one.owned.shards & two.owned.shards
    assert set(given) <= table(visits, two)
    one.look()
    assert table(visits, one) == one.owned.shards


def test_waiting_visits_are_given_by_load_once(visits: Visits, owners) -> None:
    """A3: with slots free there, what waits here goes there, and is not counted as mine again."""
    one, two = owners
    visits.beat(two.owned.worker_id, slots=4, free=4)
    one.look()
    one.shards.share()  # the fair share
    two.look()
    two.shards.take()
    one.look()
    one.thoughts.waiting = {shard: 1 for shard in list(one.owned.shards)[:2]}
    going = set(one.thoughts.waiting)

    one.shards.share(look=True)
    two.look()
    two.shards.take()
    one.shards.share(look=True)

    assert going <= two.owned.shards
    assert not one.owned.shards & two.owned.shards
    assert one.owned.shards == table(visits, one)


def test_what_came_as_a_fair_share_may_go_by_load_at_once(visits: Visits, owners) -> None:
    """A3: a worker that has just joined has nothing but gifts; what came for its load stays a while."""
    one, two = owners
    one.look()
    one.shards.share()  # the fair share
    two.look()
    two.shards.take()
    visits.beat(one.owned.worker_id, slots=4, free=4)
    two.look()
    two.thoughts.waiting = {(shard := max(two.owned.shards)): 1}

    two.shards.share()

    assert shard not in two.owned.shards
    one.look()
    one.shards.take()
    assert shard in table(visits, one)
    visits.beat(two.owned.worker_id, slots=4, free=4)
    one.look()
    one.thoughts.waiting = {shard: 1}
    one.shards.share()
    assert shard in table(visits, one)


def test_a_shard_whose_run_cannot_be_held_stays(visits: Visits, owners) -> None:
    one, two = owners
    visits.offer("a")
    one.look()
    run = visits.start("a")
    one.owned.runs[run.token] = run
    visits.query("delete from mainspring.visit")  # there is nothing to hold any more
    shard = run.visit.shard

    one.shards._give("default", (shard, (shard + 1) % 1024), two.owned.worker_id)

    assert shard in one.owned.shards
    assert shard in one.owned.let_go_of  # what the loop had of it is dropped all the same
    assert table(visits, one) == one.owned.shards


def test_a_late_give_of_a_shard_that_was_adopted_again_comes_to_nothing(
    visits: Visits, owners
) -> None:
    """A give whose answer was lost is compared with the epoch under which the shard is mine."""
    one, _ = owners
    one.look()
    epochs = dict(one.shards._epochs)
    one.owned.let_go([5])
    one.look()
    assert 5 in one.owned.shards

    late = {"pool": "default", "worker_id": one.owned.worker_id, "shards": [5], "offered_to": None}
    assert visits.call("give_leases", **late, epochs=[epochs["default", 5]], epoch=1) == []
    assert 5 in table(visits, one)


def leaving(visits: Visits, worker_id: UUID | None) -> None:
    visits.beat(worker_id, slots=0, free=0)


def test_a_shard_offered_to_a_worker_that_is_leaving_is_anyone_s(visits: Visits, owners) -> None:
    """B9: it will not take it, and until its row is gone nobody else would."""
    one, two = owners
    one.look()
    one.shards._give("default", (1, 2, 3), two.owned.worker_id)
    leaving(visits, two.owned.worker_id)

    one.look()
    one.shards.take()

    assert len(one.owned.shards) == 1024
    assert table(visits, one) == one.owned.shards


def test_a_shard_offered_to_a_worker_that_stays_is_left_to_it(visits: Visits, owners) -> None:
    one, two = owners
    one.look()
    one.shards._give("default", (1, 2, 3), two.owned.worker_id)

    one.look()
    one.shards.take()

    assert not {1, 2, 3} & one.owned.shards


def test_nothing_is_given_to_a_worker_that_is_leaving(visits: Visits, owners) -> None:
    one, two = owners
    leaving(visits, two.owned.worker_id)
    one.look()

    one.shards.share(look=True)

    assert len(one.owned.shards) == 1024


def test_suspects_are_cleared_only_when_all_were_looked_at(visits: Visits, owners) -> None:
    """A6."""
    one, two = owners
    visits.offer("a")
    one.look()
    one.shards.share()
    two.look()
    two.shards.take()
    visits.read(two.owned.worker_id)
    visits.declare_dead(two.owned.worker_id)
    one.look()
    one.shards.take()
    suspected = "select count(*) from mainspring.lease where suspect_of is not null"

    one.shards.tidy()
    assert (len(one.owned.suspects), visits.value(suspected)) == (512, 512)

    one.thoughts.suspects_done = lambda: True
    one.shards.tidy()
    assert (one.owned.suspects, visits.value(suspected)) == ({}, 0)


def test_leases_are_noted_as_given(owners) -> None:
    one, two = owners
    one.look()
    before = {lease.shard: lease for lease in one.shards._view.leases["default"]}

    one.shards._give("default", (7,), two.owned.worker_id)

    expected = before[7]._replace(worker_id=None, offered_to=two.owned.worker_id)
    assert (
        next(lease for lease in one.shards._view.leases["default"] if lease.shard == 7) == expected
    )
