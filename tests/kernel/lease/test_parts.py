"""Parts: what a worker has of a queue's limit, in memory never more than in the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from mainspring import clock
from mainspring.db.database import Database
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge, working


@pytest.fixture
async def worker(visits: Visits, database_url: str) -> AsyncIterator[Worker]:
    """A worker that was not started, with five permits and all of a rate."""
    visits.register(queue(concurrency=5, rate=10))
    found = Worker(Database(database_url), [queue()], WorkerSettings())
    found.loop_port.open()
    found.owned.worker_id = visits.join()
    state = found.buffer.queues["ring"]
    state.limit(paused=False, concurrency=5, rate=10)
    state.wants_part = True
    found.heart._parts.keep()
    assert (state.part, state.bucket.rate) == (5, 10)
    yield found
    found.heart._session.disconnect()


async def test_declared_dead_a_worker_has_no_part(worker: Worker) -> None:
    """B6: its row is gone and its part with it: others may have it already."""
    state = worker.buffer.queues["ring"]

    worker.heart._declared_dead()

    assert (state.part, state.bucket.rate) == (0, 0.0)
    await asyncio.sleep(0)  # nothing that the loop was told brings it back
    assert (state.part, state.bucket.rate) == (0, 0.0)


async def test_a_late_grow_never_undoes_a_shrink(worker: Worker) -> None:
    """B7: the loop is busy while the heart grows the part and then lends it."""
    state = worker.buffer.queues["ring"]

    worker.heart._parts._give(state, 4, 8.0)
    worker.heart._parts._give(state, 1, 2.0)
    await asyncio.sleep(0.01)

    assert (state.part, state.bucket.rate) == (1, 2.0)


async def test_what_is_lent_is_no_longer_used_before_the_commit(
    worker: Worker, visits: Visits
) -> None:
    """Shrink before the table says so: at the commit another may take it."""
    other = visits.join()
    visits.call("keep_part", queue="ring", worker_id=other, size=0, rate=0.0, wants=True)
    state = worker.buffer.queues["ring"]
    state.wants_part = True
    seen = []
    send = worker.heart._session.send

    def watched(statement, values):
        if statement.name == "keep_part":
            seen.append((state.part, state.bucket.rate, values["size"], values["rate"]))
        return send(statement, values)

    worker.heart._session.send = watched
    worker.heart._parts.keep()

    assert seen == [(2, 5.0, 2, 5.0)]


async def test_an_idle_worker_keeps_no_token_of_a_rate_that_others_use(
    worker: Worker, visits: Visits
) -> None:
    """T13: else every idle worker has one in stock, and they all start at once."""
    other = visits.join()
    parts, state = worker.heart._parts, worker.buffer.queues["ring"]
    state.bucket._tokens = 1.0  # one has dripped

    parts.keep()  # wants nothing: all is given back
    visits.call("keep_part", queue="ring", worker_id=other, size=1, rate=5.0, wants=False)
    state.wants_part = True
    parts.keep()

    assert state.bucket.rate == 5.0
    assert state.bucket.ready_at(clock.local()) > clock.local() + 0.1


async def test_alone_an_idle_worker_keeps_its_token(worker: Worker) -> None:
    """T13: a lone task of a queue with a slow rate need not wait."""
    parts, state = worker.heart._parts, worker.buffer.queues["ring"]
    state.bucket._tokens = 1.0

    parts.keep()
    state.wants_part = True
    parts.keep()

    assert state.bucket.ready_at(clock.local()) <= clock.local()


async def test_what_runs_is_kept_though_the_limit_was_lowered(
    worker: Worker, visits: Visits
) -> None:
    """A7: nothing is started above it, and the table follows as runs end."""
    state = worker.buffer.queues["ring"]
    state.running = 4
    visits.call("limit_queue", name="ring", source="", changes='{"concurrency": 2}')
    part = "select size from mainspring.part"

    state.wants_part = True
    worker.heart._parts.keep()
    assert (state.part, visits.value(part)) == (2, 4)

    state.running, state.wants_part = 1, True
    worker.heart._parts.keep()
    assert (state.part, visits.value(part)) == (2, 2)


async def test_who_has_all_permits_starts_nothing_in_place_of_what_ends_while_others_want(
    worker: Worker, visits: Visits
) -> None:
    """T13: else a worker that never lacks work keeps them all, and visits of other shards starve."""
    state = worker.buffer.queues["ring"]
    other = visits.join()
    visits.call("keep_part", queue="ring", worker_id=other, size=0, rate=0.0, wants=True)
    mine = "select size from mainspring.part where size > 0"
    state.running, state.wants_part = 5, True

    worker.heart._parts.keep()
    assert (state.part, visits.value(mine)) == (2, 5)

    state.running, state.wants_part = 3, True
    worker.heart._parts.keep()
    assert (state.part, visits.value(mine)) == (2, 3)


async def test_one_permit_changes_hands_after_a_turn(worker: Worker, visits: Visits) -> None:
    """T13: not at every look: while it is handed over nobody uses it."""
    visits.call("limit_queue", name="ring", source="", changes='{"concurrency": 1}')
    state, parts = worker.buffer.queues["ring"], worker.heart._parts
    other = visits.join()
    visits.call("keep_part", queue="ring", worker_id=other, size=0, rate=0.0, wants=True)
    state.running = 0
    state.wants_part = True
    parts.keep()
    state.wants_part = True
    parts.keep()
    assert state.part == 1

    parts._began_at["ring"] -= LEASE.parts_turn
    state.running = 1
    state.wants_part = True
    parts.keep()
    assert state.part == 0


async def test_a_locked_queue_row_does_not_stop_the_heart(
    visits: Visits, database_url: str
) -> None:
    """B8: beats, holds and the other queues go on; the part is kept when the lock is gone."""
    gate, gauge = Gate(), Gauge(seconds=0)
    queues = [queue(handler=gate, concurrency=3), queue("free", handler=gauge)]
    visits.register(*queues)
    async with working(database_url, *queues) as worker:
        beats = "select beat from mainspring.worker"
        heart = worker.heart._session._open
        with psycopg.connect(database_url) as user:
            user.execute("select from mainspring.queue where name = 'ring' for update")
            visits.offer("a", "b")
            visits.offer("c", queue="free")
            before = visits.value(beats)

            await wait_until(lambda: visits.value(beats) >= before + 2, 3)
            assert gauge.started == ["c"]
            assert gate.runs == []
            user.rollback()

        await wait_until(lambda: len(gate.runs) == 2)
        assert worker.heart._session._open is heart  # a turn that fails opens another
        gate.open.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)


async def test_an_idle_worker_wants_no_part_of_a_limit(visits: Visits, database_url: str) -> None:
    """It would take a share from those with work, and lock the queue's row ten times a second."""
    ring = queue(concurrency=3, rate=10)
    visits.register(ring)
    async with working(database_url, ring) as worker:
        had: list[dict[str, object]] = []
        beats = "select beat from mainspring.worker"
        last = visits.value(beats) + 3

        def some_beats_later() -> bool:
            had.extend(visits.query("select * from mainspring.part where wants or size > 0"))
            return visits.value(beats) >= last

        await wait_until(some_beats_later)

        assert had == []
        assert not worker.heart._parts.unmet
