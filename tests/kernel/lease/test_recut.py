"""A recut step by step: who is late, fenced, dead or of the release before, over a cut and a merge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring import Mainspring, crash_points
from mainspring.db.database import Database
from mainspring.db.session import Session
from mainspring.db.sql import Record, Statement, Values
from mainspring.ids import token
from mainspring.kernel.lease.dead import declare_dead
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.pool_view import LeaseRow
from mainspring.kernel.lease.shards import Shards
from mainspring.kernel.owned import Owned
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.sharing.bands import CLOSED, Code, code_of
from mainspring.sharing.shares import Peer
from visits import Visits, queue

SETTINGS = WorkerSettings(lease=60.0)
ALL = frozenset(range(1024))


class Thoughtless:
    """A loop port that has nothing to say."""

    def waiting_by_shard(self, _queues: Collection[str]) -> dict[int, int]:
        return {}

    def free_slots(self) -> int:
        return 0

    def hold_after(self, _run: Any) -> tuple[float, float | None]:
        return 1.0, None

    def suspects_done(self) -> bool:
        return True

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Counting(Session):
    """A session that counts its statements and the rows that they return."""

    statements = 0
    returned = 0

    def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        found = super().send(statement, values)
        self.statements += 1
        self.returned += len(found)
        return found


class Owner:
    """A worker that is nothing but its shards: it beats when it is told to."""

    def __init__(self, url: str, visits: Visits, *names: str, turns: str | None = None) -> None:
        self.session = Counting(Database(url, pooled=True))
        self.owned = Owned()
        loop_port: LoopPort = Thoughtless()  # type: ignore[assignment]
        self.code: Code = code_of(names, [turns] * len(names))
        self.shards = Shards(self.session, self.owned, loop_port, SETTINGS, self.code)
        self.owned.worker_id = uuid4()
        visits.call(
            "join_pool",
            worker_id=self.owned.worker_id,
            pool="default",
            queues=list(names),
            slots=4,
            host="here",
            process=1,
            code=self.code.digest,
            turns=[turns or ""] * len(names),
            launch=None,
        )

    def look(self) -> None:
        """What a beat reads."""
        with self.session.transaction():
            peers = self.session.rows(SQL["read_workers"], Peer, pool="default")
            leases = self.session.rows(SQL["read_leases"], LeaseRow, pool="default")
        self.shards.seen(peers, leases)

    def beat(self) -> None:
        """A turn of the heart, as far as leases are concerned."""
        self.look()
        if self.shards.recut():
            self.look()
        else:
            self.shards.take()
            self.shards.share()
        self.shards.tidy()

    def has(self, name: str) -> frozenset[int]:
        return self.owned.shards_of(name) if name in self.code.queues else frozenset()


Make = Callable[..., Owner]


@pytest.fixture
def make(visits: Visits, database_url: str) -> Iterator[Make]:
    """Makes owners by the names of their queues."""
    visits.call("make_leases", pool="default")
    made: list[Owner] = []

    def one(*names: str, turns: str | None = None) -> Owner:
        visits.register(*(queue(name) for name in names))
        made.append(Owner(database_url, visits, *names, turns=turns))
        return made[-1]

    yield one
    for owner in made:
        owner.session.disconnect()


def table(visits: Visits, name: str) -> dict[int, UUID | None]:
    """Who has each shard of a queue, by the leases: whole or of the band that has it."""
    rows = visits.query(
        "select l.shard, l.worker_id from mainspring.lease l"
        " left join mainspring.band b on b.name = l.pool"
        " where (l.pool = 'default' and l.worker_id is distinct from %s) or %s = any(b.queues)",
        CLOSED,
        name,
    )
    assert len(rows) == 1024
    return {row["shard"]: row["worker_id"] for row in rows}


def bands(visits: Visits) -> int:
    return visits.value(
        "select count(distinct pool) from mainspring.lease where strpos(pool, chr(31)) > 0"
    )


def assert_exact(visits: Visits, *owners: Owner) -> None:
    """What memory has is what the table says, and nobody has what another has."""
    for name in sorted({name for owner in owners for name in owner.code.queues}):
        of = table(visits, name)
        for owner in owners:
            assert owner.has(name) <= {s for s, who in of.items() if who == owner.owned.worker_id}
    assert visits.query("select * from mainspring.violation") == []


def at_rest(*owners: Owner) -> None:
    """Beats until everything has its place."""
    for _ in range(6):
        for owner in owners:
            owner.beat()


def test_a_cut_takes_nothing_from_anybody(visits: Visits, make: Make) -> None:
    """T2: the canary's queue is free, all else stays with whom it was."""
    old = make("ring")
    old.beat()
    new = make("ring", "new")
    new.look()

    assert new.shards.recut()

    assert set(table(visits, "ring").values()) == {old.owned.worker_id}
    assert set(table(visits, "new").values()) == {None}
    assert old.has("ring") == ALL, "its memory is old, but not wrong"
    assert_exact(visits, old, new)


