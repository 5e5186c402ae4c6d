"""Readers that are killed, cut off or stopped at any step: every record has its effects once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokers import NatsServer
from kafka_broker import KafkaBroker
from mainspring import Mainspring, crash_points
from mainspring.sources import Advance, Enqueue, Put, Record
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import Feed, KafkaFeed, NatsFeed, Sources
from warm import WorkerProcess

HERE = Path(__file__).parent
STEPS = ("batch.writing", "batch.fenced", "batch.written", "batch.committed")
COUNT = 1_200

pytestmark = pytest.mark.timeout(180)


def worker(sources: Sources, feed: Feed, **settings: Any) -> WorkerProcess:
    """A worker of source_app in a process of its own."""
    environment = {"TEST_BROKER": "", "TEST_TOPIC": ""}
    if isinstance(feed, NatsFeed):
        environment["TEST_BROKER"] = feed.server.url
    elif isinstance(feed, KafkaFeed):
        environment |= {"TEST_BROKER": feed.cluster.servers, "TEST_TOPIC": feed.topic}
    return WorkerProcess(
        "source_app:app", sources.url, path=HERE, environment=environment, **settings
    )


def has_all(sources: Sources, count: int) -> bool:
    return bool(
        sources.value("select count(*) from mainspring.visit where queue = 'charge'") >= count
    )


def check_once(sources: Sources, count: int) -> None:
    """Each effect of each record is there, and once."""
    rows = sources.query(
        "select (payload ->> 'order')::int as n from mainspring.visit where queue = 'charge' order by 1"
    )
    assert [row["n"] for row in rows] == list(range(count))
    assert sources.value("select num from mainspring.param") == count - 1
    assert sources.count("mainspring.document") == 100
    lags = sources.query(
        "select partition, next from mainspring.source_offset where start is not null"
    )
    assert lags == []
    assert sources.query("select * from mainspring.visit where parked_at is not null") == []


@pytest.fixture(params=["nats", "real kafka"])
def kept(request: pytest.FixtureRequest, topic: str) -> Feed:
    """Brokers that are processes of their own."""
    if request.param == "nats":
        return NatsFeed(request.getfixturevalue("nats"))
    return KafkaFeed(request.getfixturevalue("real_kafka"), topic)


@pytest.mark.parametrize("step", [f"{step}:{n}" for step in STEPS for n in (1, 3)])
async def test_a_worker_killed_at_a_step_is_taken_over(
    nats: NatsServer, sources: Sources, step: str
) -> None:
    """kill -9 before, in and after the transaction: by its lease the partition goes to another."""
    feed = NatsFeed(nats)
    await feed.put(range(COUNT // 2), part=0)
    await feed.put(range(COUNT // 2, COUNT), part=1)
    with worker(sources, feed, die_at=step) as dying:
        await asyncio.to_thread(dying.wait_dead)
    with worker(sources, feed):
        await wait_until(lambda: has_all(sources, COUNT), 60)
        await wait_until(lambda: sum(sources.offsets().values()) >= COUNT, 30)
        check_once(sources, COUNT)


async def test_a_worker_killed_while_it_reads_kafka_is_taken_over(
    real_kafka: KafkaBroker, topic: str, sources: Sources
) -> None:
    """The same with the other broker, and a worker that was there already."""
    feed = KafkaFeed(real_kafka, topic)
    await feed.put(range(COUNT // 2), part=0)
    with worker(sources, feed, die_at="batch.written") as dying:
        await asyncio.to_thread(dying.wait_dead)
        with worker(sources, feed):
            await feed.put(range(COUNT // 2, COUNT), part=1)
            await wait_until(lambda: has_all(sources, COUNT), 60)
            check_once(sources, COUNT)


async def test_a_reader_that_is_stopped_through_its_lease_changes_nothing_when_it_wakes(
    kept: Feed, sources: Sources
) -> None:
    """SIGSTOP while it reads, taken over, SIGCONT: two readers fight, and only one of them counts."""
    with worker(sources, kept) as one, worker(sources, kept) as other:
        await kept.put(range(200))
        await wait_until(lambda: has_all(sources, 200), 60)
        [held] = sources.query(
            "select w.process from mainspring.visit v join mainspring.worker w on w.id = v.holder"
            " where v.queue = 'source/orders' and v.key like '%%0'"
        )
        first, second = (one, other) if one.process.pid == held["process"] else (other, one)
        putting = asyncio.create_task(kept.put(range(200, COUNT)))
        first.send(signal.SIGSTOP)
        await putting
        await wait_until(lambda: has_all(sources, COUNT), 60)
        await kept.put(range(COUNT, COUNT + 100))
        first.send(signal.SIGCONT)
        await kept.put(range(COUNT + 100, COUNT + 300))
        await wait_until(lambda: has_all(sources, COUNT + 300), 60)
        assert second.process.poll() is None
        check_once(sources, COUNT + 300)


@contextmanager
def at(step: str, times: set[int], action: Any) -> Iterator[list[int]]:
    """Do something at some of the times that a step is reached."""
    seen = [0]

    def reached(name: str) -> None:
        if name == step:
            seen[0] += 1
            if seen[0] in times:
                action()

    crash_points.listener = reached
    try:
        yield seen
    finally:
        crash_points.listener = None


@pytest.mark.parametrize("step", STEPS)
async def test_a_database_that_ends_every_session_at_a_step_loses_and_doubles_nothing(
    nats: NatsServer, sources: Sources, step: str
) -> None:
    """pg_terminate_backend before, in and after the transaction, COMMIT among it."""
    app, feed = sources.app, NatsFeed(nats)
    charge = declare(app, feed)
    await feed.put(range(COUNT))

    def end_sessions() -> None:
        sources.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database()"
        )

    assert charge.name == "charge"
    with at(step, {1, 2, 4}, end_sessions) as seen:
        async with app.worker(**FAST_SETTINGS):
            await wait_until(lambda: has_all(sources, COUNT), 60)
    assert seen[0] >= 3
    check_once(sources, COUNT)


def declare(app: Mainspring, feed: Feed) -> Any:
    """What source_app has, in this process."""
    loaded = app.data("dwh").param("loaded", kind="integer")
    drafts = app.documents("draft")

    @app.task(pool="nobody")
    async def charge(order: int) -> None: ...

    def to(record: Record) -> tuple[Any, ...]:
        n = record.json()
        return Enqueue(charge.bind(n)), Advance(loaded, n), Put(drafts, n % 100, {"n": n})

    app.source("orders", feed.broker(), to=to)
    return charge


def is_forgotten(sources: Sources, count: int) -> bool:
    """All records are taken in, and no death is on the record of a partition."""
    crashes = "select max(crashes) from mainspring.visit where key ~ '^ORDERS'"
    held = "select count(*) from mainspring.visit where pass is not null and key ~ '^ORDERS'"
    return has_all(sources, count) and not sources.value(crashes) and sources.value(held) == 2


async def test_many_deaths_of_workers_that_got_something_through_park_nothing(
    nats: NatsServer, sources: Sources
) -> None:
    """Deaths add up only while nothing of a partition gets through; a quiet one's are forgotten too."""
    feed = NatsFeed(nats)
    for n in range(6):
        count = 100 * (n + 1)
        await feed.put(range(count - 100, count))
        with worker(sources, feed) as killed:
            await wait_until(partial(is_forgotten, sources, count), 60)
            killed.send(signal.SIGKILL)
            await asyncio.to_thread(killed.wait)
    with worker(sources, feed):
        await feed.put(range(600, 700))
        await wait_until(lambda: has_all(sources, 700), 60)
        check_once(sources, 700)
