"""Hand-over: shards move between workers, and no run is ever doubled by it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import psycopg
import pytest

from mainspring.db.session import Session
from mainspring.db.sql import Record, Statement, Values
from mainspring.kernel.outcome import Done
from mainspring.testing import wait_until, watch
from visits import Visits, queue
from workers import Gate, Gauge, working


def owners(visits: Visits) -> Counter:
    rows = visits.query("select worker_id from mainspring.lease where pool = 'default'")
    return Counter(row["worker_id"] for row in rows)


async def test_alone_a_worker_has_every_shard(visits: Visits, database_url: str) -> None:
    async with working(database_url, queue()) as worker:
        assert len(worker.owned.shards) == 1024
        assert worker.owned.all_shards


async def test_a_second_worker_gets_half_of_the_shards(visits: Visits, database_url: str) -> None:
    """T2."""
    async with working(database_url, queue()) as one, working(database_url, queue()) as two:
        await wait_until(lambda: len(one.owned.shards) == len(two.owned.shards) == 512, 10)

        assert owners(visits) == {one.owned.worker_id: 512, two.owned.worker_id: 512}
        assert not one.owned.shards & two.owned.shards


async def test_a_worker_that_comes_does_not_wait_for_the_beats_of_others(
    visits: Visits, database_url: str
) -> None:
    """T2: beats are two minutes apart here; whoever joins says so, and is given its half at once."""
    async with (
        working(database_url, queue(), lease=600) as one,
        working(database_url, queue(), lease=600) as two,
    ):
        await wait_until(lambda: len(one.owned.shards) == len(two.owned.shards) == 512, 10)


async def test_who_has_joined_and_could_not_say_so_does_not_join_again(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second row would count for shares until it is declared dead."""
    send, lost = Session.send, []

    def losing(self: Session, statement: Statement, values: Values) -> Sequence[Record]:
        if statement.name == "wake_all" and not lost:
            lost.append(statement.name)
            raise ConnectionError("the connection was lost")
        return send(self, statement, values)

    monkeypatch.setattr(Session, "send", losing)
    async with working(database_url, queue()) as worker:
        assert lost
        assert visits.value("select array_agg(id) from mainspring.worker") == [
            worker.owned.worker_id
        ]


async def test_what_runs_in_a_shard_that_is_given_away_is_not_started_again(
    visits: Visits, database_url: str
) -> None:
    """The run is held before the shard goes; the new owner knows it by that."""
    gate, other = Gate(), Gauge(seconds=0)
    keys = [f"key {n}" for n in range(40)]
    visits.offer(*keys)
    async with working(database_url, queue(handler=gate), lease=5.0) as one:
        await wait_until(lambda: gate.keys == set(keys))
        async with working(database_url, queue(handler=other), lease=5.0) as two:
            await wait_until(lambda: len(two.owned.shards) == 512, 10)
            await wait_until(lambda: two.reader.intake.passes > 2)
            given = [run for run in gate.runs if run.visit.shard not in one.owned.shards]
            assert given
            assert all(run.held for run in given)
            assert other.started == []

            gate.open.set()
            await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

    assert other.started == []
    assert visits.value("select count(*) from mainspring.history") == 40


async def test_waiting_work_goes_to_a_worker_with_free_slots(
    visits: Visits, database_url: str
) -> None:
    """Work-conserving: 8 long tasks on 2 workers with 4 slots each run in one round."""
    gate = Gate()
    ring = queue(handler=gate)
    async with (
        working(database_url, ring, concurrency=4) as one,
        working(database_url, ring, concurrency=4) as two,
    ):
        await wait_until(lambda: len(one.owned.shards) == len(two.owned.shards) == 512, 10)
        mine = [k for k in (f"key {n}" for n in range(200)) if shard(k) in one.owned.shards][:8]

        visits.offer(*mine)
        await wait_until(lambda: len(gate.runs) == 8, 10)

        gate.open.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)
    assert gate.keys == set(mine)