def test_pools_of_two_codes_are_shared_by_band_and_then_whole_again(
    visits: Visits, make: Make
) -> None:
    old, new, third = make("ring", "old"), make("ring", "new"), make("ring", "new")
    at_rest(old, new, third)

    assert old.has("old") == ALL
    assert new.has("new") | third.has("new") == ALL
    assert {len(w.has("ring")) for w in (old, new, third)} == {341, 342}
    assert_exact(visits, old, new, third)

    old.shards.give_all()
    visits.call("leave_pool", worker_id=old.owned.worker_id)
    at_rest(new, third)

    assert bands(visits) == 0
    assert new.has("ring") == new.has("new") == ALL - third.has("ring")
    assert_exact(visits, new, third)


def test_at_rest_no_lease_moves_and_nothing_is_recut(visits: Visits, make: Make) -> None:
    """T2: gifts do not go to and fro, whatever the codes."""
    owners = [make("a", "x"), make("a", "b", "x"), make("b", "c"), make("c", "d", turns="t")]
    at_rest(*owners)
    at_rest(*owners)
    leases = "select md5(string_agg(l::text, ',' order by pool, shard)) from mainspring.lease l"
    before = visits.value(leases)

    at_rest(*owners)

    assert visits.value(leases) == before
    assert_exact(visits, *owners)


def test_workers_of_one_code_pay_nothing(visits: Visits, make: Make) -> None:
    """T2: a beat at rest reads workers and leases, as before; few rows come."""
    owners = [make("ring", "new") for _ in range(3)]
    at_rest(*owners)
    one = owners[0].session
    one.statements = one.returned = 0

    owners[0].beat()

    assert one.statements == 2
    assert one.returned <= 3 + 6
    assert visits.value("select count(*) from mainspring.band") == 0
    assert visits.value("select count(*) from mainspring.lease") == 1024


def test_a_late_give_of_what_was_cut_comes_to_nothing(visits: Visits, make: Make) -> None:
    """T2: it names the whole lease, which is closed; memory has let go and adopts the pieces again."""
    old = make("ring", "old")
    old.beat()
    new = make("ring", "new")
    new.look()
    epochs = dict(old.shards._epochs)
    old.owned.let_go([5])
    assert new.shards.recut()

    late = {"pool": "default", "worker_id": old.owned.worker_id, "offered_to": None, "epoch": 1}
    assert visits.call("give_leases", **late, shards=[5], epochs=[epochs["default", 5]]) == []

    assert table(visits, "ring")[5] == old.owned.worker_id
    old.look()
    assert old.has("ring") == old.has("old") == ALL
    assert_exact(visits, old, new)


def test_a_late_take_of_the_whole_comes_to_nothing_beside_bands(visits: Visits, make: Make) -> None:
    old, new = make("ring"), make("ring", "new")
    new.look()
    old.look()
    assert new.shards.recut()

    taken = visits.call(
        "take_leases", pool="default", worker_id=old.owned.worker_id, most=1024, epoch=token()
    )

    assert taken == []
    assert_exact(visits, old, new)


