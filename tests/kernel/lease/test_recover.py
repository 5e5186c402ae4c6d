"""Recover: what a dead worker held is free again, and counted once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mainspring.db.sql import Statement, Steps
from mainspring.kernel.layer import Layer, NewlyParked
from mainspring.kernel.outcome import Done
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Visit
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import QUEUE, Visits, locked, queue
from workers import Gate, Gauge, working


def held_by_the_dead(visits: Visits, key: str):
    """A visit, held by a worker that was then declared dead."""
    dead = visits.join()
    run = visits.start(key)
    visits.hold(dead, run)
    visits.declare_dead(dead)
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


async def test_what_a_layer_does_about_a_parked_visit_is_committed_with_it(
    visits: Visits, database_url: str
) -> None:
    """T13: parked without what follows from it, nobody would ever do that."""
    told: list[NewlyParked] = []

    class Following(Layer):
        def queues(self, pool: str) -> list[QueueSettings]:
            return []

        def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
            told.extend(visits)
            values = {"shard": 1, "key": f"after {len(told)}", "queue": QUEUE}
            yield Statement("follow", FOLLOW), values
            if len(told) == 1:
                raise RuntimeError("not at the first time")

    gauge = Gauge()
    served = queue(handler=gauge, crash_limit=1)
    visits.register(served)
    visits.offer("a", payload={"x": 1})
    held_by_the_dead(visits, "a")

    async with working(database_url, served, layers=[Following()]):
        await wait_until(lambda: gauge.started != [], 10)

    assert told == [NewlyParked(QUEUE, "a", '{"x": 1}')] * 2  # the first time it was not parked
    assert gauge.started == ["after 2"]
    assert visits.row("a")["parked_at"] is not None


FOLLOW = """
insert into mainspring.visit (shard, key, queue, id, version, payload)
values (%(shard)s, %(key)s, %(queue)s, gen_random_uuid(), 7, '{}')
"""


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


def suspect_all(worker: Worker, visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a death: whatever comes within the hour was read by the dead one."""
    reached = {("ring", 5): (visits.now().timestamp() + 3600, "")}
    worker.owned.suspects = dict.fromkeys(range(1024), reached)
    # Nothing is there yet, so a beat that comes now would find that all of them have been tried.
    monkeypatch.setattr(type(worker.loop_port), "suspects_done", lambda _: False)


@pytest.mark.parametrize(
    ("crashes", "limit", "at_once"),
    [(0, 3, 4), (1, 3, 4), (2, 3, 1), (1, 2, 1), (0, 1, 1)],
)
async def test_suspects_run_alone_only_where_a_further_death_would_park_them(
    visits: Visits,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    crashes: int,
    limit: int,
    at_once: int,
) -> None:
    """Else long tasks of a killed worker would run one by one; and with crash_limit=1 one that kills
    its worker took three others with it."""
    gauge = Gauge(seconds=0.05)
    ring = queue(handler=gauge, crash_limit=limit)
    async with working(database_url, ring, concurrency=12, lease=60.0) as worker:
        suspect_all(worker, visits, monkeypatch)
        with visits.connection.transaction():
            visits.offer(*(f"key {n}" for n in range(12)))
            visits.query("update mainspring.visit set crashes = %s", crashes)
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

    assert gauge.most["ring"] == at_once


