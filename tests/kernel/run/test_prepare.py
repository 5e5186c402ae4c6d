"""What a layer may do around a run: prepare for it when it is read, and end its turn when it has ended."""

from __future__ import annotations

import asyncio

from mainspring.kernel.outcome import Alone, Done, Outcome
from mainspring.kernel.visit import Run, Visit
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import working


async def test_a_layer_is_told_of_what_was_read_before_any_of_it_starts(
    visits: Visits, database_url: str
):
    """S24: queues with the same preparation are told together, others not at all; each visit once. What
    waits for a limit would be prepared too early."""
    told: list[tuple[str, str]] = []
    ran: list[str] = []

    async def prepare(some: list[Visit]) -> None:
        await asyncio.sleep(0)
        told.extend((visit.queue, visit.key) for visit in some)

    async def handler(run: Run) -> Outcome:
        if run.visit.queue in ("one", "two"):
            assert (run.visit.queue, run.visit.key) in told
        ran.append(run.visit.key)
        return Done()

    queues = [queue(name, handler=handler, prepare=prepare) for name in ("one", "two")]
    queues.append(queue("three", handler=handler))
    queues.append(queue("limited", handler=handler, prepare=prepare, concurrency=1))
    visits.register(*queues)
    for name in ("one", "two", "three", "limited"):
        visits.offer("a", "b", queue=name)
    async with working(database_url, *queues):
        await wait_until(lambda: len(ran) == 8)

    assert sorted(told) == [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")]


async def test_a_turn_ends_with_the_run_if_its_handler_says_so(visits: Visits, database_url: str):
    """S14: what is left to write concerns nobody else, so the next need not wait for the settle."""
    written = asyncio.Event()
    ran: list[str] = []

    async def write(connection: object) -> None:
        await written.wait()

    async def early(run: Run) -> Outcome:
        ran.append(run.visit.queue)
        run.ends_turn = True
        return Done(writer=Alone(write))

    async def other(run: Run) -> Outcome:
        ran.append(run.visit.queue)
        return Done()

    queues = [
        queue("early", handler=early, turns="entity"),
        queue("other", handler=other, turns="entity"),
    ]
    visits.register(*queues)
    visits.offer("a", queue="early")
    visits.offer("a", queue="other")
    async with working(database_url, *queues):
        await wait_until(lambda: ran == ["early", "other"])
        written.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)


async def test_a_settle_frees_no_turn_that_its_run_has_given_up(visits: Visits, database_url: str):
    """S14: by then it is another's."""
    written, ended = asyncio.Event(), asyncio.Event()
    running: list[str] = []
    ran: list[str] = []

    async def write(connection: object) -> None:
        await written.wait()

    async def early(run: Run) -> Outcome:
        run.ends_turn = True
        return Done(writer=Alone(write))

    async def long(run: Run) -> Outcome:
        running.append(run.visit.queue)
        ran.append(run.visit.queue)
        assert len(running) == 1, "two runs of one turn"
        await ended.wait()
        running.remove(run.visit.queue)
        return Done()

    queues = [
        queue("early", handler=early, turns="entity"),
        queue("long", handler=long, turns="entity"),
        queue("more", handler=long, turns="entity"),
    ]
    visits.register(*queues)
    for name in ("early", "long", "more"):
        visits.offer("a", queue=name)
    async with working(database_url, *queues):
        await wait_until(lambda: len(ran) == 1)
        written.set()
        await wait_until(lambda: visits.row("a", "early") is None)
        assert len(ran) == 1
        ended.set()
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)
    assert sorted(ran) == ["long", "more"]
