"""Waking: notifications where there are any, polling always (T3)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from mainspring.db.database import Connection
from mainspring.entities.offers import StageOffer, offer
from mainspring.kernel.outcome import Alone, Done, Retry
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Run
from mainspring.testing import wait_until
from visits import QUEUE, Visits, known_keys, queue
from workers import Gate, Gauge, working

COUNT = "select count(*) from mainspring.visit"


async def asleep(visits: Visits) -> None:
    await wait_until(lambda: visits.value("select bool_and(asleep) from mainspring.worker") is True)


async def test_an_idle_worker_is_woken_by_an_offer(visits: Visits, database_url: str) -> None:
    """T3: within milliseconds, though it polls every ten seconds only."""
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), poll=10.0, lease=10.0) as worker:
        await asleep(visits)
        worker.reader.intake._watch_until = 0.0  # past the first second, in which it polls often
        await asyncio.sleep(0.2)

        began = time.monotonic()
        visits.offer("a")
        await wait_until(lambda: gauge.started == ["a"], 3, every=0.001)

    assert time.monotonic() - began < 1


async def test_a_visit_costs_a_sleeping_worker_one_read_and_one_question(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: neither the visit itself, due and in hand, nor its end make it look again."""
    asked: list[str] = []
    send = Connection.send

    async def counting(self: Connection, statement: Any, values: Any) -> Any:
        asked.extend(name for name in ("read_due", "next_due") if statement is SQL[name])
        return await send(self, statement, values)

    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), poll=60.0, lease=60.0) as worker:
        await asleep(visits)
        worker.reader.intake._watch_until = 0.0
        await asyncio.sleep(0.2)
        monkeypatch.setattr(Connection, "send", counting)
        for n in range(20):
            visits.offer(str(n))
            await wait_until(lambda: visits.value(COUNT) == 0, every=0.001)

    # One more of each where an offer is told while the answer to the question is on its way.
    assert 20 <= asked.count("read_due") <= 25
    assert 20 <= asked.count("next_due") <= 25


async def test_a_visit_whose_priority_was_raised_during_its_run_is_read_when_that_ends(
    visits: Visits, database_url: str
) -> None:
    """It lies in another level by then, behind that level's cursor; the next sweep is far away."""
    gate = Gate()
    async with working(database_url, queue(handler=gate), poll=30.0, lease=60.0) as worker:
        await asleep(visits)
        visits.offer("a")
        await wait_until(lambda: gate.keys == {"a"})
        later = worker.reader.intake.levels["ring"][9]
        visits.offer("a", priority=9)
        behind = visits.visit("a").position
        await wait_until(lambda: not later.more and later.position > behind and later.complete)

        gate.open.set()
        await wait_until(lambda: len(gate.runs) == 2, 3)

    assert gate.runs[1].visit.priority == 9


async def test_a_worker_that_is_busy_with_low_priorities_is_told_of_others(
    visits: Visits, database_url: str
) -> None:
    """T4, P10: live work does not wait for a look while a mass of put-back work is run."""
    gate = Gate()
    visits.offer(*(f"low {n}" for n in range(6)), priority=1)
    async with working(
        database_url, queue(handler=gate), poll=30.0, lease=60.0, concurrency=2
    ) as worker:
        await wait_until(lambda: len(gate.runs) == 2 and worker.buffer.size == 4)
        await asleep(visits)

        visits.offer("live")
        await wait_until(lambda: worker.buffer.size == 5, 3)
        awake = "select not bool_or(asleep) from mainspring.worker"
        await wait_until(lambda: visits.value(awake) is True)
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 7)

    assert gate.runs[2].visit.key == "live"


async def test_a_timer_is_read_on_time_by_a_worker_that_is_busy_with_low_priorities(
    visits: Visits, database_url: str
) -> None:
    """T3, T4: nobody tells of a visit whose time has come; the next sweep is far away."""
    gate = Gate()
    visits.offer(*(f"low {n}" for n in range(6)), priority=1)
    async with working(
        database_url, queue(handler=gate), poll=30.0, lease=60.0, concurrency=2
    ) as worker:
        await wait_until(lambda: len(gate.runs) == 2 and worker.buffer.size == 4)
        await asleep(visits)

        visits.offer("timer", after=1)
        await wait_until(lambda: worker.buffer.size == 5, 3)
        gate.open.set()
        await wait_until(lambda: len(gate.ended) == 7)


