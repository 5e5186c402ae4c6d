"""The traps: each was reproduced once, each is shut here on a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

from mainspring.ids import token
from mainspring.kernel.outcome import Done
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working


def test_a_version_is_no_counter(visits: Visits, me) -> None:
    """Deleted and offered again a counter restarts at 1: a resent settle deletes the new visit."""
    visits.offer("a")
    run = visits.start("a")
    visits.settle(me, (run, Done()))
    visits.offer("a")

    visits.settle(me, (run, Done()))

    assert visits.row("a") is not None


def test_the_lease_does_not_referee_a_settle(visits: Visits, me) -> None:
    """A lease checked by a join is stale exactly when it matters: the token decides alone."""
    visits.offer("a")
    run = visits.start("a")
    visits.declare_dead(me)
    other = visits.join()
    visits.take(other)

    assert visits.settle(me, (run, Done())) == ["settled"]
    assert visits.settle(other, (visits_run_again(visits, run), Done())) == ["gone"]


def visits_run_again(visits: Visits, run):
    return visits.start(run.visit)


def test_a_takeover_compares_the_beat_that_was_seen(visits: Visits, me) -> None:
    """Without it a worker that has just beaten is declared dead, and a shard has two owners."""
    seen = visits.value("select beat from mainspring.worker where id = %s", me)
    visits.beat(me, slots=4, free=0)

    assert visits.call("declare_dead", dead_id=me, beat=seen) == []

    assert visits.value("select count(*) from mainspring.worker") == 1


def test_a_beat_and_a_burial_that_race_have_one_winner(visits: Visits, database_url: str) -> None:
    for _ in range(10):
        worker = visits.join()
        seen = visits.value("select beat from mainspring.worker where id = %s", worker)
        other = Visits(database_url)
        with ThreadPoolExecutor(2) as threads:
            buried = threads.submit(other.call, "declare_dead", dead_id=worker, beat=seen)
            beaten = threads.submit(visits.beat, worker, slots=4, free=0)
            assert bool(buried.result()) != bool(beaten.result())
        other.close()


def test_a_worker_that_was_buried_takes_no_shard(visits: Visits) -> None:
    """A take that arrives late must leave no shard to a dead id."""
    worker = visits.join()
    visits.declare_dead(worker)

    assert visits.take(worker) == set()


def test_a_take_waits_for_a_burial_under_way(visits: Visits, database_url: str) -> None:
    worker = visits.join()
    other = Visits(database_url)
    with other.connection.transaction(), ThreadPoolExecutor(1) as thread:
        other.call("declare_dead", dead_id=worker, beat=0)
        visits.query("set lock_timeout = '5s'")
        taken = thread.submit(visits.take, worker)
        wait_for_lock(other)
        other.connection.execute("commit")
        assert taken.result() == set()
        other.connection.execute("begin")
    other.close()


def wait_for_lock(visits: Visits) -> None:
    deadline = time.monotonic() + 5
    while not visits.value("select count(*) from pg_locks where not granted"):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_two_takers_never_share_a_shard(visits: Visits, database_url: str) -> None:
    workers = [visits.join() for _ in range(4)]
    taken: dict[int, set[int]] = {}

    def take(n: int) -> None:
        mine = Visits(database_url)
        taken[n] = mine.take(workers[n], most=400)
        mine.close()

    threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    shards = [shard for found in taken.values() for shard in found]
    assert len(shards) == len(set(shards))
    assert all(len(found) <= 400 for found in taken.values()), "a LIMIT must bind"


def test_a_give_that_arrives_late_frees_nothing(visits: Visits, me) -> None:
    """Its epoch is an old one: the shard was adopted again since."""
    rows = visits.query("select shard, epoch from mainspring.lease where worker_id = %s", me)
    visits.call("renew_leases", pool="default", worker_id=me, epoch=token())

    freed = visits.call(
        "give_leases",
        pool="default",
        worker_id=me,
        shards=[row["shard"] for row in rows],
        epochs=[row["epoch"] for row in rows],
        offered_to=None,
        epoch=token(),
    )

    assert freed == []


def test_a_row_that_another_holds_is_not_settled(visits: Visits, me) -> None:
    """Else the new owner believes the key free while the holder still runs it."""
    visits.offer("a")
    mine, theirs = visits.start("a"), visits.start("a")
    visits.hold(visits.join(), theirs)

    assert visits.settle(me, (mine, Done())) == ["gone"]
    assert visits.row("a")["pass"] == theirs.token


def test_a_hold_on_another_connection_does_not_refuse_its_own_settle(
    visits: Visits, me, database_url: str
) -> None:
    """The pass is drawn before, so the settle knows it although the hold's answer never came."""
    visits.offer("a")
    run = visits.start("a")
    heart = Visits(database_url)
    heart.hold(me, run)
    heart.close()
    run.held = False

    assert visits.settle(me, (run, Done())) == ["settled"]