def test_a_renewal_that_was_late_adopts_the_pieces(visits: Visits, make: Make) -> None:
    """T2: what it returns is adopted, whatever the beat before it had read."""
    old = make("ring", "old")
    old.beat()
    new = make("ring", "new")
    new.look()
    with old.session.transaction():
        peers = old.session.rows(SQL["read_workers"], Peer, pool="default")
        leases = old.session.rows(SQL["read_leases"], LeaseRow, pool="default")
    old.owned.let_go([7])  # memory differs, so it will renew
    assert new.shards.recut()

    old.shards.seen(peers, leases)

    assert old.has("ring") == old.has("old") == ALL
    assert_exact(visits, old, new)


def test_a_worker_fenced_over_a_cut_and_a_merge_goes_on_with_what_it_has(
    visits: Visits, make: Make
) -> None:
    """T2: nobody touches its leases; recuts write them on."""
    fenced, canary = make("ring", "old"), make("ring", "old", "new")
    at_rest(fenced, canary)
    mine = fenced.has("old")
    canary.shards.give_all()
    visits.call("leave_pool", worker_id=canary.owned.worker_id)
    other = make("ring", "old")
    other.beat()
    other.beat()
    assert bands(visits) == 0
    assert {s for s, who in table(visits, "old").items() if who == fenced.owned.worker_id} == mine

    fenced.look()

    assert fenced.has("old") == fenced.has("ring") == mine
    at_rest(fenced, other)
    assert fenced.has("ring") | other.has("ring") == ALL
    assert_exact(visits, fenced, other)


def test_the_bands_of_a_worker_that_dies_go_to_others(visits: Visits, make: Make) -> None:
    """T2: declared dead, its bands are free as its shards are; what only it had waits for an heir."""
    dead, other = make("ring", "new"), make("ring")
    at_rest(dead, other)
    visits.offer("a")
    visits.offer("b", queue="new")
    visits.read(dead.owned.worker_id)
    visits.read(dead.owned.worker_id, queue="new")
    visits.declare_dead(dead.owned.worker_id)
    heir = make("ring", "new", "more")

    at_rest(other, heir)

    assert other.has("ring") | heir.has("ring") == ALL
    assert heir.has("new") == ALL
    assert_exact(visits, other, heir)


def test_the_pool_is_whole_after_two_deaths_at_once(visits: Visits, make: Make) -> None:
    """T2: pieces with different suspects stay apart only until these were looked at."""
    dead, other, left = make("ring", "a"), make("ring", "b"), make("ring")
    at_rest(dead, other, left)
    visits.declare_dead(dead.owned.worker_id)
    visits.declare_dead(other.owned.worker_id)

    at_rest(left)

    assert bands(visits) == 0
    assert left.has("ring") == ALL
    assert_exact(visits, left)


def test_suspects_are_left_to_who_has_their_queue(visits: Visits, make: Make) -> None:
    """T13: a task that kills the only worker of its service is found when that comes again, though the
    workers of another service have had its shards meanwhile."""
    dead, other = make("poison"), make("ring")
    at_rest(dead, other)
    visits.offer("a", queue="poison")
    visits.read(dead.owned.worker_id, queue="poison")
    visits.declare_dead(dead.owned.worker_id)
    values = {
        "worker_id": dead.owned.worker_id,
        "beat_at": visits.now(),
        "lease": 1,
        "fenced": False,
    }
    visits.call("note_death", **values)
    at_rest(other)
    assert bands(visits) == 0
    other.shards.tidy()

    heir = make("poison")
    heir.shards.tidy = lambda: None  # type: ignore[method-assign]  # its suspects are not looked at yet
    at_rest(other, heir)

    assert heir.has("poison") == ALL
    levels = [level for found in heir.owned.suspects.values() for level in found]
    assert levels == [("poison", 5)] * 1024