async def test_what_is_urgent_is_read_with_the_next_page_of_the_rest(
    visits: Visits, database_url: str
) -> None:
    """T4: a busy worker is not told of offers; the next look and the next sweep are far away."""
    tuning = Tuning(look_every=60.0)
    started: list[str] = []

    async def handler(run: Run) -> Done:
        started.append(run.visit.key)
        if len(started) == 100:
            visits.offer("urgent", priority=9)
        return Done()

    visits.offer(*(f"ordinary {n}" for n in range(1000)))
    async with working(
        database_url,
        queue(handler=handler),
        poll=30.0,
        lease=60.0,
        concurrency=1,
        page=20,
        tuning=tuning,
    ):
        await wait_until(lambda: len(started) == 1001, 20)

    assert started.index("urgent") < 300


async def test_a_sweep_takes_in_no_more_than_there_is_room_for(
    visits: Visits, database_url: str
) -> None:
    """A long transaction commits 3,000 visits behind the cursor of a worker that is busy, so nobody is
    notified: they stay in the database until there is room, and none is forgotten."""
    gate = Gate()
    async with working(database_url, queue(handler=gate), concurrency=2, page=100) as worker:
        visits.offer(*(f"first {n}" for n in range(6)))
        await wait_until(lambda: len(gate.runs) == 2)
        visits.query(
            "insert into mainspring.visit (shard, key, queue, id, due_at, version, payload)"
            " select mainspring.shard('k' || n, 1024), 'k' || n, 'ring', gen_random_uuid(),"
            " mainspring.now() - interval '10 s', n, '{}' from generate_series(1, 3000) n"
        )
        swept = worker.reader.intake.passes + 5
        await wait_until(lambda: worker.reader.intake.passes >= swept, 15)
        assert len(known_keys(worker.buffer)) <= 300

        gate.open.set()
        await wait_until(
            lambda: visits.value("select count(*) from mainspring.visit") == 0, 30, every=0.05
        )

    assert len(gate.ended) == len(set(gate.ended)) == 3006


async def test_without_a_listener_the_poll_finds_the_work(
    visits: Visits, database_url: str
) -> None:
    """T3: the listening connection is killed as soon as it is there."""
    gauge = Gauge(seconds=0)
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        " and application_name ~ ':listener:'"
    )
    with psycopg.connect(database_url, autocommit=True) as admin:
        async with working(database_url, queue(handler=gauge), poll=0.1):
            for n in range(5):
                admin.execute(kill)
                visits.offer(f"key {n}")
                await wait_until(lambda n=n: len(gauge.started) == n + 1, 3)


async def test_what_was_offered_while_nobody_listened_is_read_after_a_reconnect(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    with psycopg.connect(database_url, autocommit=True) as admin:
        async with working(database_url, queue(handler=gauge), poll=30.0, lease=10.0) as worker:
            await asleep(visits)
            worker.reader.intake._watch_until = 0.0
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name ~ ':listener:'"
            )

            visits.offer("a")
            await wait_until(lambda: gauge.started == ["a"], 5)


async def test_behind_a_transaction_pooler_everything_works_by_polling(
    visits: Visits, database_url: str
) -> None:
    """T3: no LISTEN, no named prepared statements, no session settings."""
    gauge = Gauge(seconds=0)
    visits.offer(*(f"key {n}" for n in range(50)))

    async with working(database_url, queue(handler=gauge), pooled=True):
        await wait_until(lambda: len(gauge.started) == 50)
        visits.offer("late")
        await wait_until(lambda: len(gauge.started) == 51)
        listening = visits.query(
            "select 1 from pg_stat_activity where datname = current_database()"
            " and query ~* 'listen' and pid <> pg_backend_pid()"
        )
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)

    assert listening == []


async def test_behind_a_pooler_what_a_settle_offers_does_not_wait_for_the_poll(
    visits: Visits, database_url: str
) -> None:
    """T3: nobody is told of it, so who wrote it looks; stages set each other off this way."""
    started: list[str] = []

    async def handler(run: Run) -> Done:
        started.append(run.visit.key)
        await asyncio.sleep(0.1)  # work; the reader has gone to sleep by then
        following = StageOffer(run.visit.queue, run.visit.shard, str(len(started)))
        writer = Alone(lambda connection: offer(connection, [following]))
        return Done(writer=writer) if len(started) < 5 else Done()

    settings = {"poll": 30.0, "lease": 60.0, "tuning": Tuning(watch_for=0.0)}
    async with working(database_url, queue(handler=handler), pooled=True, **settings) as worker:
        visits.offer("0")
        worker.reader.wake()
        await wait_until(lambda: len(started) == 5, 10)