def shard(key: str) -> int:
    from mainspring.ids import shard_of

    return shard_of(key, 1024)


async def test_a_give_whose_answer_is_lost_loses_nothing(visits: Visits, database_url: str) -> None:
    """Not mine until the next beat has read the leases; then one of the two owns each shard."""
    gauge = Gauge(seconds=0)
    lost = []

    async with watch() as seen, working(database_url, queue(handler=gauge)) as one:

        def lose() -> None:
            if not lost:
                lost.append(True)
                raise ConnectionError("the answer was lost")

        seen.at("shards.given", lose)
        async with working(database_url, queue(handler=gauge)) as two:
            await wait_until(
                lambda: lost and len(one.owned.shards) == len(two.owned.shards) == 512, 10
            )
            visits.offer(*(f"key {n}" for n in range(100)))
            await wait_until(lambda: len(gauge.started) == 100)

    assert len(set(gauge.started)) == 100


async def test_a_worker_that_was_declared_dead_comes_back_under_another_id(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge)) as worker:
        before = worker.owned.worker_id
        launch = visits.value("select launch from mainspring.worker where id = %s", before)
        visits.declare_dead(before)

        await wait_until(lambda: worker.owned.worker_id not in (None, before), 5)
        now = worker.owned.worker_id
        assert launch is not None
        assert visits.value("select launch from mainspring.worker where id = %s", now) == launch
        await wait_until(lambda: len(worker.owned.shards) == 1024, 5)
        visits.offer("a")
        await wait_until(lambda: gauge.started == ["a"])

    assert visits.row("a") is None


async def test_a_dead_worker_s_shards_are_taken_over(visits: Visits, database_url: str) -> None:
    """T2: it joined, took shards, and never beat again."""
    dead = visits.join()
    visits.take(dead)
    visits.offer("a")
    gauge = Gauge(seconds=0)

    async with working(database_url, queue(handler=gauge), wait=False):
        await wait_until(lambda: gauge.started == ["a"], 10)

    assert visits.value("select count(*) from mainspring.worker where id = %s", dead) == 0


async def test_a_worker_of_another_pool_takes_nothing_of_this_one(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    visits.offer("a")
    async with working(database_url, queue("far", pool="far"), pool="far") as far:
        assert len(far.owned.shards) == 1024
        async with working(database_url, queue(handler=gauge)) as near:
            assert len(near.owned.shards) == 1024
            await wait_until(lambda: gauge.started == ["a"])


async def test_a_suspect_is_held_before_it_starts(visits: Visits, database_url: str) -> None:
    """What a dead worker may have been running is started few at a time, and seen."""
    dead = visits.join()
    visits.take(dead)
    visits.offer(*(f"key {n}" for n in range(10)))
    visits.read(dead)  # it had read this far
    visits.declare_dead(dead)
    visits.offer("innocent")
    gate = Gate()

    async with working(database_url, queue(handler=gate)) as worker:
        await wait_until(lambda: len(gate.runs) == 5)
        assert {run.visit.key for run in gate.runs if not run.suspect} == {"innocent"}
        assert all(run.held for run in gate.runs if run.suspect)
        gate.open.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)
        await wait_until(lambda: not worker.owned.suspects)

    suspected = "select count(*) from mainspring.lease where suspect_of is not null"
    assert visits.value(suspected) == 0


async def test_the_loss_of_every_connection_loses_no_work(
    visits: Visits, database_url: str
) -> None:
    """pg_terminate_backend on all backends of the worker, again and again."""
    gauge = Gauge(seconds=0.002)
    visits.offer(*(f"key {n}" for n in range(300)))
    with psycopg.connect(database_url, autocommit=True) as admin:
        async with working(database_url, queue(handler=gauge), concurrency=10):
            for _ in range(10):
                admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and application_name ~ '^mainspring:'"
                    " and application_name !~ ':test:'"
                )
                await asyncio.sleep(0.03)
            await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 20)

    assert len(set(gauge.started)) == 300
    assert visits.value("select count(*) from mainspring.history") == 300