def test_a_burial_waits_for_a_recut_that_names_its_worker(
    visits: Visits, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T2: else the recut would leave leases to a worker that is gone."""
    old = make("ring")
    old.beat()
    new = make("ring", "new")
    new.look()
    visits.query("set lock_timeout = '100ms'")
    refused: list[str] = []

    def declare_dead_at(step: str) -> None:
        if step == "recut.workers_read" and not refused:
            try:
                visits.call("declare_dead", dead_id=old.owned.worker_id, beat=0)
            except Exception as error:
                refused.append(type(error).__name__)

    monkeypatch.setattr(crash_points, "listener", declare_dead_at)
    assert new.shards.recut()

    assert refused == ["LockNotAvailable"]


def test_an_owner_whose_burial_may_come_to_nothing_keeps_what_it_has(
    visits: Visits, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T2: to declare it dead waits for the leases that the recut has, and gives up; it beats again."""
    old = make("ring")
    old.beat()
    new = make("ring", "new")
    new.look()

    def declare_dead_at(step: str) -> None:
        if step == "recut.locking":
            visits.query("begin")
            visits.call("declare_dead", dead_id=old.owned.worker_id, beat=0)
        elif step == "recut.workers_read":
            visits.query("rollback")

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "listener", declare_dead_at)
        new.shards.recut()

    assert_exact(visits, old)
    at_rest(old, new)
    assert_exact(visits, old, new)


def test_an_owner_without_a_row_is_taken_for_dead(visits: Visits, make: Make) -> None:
    """T2: a worker of the release before has declared it dead, and knew nothing of its bands."""
    gone, other = make("ring", "new"), make("ring")
    at_rest(gone, other)
    visits.query("delete from mainspring.worker where id = %s", gone.owned.worker_id)

    at_rest(other)

    assert bands(visits) == 0
    assert other.has("ring") == ALL
    assert_exact(visits, other)


def test_the_release_before_finds_a_whole_pool_and_shares_it(visits: Visits, make: Make) -> None:
    """T2: it knows no bands; while it lives the pool is whole, and cut again when it is gone."""
    one, two = make("ring"), make("ring", "new")
    at_rest(one, two)
    assert bands(visits) == 2
    before = visits.join(knows_bands=False)
    assert visits.take(before) == set(), "the whole leases are closed"

    at_rest(one, two)
    assert bands(visits) == 0
    assert len(visits.take(before)) == 341
    at_rest(one, two)
    assert_exact(visits, one, two)

    visits.declare_dead(before)
    at_rest(one, two)
    assert bands(visits) == 2
    assert two.has("new") == ALL
    assert_exact(visits, one, two)


def test_the_last_worker_that_knows_bands_opens_the_pool(visits: Visits, make: Make) -> None:
    """T2: dead or alive; else the release before would find a closed pool for ever (a rollback)."""
    one, two = make("ring"), make("ring", "new")
    at_rest(one, two)
    before = visits.join(knows_bands=False)
    one.shards.give_all()
    visits.call("leave_pool", worker_id=one.owned.worker_id)
    assert bands(visits) == 2

    visits.query("delete from mainspring.worker where id = %s", two.owned.worker_id)

    assert bands(visits) == 0
    assert visits.take(before) == ALL
    suspected = "select count(*) from mainspring.lease where suspect_of = %s"
    assert visits.value(suspected, two.owned.worker_id) == 1024
    assert visits.query("select * from mainspring.violation") == []