async def test_a_timer_is_on_time_without_a_poll(visits: Visits, database_url: str) -> None:
    """The reader sleeps no longer than until the next due time."""
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), poll=30.0, lease=10.0) as worker:
        worker.reader.intake._watch_until = 0.0
        visits.offer("a", after=0.3)
        due_at = visits.row("a")["due_at"]

        await wait_until(lambda: gauge.started == ["a"], 3, every=0.001)

        assert (visits.now() - due_at).total_seconds() < 0.25


async def test_a_clock_that_jumps_ahead_makes_timers_due(
    visits: Visits, database_url: str, clock
) -> None:
    gauge = Gauge(seconds=0)
    visits.offer("a", after=3600)
    async with working(database_url, queue(handler=gauge), poll=5.0):
        await clock.advance(3600)

        await wait_until(lambda: gauge.started == ["a"], 3)


async def test_a_clock_that_jumps_back_hides_nothing(
    visits: Visits, database_url: str, clock
) -> None:
    """New visits are older than the cursor then: the levels are read anew."""
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), poll=0.1):
        visits.offer("before")
        await wait_until(lambda: gauge.started == ["before"])

        await clock.advance(-3600)
        visits.offer("after")

        await wait_until(lambda: gauge.started == ["before", "after"], 3)


def test_what_was_due_is_due_after_the_clock_was_stepped_back(visits: Visits, clock) -> None:
    """T4: a retry waits its backoff and no longer; a time that was asked for stays."""
    visits.offer("due", "retried")
    visits.offer("asked", after=60)
    asked_for = visits.row("asked")["due_at"]
    failed = Retry(after=30, error_type="E", error="no")
    visits.settle(visits.join(), (visits.start("retried"), failed))
    clock.advance_sync(-3600)

    moved = visits.call("step_back", queues=[QUEUE], seconds=3600)
    again = visits.call("step_back", queues=[QUEUE], seconds=3600)

    assert sorted(row["key"] for row in moved) == ["due", "retried"]
    assert again == []
    assert visits.row("due")["due_at"] <= visits.now()
    assert 20 < (visits.row("retried")["due_at"] - visits.now()).total_seconds() <= 30
    assert visits.row("asked")["due_at"] == asked_for


async def test_a_worker_follows_a_clock_that_is_stepped_back(
    visits: Visits, database_url: str, clock
) -> None:
    tries: list[int] = []

    async def handler(run):
        tries.append(run.visit.attempt)
        return Done() if len(tries) > 1 else Retry(after=30, error_type="E", error="no")

    visits.offer("a")
    async with working(database_url, queue(handler=handler), poll=0.1):
        await wait_until(lambda: visits.row("a")["attempt"] == 1)
        due_at = visits.row("a")["due_at"]
        await clock.advance(-3600)
        await wait_until(lambda: visits.row("a")["due_at"] < due_at)
        await clock.advance(30)

        await wait_until(lambda: visits.row("a") is None)

    assert tries == [0, 1]


async def test_a_visit_of_a_long_transaction_is_found(visits: Visits, database_url: str) -> None:
    """It commits behind the cursor, due at the transaction's start: the sweep finds it."""
    gauge = Gauge(seconds=0)
    with psycopg.connect(database_url) as user:
        user.execute("select mainspring.enqueue('ring', key => 'slow')")
        async with working(database_url, queue(handler=gauge), poll=0.2):
            visits.offer("quick")
            await wait_until(lambda: gauge.started == ["quick"])
            await asyncio.sleep(0.7)  # longer than the cursor's overlap

            user.commit()

            # Sweeps are rarer on a busy machine.
            await wait_until(lambda: gauge.started == ["quick", "slow"], 15)


def test_an_offer_notifies_only_if_a_worker_of_its_pool_sleeps(
    visits: Visits, mainspring_url: str
) -> None:
    """B11: a NOTIFY takes a database-wide lock, so none is sent for the sake of other pools."""
    near, far = visits.join(), visits.join(pool="far", queues=["far"])
    with psycopg.connect(mainspring_url, autocommit=True) as ear:
        ear.execute("listen mainspring")
        visits.call("sleep", worker_id=far, asleep=True)
        visits.offer("a")
        assert list(ear.notifies(timeout=0.05)) == []

        visits.call("sleep", worker_id=near, asleep=True)
        visits.offer("b")
        [heard] = ear.notifies(timeout=2, stop_after=1)

    assert heard.payload.endswith(" ring")