async def test_no_suspect_runs_beside_one_that_a_further_death_would_park(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be parked for what the other did."""
    gate = Gate()
    async with working(database_url, queue(handler=gate), concurrency=12, lease=60.0) as worker:
        suspect_all(worker, visits, monkeypatch)
        with visits.connection.transaction():
            visits.offer("last")
            visits.change("last", crashes=2)
        await wait_until(lambda: gate.keys == {"last"})
        visits.offer("other")
        await wait_until(lambda: len(worker.runner.suspects.waiting) == 1)
        assert gate.keys == {"last"}

        gate.open.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)


@pytest.mark.parametrize("tries", ["first", "last"])
async def test_suspects_that_run_long_make_room_for_others(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch, tries: str
) -> None:
    """T6: runs of an hour whose worker died do not wait for each other's end."""
    tuning = Tuning(try_seconds=0.05, last_try_seconds=0.05)
    gate = Gate()
    ring = queue(handler=gate, crash_limit=1 if tries == "last" else 3)
    async with working(database_url, ring, concurrency=50, lease=60.0, tuning=tuning) as worker:
        suspect_all(worker, visits, monkeypatch)
        visits.offer(*(f"key {n:02}" for n in range(3 * DEFAULT.suspects)))
        await wait_until(lambda: len(gate.runs) == 3 * DEFAULT.suspects, 10)

        gate.open.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

        assert worker.runner.suspects.running == 0


async def test_many_suspects_are_not_all_looked_at_again_at_each_try(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each end of a try put all of them back: a worker that took over two thousand lost a third of
    its rate to that."""
    count, placed = 200, 0
    ring = queue(handler=Gauge(seconds=0.005))
    async with working(database_url, ring, concurrency=12, lease=60.0) as worker:
        suspect_all(worker, visits, monkeypatch)
        place = worker.runner.buffer.place

        def counted(visit: Visit) -> None:
            nonlocal placed
            placed += 1
            place(visit)

        monkeypatch.setattr(worker.runner.buffer, "place", counted)
        visits.offer(*(f"key {n}" for n in range(count)))
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

    assert placed < 2 * DEFAULT.suspects_put_back * count


async def test_suspects_behind_some_that_wait_for_a_limit_are_tried(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are put back at once wait for the one place of their group; none may be left."""
    gauge = Gauge(seconds=0.01)
    ring = queue(handler=gauge, group_concurrency=1)
    async with working(database_url, ring, concurrency=12, lease=60.0) as worker:
        suspect_all(worker, visits, monkeypatch)
        with visits.connection.transaction():
            visits.offer(*(f"key {n}" for n in range(4 * DEFAULT.suspects_put_back)), group="one")
            visits.offer(*(f"other {n}" for n in range(DEFAULT.suspects_put_back)))
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 10)

    assert gauge.most["ring"] <= DEFAULT.suspects


def test_where_only_the_last_run_counts_a_recovery_draws_a_new_version(
    visits: Visits, me, clock
) -> None:
    """P4: accept = last: without it the overtaken result would be taken until the next hold."""
    visits.register(queue(policy={"accept": "last"}))
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run, work_timeout=60)
    clock.advance_sync(61)

    visits.recover(overdue=[run.token])

    assert visits.row("a")["version"] != run.visit.version
    assert visits.settle(me, (run, Done())) == ["superseded"]
    assert visits.keys(me) == ["a"]


def test_a_beat_that_comes_before_the_recovery_keeps_the_visit(visits: Visits, me, clock) -> None:
    """P3: seen overdue, then beaten: the recovery looks at the time again."""
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run, work_timeout=60)
    clock.advance_sync(61)
    place = {"shards": [run.visit.shard], "keys": ["a"], "queues": [run.visit.queue]}

    beaten = visits.call("beat_visits", **place, passes=[run.token], work_timeouts=[60.0])

    assert [row["run"] for row in beaten] == [run.token]
    assert visits.recover(overdue=[run.token]) == []
    assert visits.row("a")["pass"] == run.token
    assert visits.call("beat_visits", **place, passes=[run.token + 1], work_timeouts=[60.0]) == []


def test_what_was_recovered_is_counted_by_queue(visits: Visits, me, clock) -> None:
    """P3: work timeouts and deaths of workers, apart."""
    visits.offer("dead", "late", "later")
    held_by_the_dead(visits, "dead")
    runs = [visits.start("late"), visits.start("later")]
    visits.hold(me, *runs, work_timeout=60)
    clock.advance_sync(61)

    visits.recover(overdue=[run.token for run in runs])

    rows = visits.query("select actor, name, n from mainspring.counter")
    assert {(row["actor"], row["name"]): row["n"] for row in rows} == {
        (QUEUE, "work_timeout"): 2,
        (QUEUE, "worker_death"): 1,
    }