@pytest.mark.parametrize("fenced", [True, False])
def test_the_last_one_that_knows_bands_is_suspect_only_if_it_died(
    visits: Visits, make: Make, fenced: bool
) -> None:
    """T2, T13: one that was cut off has killed nothing, and its heirs need not look at what it read."""
    one, two = make("ring"), make("ring", "new")
    at_rest(one, two)
    visits.join(knows_bands=False)
    one.shards.give_all()
    visits.call("leave_pool", worker_id=one.owned.worker_id)

    beat = visits.value("select beat from mainspring.worker where id = %s", two.owned.worker_id)
    dead = {"pool": "default", "beat": beat}
    assert (
        declare_dead(two.session, two.owned.worker_id, **dead, lease=60, fenced=fenced) is not None
    )

    assert bands(visits) == 0
    assert visits.value("select count(*) from mainspring.lease where worker_id is null") == 1024
    suspected = "select count(*) from mainspring.lease where suspect_of = %s"
    assert visits.value(suspected, two.owned.worker_id) == (0 if fenced else 1024)


def test_queues_that_take_turns_stay_with_one_owner(visits: Visits, make: Make) -> None:
    """T2: a kind gets a stage; the class is one band, of those who have all of it."""
    old, new = make("kind/a", turns="kind"), make("kind/a", "kind/b", turns="kind")
    at_rest(old, new)

    assert new.has("kind/a") == new.has("kind/b") == ALL
    assert old.has("kind/a") == frozenset()
    assert_exact(visits, old, new)


async def test_a_stage_that_waits_for_its_turn_class_is_named_by_the_doctor(
    visits: Visits, make: Make, app: Mainspring
) -> None:
    """T2, S26: below a quarter of the slots a canary gets some shards of the kind, not all."""
    old = [make("kind/a", turns="kind") for _ in range(4)]
    canary = make("kind/a", "kind/b", turns="kind")
    at_rest(*old, canary)
    waits = 1024 - len(canary.has("kind/b"))
    assert 0 < waits < 1024

    (finding,) = [f for f in await app.operator.doctor() if f.name == "owner_lacks_queue"]

    assert (finding.level, finding.text) == (
        "warn",
        f"queue 'kind/b' waits in {waits} shards of pool 'default': its turn class has one owner there, "
        "whose code lacks it",
    )
    assert "at a quarter of the pool's slots" in finding.remedy
    at_rest(*old, canary, make("kind/a", "kind/b", turns="kind"))
    assert not [f for f in await app.operator.doctor() if f.name == "owner_lacks_queue"]


def standing(visits: Visits, *owners: Owner) -> int:
    """Shards of queues that some living worker has, and whose owner lacks them or is nobody."""
    of = {owner.owned.worker_id: owner.code for owner in owners}
    names = {name for code in of.values() for name in code.queues}
    return sum(
        worker_id not in of or name not in of[worker_id].queues
        for name in names
        for worker_id in table(visits, name).values()
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_workers_that_join_one_by_one_leave_nothing_standing(
    visits: Visits, make: Make, record_property: Callable[[str, object], None]
) -> None:
    """T2: a deploy of many workers, with a queue added and one removed, is few recuts."""
    recuts: list[int] = []
    living: list[Owner] = []

    def one_round() -> None:
        for owner in living:
            owner.look()
            if owner.shards.recut():
                recuts.append(len(living))
                owner.look()
            else:
                owner.shards.take()
                owner.shards.share()
            owner.shards.tidy()

    def settle() -> int:
        """So many rounds until nothing stands."""
        for rounds in range(1, 6):
            one_round()
            if not standing(visits, *living):
                return rounds
        raise AssertionError("work stands after five rounds of beats")

    waits = []
    for n in range(50):
        living.append(make("ring", "old") if n < 10 else make("ring", "new"))
        waits.append(settle())
    for _ in range(10):
        living[0].shards.give_all()
        visits.call("leave_pool", worker_id=living.pop(0).owned.worker_id)
        waits.append(settle())
    at_rest(*living)

    record_property("rounds", waits)
    record_property("recuts", recuts)
    print(
        f"recuts {len(recuts)} at {recuts}; rounds until nothing stood: most {max(waits)}, {waits}"
    )
    assert bands(visits) == 0
    assert len(recuts) <= 10, recuts
    assert max(waits) <= 3
    assert {len(owner.has("ring")) for owner in living} == {25, 26}
    assert_exact(visits, *living)
