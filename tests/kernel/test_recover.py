"""Recover: what a dead worker held is free again, and counted once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.kernel.outcome import Done
from mainspring.testing import wait_until
from visits import QUEUE, Visits, locked, queue
from workers import Gauge, working


def held_by_the_dead(visits: Visits, key: str):
    """A visit, held by a worker that was then declared dead."""
    dead = visits.join()
    run = visits.start(key)
    visits.hold(dead, run)
    visits.bury(dead)
    return dead, run


def test_an_orphan_is_freed_and_counted_once(visits: Visits, me) -> None:
    visits.offer("a")
    dead, run = held_by_the_dead(visits, "a")

    [freed] = visits.recover()

    assert (freed["key"], freed["orphaned"], freed["parked"]) == ("a", True, False)
    row = visits.row("a")
    assert (row["crashes"], row["attempt"], row["version"]) == (1, 0, run.visit.version)
    assert str(dead) in row["error"]
    assert visits.recover() == []
    assert visits.keys(me) == ["a"]


def test_an_orphan_is_parked_at_the_queue_s_limit(visits: Visits, me) -> None:
    """T13: a poison task that kills its worker ends parked."""
    visits.register(queue(crash_limit=2))
    visits.offer("a")
    held_by_the_dead(visits, "a")
    visits.recover()
    held_by_the_dead(visits, "a")

    [freed] = visits.recover()

    assert freed["parked"]
    assert visits.row("a")["parked_at"] is not None
    assert visits.keys(me) == []


def test_the_visits_of_the_living_stay_held(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    assert visits.recover() == []
    assert visits.row("a")["pass"] == run.token


def test_what_merely_waited_at_a_death_is_not_counted(visits: Visits, me) -> None:
    """A million innocents must not be parked after three spot kills."""
    visits.offer("held", "waiting")
    held_by_the_dead(visits, "held")

    visits.recover()

    assert (visits.row("held")["crashes"], visits.row("waiting")["crashes"]) == (1, 0)


def test_the_late_result_of_a_dead_worker_s_run_still_counts_once(visits: Visits, me) -> None:
    """The version is untouched: until another run settles, the old one's result is as good."""
    visits.offer("a")
    dead, run = held_by_the_dead(visits, "a")
    visits.recover()
    second = visits.start("a")

    assert visits.settle(dead, (run, Done())) == ["settled"]
    assert visits.settle(me, (second, Done())) == ["gone"]

    assert len(visits.history("a")) == 1


def test_only_the_given_shards_are_recovered(visits: Visits, me) -> None:
    visits.offer("a")
    _, run = held_by_the_dead(visits, "a")

    assert visits.recover(shards=[(run.visit.shard + 1) % 1024]) == []
    assert len(visits.recover(shards=[run.visit.shard])) == 1


def test_a_passed_work_timeout_is_counted_apart(visits: Visits, me, clock) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run, work_timeout=60)
    clock.advance_sync(61)

    [freed] = visits.recover(overdue=[run.token])

    row = visits.row("a")
    assert not freed["orphaned"]
    assert (row["work_timeouts"], row["crashes"], row["attempt"]) == (1, 0, 0)
    assert visits.keys(me) == ["a"]


def test_held_visits_say_whether_they_are_orphaned_or_overdue(visits: Visits, me, clock) -> None:
    visits.offer("orphan", "overdue", "fine")
    held_by_the_dead(visits, "orphan")
    visits.hold(me, visits.start("overdue"), work_timeout=60)
    visits.hold(me, visits.start("fine"))
    clock.advance_sync(61)

    rows = visits.call("read_held", shards=list(range(1024)))

    assert {r["key"]: (r["orphaned"], r["overdue"]) for r in rows} == {
        "orphan": (True, False),
        "overdue": (False, True),
        "fine": (False, False),
    }


def test_a_locked_orphan_is_skipped_and_recovered_later(
    visits: Visits, me, mainspring_url: str
) -> None:
    visits.offer("a")
    held_by_the_dead(visits, "a")

    with locked(mainspring_url, "a"):
        assert visits.recover() == []

    assert len(visits.recover()) == 1


def test_a_recovered_visit_of_an_unknown_queue_uses_the_common_limit(visits: Visits, me) -> None:
    visits.offer("a")
    held_by_the_dead(visits, "a")
    visits.query("delete from mainspring.queue where name = %s", QUEUE)

    [freed] = visits.recover()

    assert not freed["parked"]
    assert "1 of 3" in visits.row("a")["error"]


def test_many_notes_of_the_reach_are_forgotten_in_one_go(visits: Visits, me) -> None:
    """The heart does it at every beat: 4,000 notes took four seconds, and each beat left more."""
    visits.query(
        "insert into mainspring.reach select %s, 'ring' || n %% 7, n %% 10, now() + n / 2 * interval '1 ms'"
        " from generate_series(1, 20000) n",
        me,
    )
    other = visits.join()
    visits.query("insert into mainspring.reach values (%s, 'ring', 5, now())", other)
    newest = "select queue, priority, max(due_at) as due_at from mainspring.reach group by 1, 2"
    before = sorted(map(str, visits.query(newest)))
    visits.query("set statement_timeout = '3s'")

    visits.call("trim_reach", worker_id=me)

    assert sorted(map(str, visits.query(newest))) == before
    assert visits.value("select count(*) from mainspring.reach where worker_id = %s", me) == 70


@pytest.mark.parametrize(
    ("crashes", "limit", "at_once"),
    [(0, 3, 4), (1, 3, 4), (2, 3, 1), (1, 2, 1), (0, 1, 1)],
)
async def test_suspects_run_alone_only_where_a_further_death_would_park_them(
    visits: Visits, database_url: str, crashes: int, limit: int, at_once: int
) -> None:
    """Else long tasks of a killed worker would run one by one; and with crash_limit=1 one that kills
    its worker took three others with it."""
    gauge = Gauge(seconds=0.05)
    ring = queue(handler=gauge, crash_limit=limit)
    async with working(database_url, ring, concurrency=12, lease=60.0) as worker:
        reached = {("ring", 5): visits.now() + timedelta(hours=1)}
        worker.hand.suspects = dict.fromkeys(range(1024), reached)
        with visits.connection.transaction():
            visits.offer(*(f"key {n}" for n in range(12)))
            visits.query("update mainspring.visit set crashes = %s", crashes)
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

    assert gauge.most["ring"] == at_once
