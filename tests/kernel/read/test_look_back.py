"""What a heart takes for lost it has seen so at two looks running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from mainspring.db.database import Database
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import working


@pytest.fixture
async def worker(visits: Visits, me: UUID, database_url: str) -> AsyncIterator[Worker]:
    """One that has all shards and whose heart beats only when it is told to."""
    worker = Worker(Database(database_url), [queue()], WorkerSettings())
    worker.owned.worker_id = me
    worker.owned.own(range(1024), count=1024)
    worker.loop_port.open()
    yield worker
    worker.heart._session.disconnect()
    worker.runner.close()


async def test_a_work_timeout_must_have_passed_at_two_looks(visits: Visits, worker: Worker) -> None:
    """P3: the actor's own beat may be on its way when the first one comes."""
    visits.offer("a")
    run = visits.start("a")
    visits.hold(visits.join(), run, work_timeout=1.0)
    visits.change("a", held_until=visits.now() - timedelta(minutes=1))

    worker.heart._holds.look()
    row = visits.row("a")
    assert row is not None
    assert row["pass"] == run.token

    worker.heart._holds.look()
    row = visits.row("a")
    assert row is not None
    assert (row["pass"], row["work_timeouts"]) == (None, 1)


async def test_a_visit_must_be_gone_at_two_looks_before_its_run_is_stopped(
    visits: Visits, worker: Worker
) -> None:
    """T10: a run that has just settled itself, in its own transaction, is not to be stopped."""
    visits.offer("a")
    run = visits.start("a")
    run.held = True
    run.slot = asyncio.create_task(asyncio.Event().wait())
    worker.owned.runs[run.token] = run
    visits.query("delete from mainspring.visit")

    worker.heart._holds.look()
    await asyncio.sleep(0)
    assert run.stopped is None

    worker.heart._holds.look()
    await asyncio.sleep(0)
    assert run.stopped == "gone"
    await asyncio.wait([run.slot])


async def test_a_sweep_that_is_asked_for_during_another_follows_it(
    visits: Visits, database_url: str
) -> None:
    """What became free may lie where that one has been; the next would come after the poll."""
    async with working(database_url, queue(), poll=60.0) as worker:
        reader = worker.reader
        await wait_until(lambda: reader.intake.passes == 1)
        fetch, asked = reader._fetch, []

        async def fetch_and_ask(read):
            rows = await fetch(read)
            if read.is_sweep and not asked:
                asked.append(True)
                reader.sweep_soon()
            return rows

        reader._fetch = fetch_and_ask
        reader.sweep_soon()

        await wait_until(lambda: reader.intake.passes == 3)