async def test_of_a_bulk_only_what_was_read_is_suspect(visits: Visits, database_url: str) -> None:
    """A6: its visits are all due at one time; the rest of them need not wait for tries."""
    seen: list[tuple[str, bool]] = []

    async def handler(run):
        seen.append((run.visit.key, run.suspect))
        return Done()

    visits.register(queue(handler=handler))
    dead = visits.join()
    visits.take(dead)
    visits.offer(*"abcdefgh", at=visits.now())
    visits.read(dead, most=3)
    visits.declare_dead(dead)

    async with working(database_url, queue(handler=handler), lease=0.5):
        await wait_until(lambda: len(seen) == 8)

    assert {key for key, suspect in seen if suspect} == {*"abc"}


SUSPECTED = "select count(*) from mainspring.lease where suspect_of is not null"


@pytest.mark.parametrize("how", ["groups", "turns"])
async def test_suspects_that_had_to_wait_are_still_suspects(
    how: str, visits: Visits, database_url: str
) -> None:
    """A6: until each was tried, and no longer; here behind an innocent one, over some beats."""
    seen: list[tuple[bool, bool, int]] = []

    async def handler(run):
        await asyncio.sleep(0.12 if run.suspect else 0.4)
        seen.append((run.suspect, run.held, visits.value(SUSPECTED)))
        return Done()

    names = ["one", "two", "three"]
    if how == "groups":
        queues = [queue("one", handler=handler, group_concurrency=1)]
    else:
        queues = [queue(name, handler=handler, turns="t") for name in (*names, "urgent")]
    visits.register(*queues)
    dead = visits.join(queues=names)
    visits.take(dead)
    for n, name in enumerate(names):
        if how == "groups":
            visits.offer(f"key {n}", queue="one", group="g")
        else:
            visits.offer("same", queue=name)
    for each in queues:
        visits.read(dead, queue=each.name)
    visits.declare_dead(dead)
    if how == "groups":
        visits.offer("urgent", queue="one", group="g", priority=9)
    else:
        visits.offer("same", queue="urgent", priority=9)

    async with working(database_url, *queues, lease=0.5) as worker:
        await wait_until(lambda: len(seen) == 4)
        await wait_until(lambda: not worker.owned.suspects)

    assert [suspect for suspect, _, _ in seen] == [False, True, True, True]
    assert all(held for suspect, held, _ in seen if suspect)
    assert all(suspected for _, _, suspected in seen)
    assert visits.value(SUSPECTED) == 0


async def test_shards_that_come_with_suspects_are_looked_at_before_they_are_cleared(
    visits: Visits, database_url: str
) -> None:
    """A6: a loop that is busy while the heart takes shards over has not looked at them yet."""
    gate = Gate()
    async with working(database_url, queue(handler=gate)) as worker:
        await wait_until(worker.loop_port.suspects_done)

        worker.owned.own(worker.owned.shards, count=1024)  # by the heart, and the loop is busy

        assert not worker.loop_port.suspects_done()
        worker.loop_port.shards_changed()
        await wait_until(worker.loop_port.suspects_done)


async def test_a_worker_that_joins_under_load_shares_no_shard_with_another(
    visits: Visits, database_url: str
) -> None:
    """A3: between beats shards are given by what the last beat has read; none comes back by it."""
    gauge = Gauge(seconds=0.02)
    ring = queue(handler=gauge)
    visits.offer(*(f"key {n}" for n in range(600)))
    settings = {"pooled": True, "concurrency": 4, "lease": 2.5}
    twice: set[int] = set()
    async with (
        working(database_url, ring, **settings) as one,
        working(database_url, ring, wait=False, **settings) as two,
    ):
        while visits.value("select count(*) from mainspring.visit"):
            for _ in range(10):
                twice |= one.owned.shards & two.owned.shards
                await asyncio.sleep(0.002)

    assert twice == set()
    assert len(gauge.started) == len(set(gauge.started)) == 600