def test_an_offer_of_what_is_due_already_still_counts(visits: Visits, me) -> None:
    """The change made during the run would never be seen otherwise."""
    visits.offer("a")
    run = visits.start("a")
    visits.offer("a")

    assert visits.settle(me, (run, Done())) == ["superseded"]
    assert visits.keys(me) == ["a"]


def test_equal_times_and_a_limit_hide_nothing(visits: Visits, me) -> None:
    """A scalar cursor would skip the rest of the equals."""
    visits.offer(*(f"key {n:03}" for n in range(100)))
    found, position = [], None
    while True:
        options = {} if position is None else {"after": position}
        page = visits.read(me, most=7, priorities=[5], **options)
        if not page:
            break
        found += [visit.key for visit in page]
        position = page[-1].position

    assert found == [f"key {n:03}" for n in range(100)]


async def test_a_sweep_pages_past_what_is_in_hand(visits: Visits, database_url: str) -> None:
    """A LIMITed sweep that returns only rows in hand would never come to the others."""
    import asyncio

    go = asyncio.Event()
    started: list[str] = []

    async def handler(run):
        started.append(run.visit.key)
        await go.wait()
        return Done()

    visits.offer(*(f"key {n:03}" for n in range(30)))
    async with working(database_url, queue(handler=handler), page=10, concurrency=100):
        await wait_until(lambda: len(started) == 30)
        with psycopg.connect(database_url) as user:
            user.execute("update mainspring.queue set changed_at = now()")
        visits.offer("hidden")
        visits.change("hidden", due_at=visits.row("key 029")["due_at"])

        await wait_until(lambda: "hidden" in started)
        go.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)


async def test_a_rewind_is_not_overwritten_by_a_read_under_way(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), poll=30.0, lease=5.0):
        for n in range(40):
            visits.offer(f"key {n}")
        await wait_until(lambda: len(gauge.started) == 40, 10)


def test_one_user_s_transaction_does_not_hold_up_a_beat(
    visits: Visits, me, database_url: str
) -> None:
    """Beats touch worker and lease rows only, which no user has locked."""
    visits.offer("a")
    with psycopg.connect(database_url) as user:
        user.execute("select from mainspring.visit for update")
        visits.query("set statement_timeout = 500")

        assert visits.beat(me, slots=4, free=1)
        assert visits.recover() == []


def test_the_engine_gives_way_in_a_deadlock_never_the_user(visits: Visits) -> None:
    """Its lock_timeout is below the server's deadlock_timeout."""
    settings = visits.query(
        "select name, setting::int as ms from pg_settings"
        " where name in ('lock_timeout', 'deadlock_timeout')"
    )
    found = {row["name"]: row["ms"] for row in settings}

    assert 0 < found["lock_timeout"] < found["deadlock_timeout"]


def test_innocents_are_not_parked_after_three_kills(visits: Visits) -> None:
    """Counting an attempt for every visit due at a takeover would park a million of them."""
    visits.offer(*(f"key {n}" for n in range(50)))
    for _ in range(3):
        worker = visits.join()
        visits.take(worker)
        visits.read(worker)
        visits.hold(worker, visits.start("key 7"))
        visits.declare_dead(worker)
        visits.recover()

    parked = visits.query("select key from mainspring.visit where parked_at is not null")
    assert [row["key"] for row in parked] == ["key 7"]
    assert visits.value("select sum(crashes) from mainspring.visit") == 3


def test_many_offers_of_one_transaction_notify_once(visits: Visits, me, database_url: str) -> None:
    """One NOTIFY for each offer cost seven eighths of the throughput."""
    visits.call("sleep", asleep=True, worker_id=me)
    with psycopg.connect(database_url, autocommit=True) as listening:
        listening.execute("listen mainspring")
        with visits.connection.transaction():
            for n in range(20):
                visits.offer(f"key {n}")
        heard = list(listening.notifies(timeout=0.3))

    assert len(heard) == 1
