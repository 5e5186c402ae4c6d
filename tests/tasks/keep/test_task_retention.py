"""T7, T13: for how long results and history of a task are kept, where its declaration says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mainspring import Mainspring, Unique
from mainspring.errors import InvalidSetting, InvalidTask, NotFound
from mainspring.operate.history import HistoryFilter
from mainspring.tasks.keep import retention
from mainspring.tasks.keep.retention import drop_old
from mainspring.testing import Clock, run_until_idle

DAY = timedelta(days=1)


def declare(app: Mainspring, **kept: Any) -> None:
    @app.task(**kept)
    async def short(n: int) -> dict[str, int]:
        return {"n": n}

    @app.task
    async def usual(n: int) -> int:
        return n

    @app.task(keep_history=2 * DAY)
    async def quiet(n: int) -> None: ...


async def upkeep(app: Mainspring) -> None:
    pool, database = await app.pool(), await app.database()
    async with pool.connection() as connection:
        await drop_old(database, connection, days=30)


def count(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return int(found[0])


async def test_results_and_history_go_when_their_task_says_so_and_others_stay(
    mainspring_app: Mainspring, mainspring_clock: Clock, mainspring_url: str
) -> None:
    """T13, T7: one after the other; bundles as well. Whoever awaits a result that is gone is told so."""
    app = mainspring_app
    declare(app, keep_result=DAY, keep_history=3 * DAY)
    first = [await app.tasks["short"].enqueue(n=n) for n in range(3)]
    stays = await app.tasks["usual"].enqueue(n=1)
    await app.tasks["quiet"].enqueue_many([{"n": n} for n in range(50)])
    await run_until_idle(app)
    await mainspring_clock.advance(1.5 * DAY)
    later = await app.tasks["short"].enqueue(n=9)
    await run_until_idle(app)
    for _ in range(2):  # the second round finds nothing more
        await upkeep(app)
    with pytest.raises(
        NotFound, match="the result of task 'short' was dropped: it was kept for as"
    ):
        await first[0].result(timeout=1)
    assert await later.result(timeout=1) == {"n": 9}
    assert await stays.result(timeout=1) == 1
    ends = {end.handle.id: end async for end in app.results([*first, later])}
    assert [type(ends[handle.id].fault) for handle in (*first, later)] == [NotFound] * 3 + [
        type(None)
    ]
    [past] = await app.operator.history(HistoryFilter(key=first[0].key))
    assert past.result == "[dropped]"

    await mainspring_clock.advance(DAY)
    await upkeep(app)
    assert (
        count(mainspring_url, "select count(*) from mainspring.history where queue = 'quiet'") == 0
    )
    assert len(await app.operator.history(HistoryFilter(queue="short"))) == 4
    await mainspring_clock.advance(DAY)
    await upkeep(app)
    assert [run.id for run in await app.operator.history(HistoryFilter(queue="short"))] == [
        UUID(later.id)
    ]
    with pytest.raises(NotFound, match="it was not committed, or its history was dropped by age"):
        await first[0].result(timeout=1)
    assert await stays.result(timeout=1) == 1


async def test_two_upkeeps_one_that_dies_and_a_clock_that_jumps_drop_neither_too_much_nor_too_little(
    mainspring_app: Mainspring,
    mainspring_clock: Clock,
    mainspring_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T13: each batch is a transaction; what comes late is found by the round of the next day."""
    monkeypatch.setattr(retention, "BATCH", 7)
    app = mainspring_app
    declare(app, keep_result=DAY)
    await app.tasks["short"].enqueue_many([{"n": n} for n in range(40)])
    await run_until_idle(app)
    kept = "select count(*) from mainspring.history where queue = 'short' and result ? 'n'"
    gone = "select count(*) from mainspring.history where queue = 'short' and result ? '$'"
    await mainspring_clock.advance(DAY - timedelta(minutes=1))
    await upkeep(app)
    assert count(mainspring_url, kept) == 40

    await mainspring_clock.advance(timedelta(minutes=10))
    dying = asyncio.create_task(upkeep(app))
    while not count(mainspring_url, gone) and not dying.done():  # after some of its batches
        await asyncio.sleep(0)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    await asyncio.gather(upkeep(app), upkeep(app))
    assert (count(mainspring_url, kept), count(mainspring_url, gone)) == (0, 40)

    await mainspring_clock.advance(-2 * DAY)  # it was wrong, and is set back
    late = await app.tasks["short"].enqueue(n=1)
    await run_until_idle(app)
    await upkeep(app)
    assert await late.result(timeout=1) == {"n": 1}, "what is younger than a day stays"
    await mainspring_clock.advance(2 * DAY)  # it lies before what was dropped
    await upkeep(app)
    await mainspring_clock.advance(DAY)
    await upkeep(app)
    assert (count(mainspring_url, kept), count(mainspring_url, gone)) == (0, 41)


async def test_a_declaration_without_it_takes_it_back(
    mainspring_app: Mainspring, mainspring_clock: Clock, mainspring_url: str
) -> None:
    declare(mainspring_app, keep_result=60)
    handle = await mainspring_app.tasks["short"].enqueue(n=1)
    await run_until_idle(mainspring_app)
    async with Mainspring(mainspring_url) as other:  # which has no such task
        await run_until_idle(other)
    rules = "select count(*) from mainspring.retention where queue = 'short'"
    assert count(mainspring_url, rules) == 1
    async with Mainspring(mainspring_url) as newer:
        declare(newer)
        await run_until_idle(newer)
        await mainspring_clock.advance(DAY)
        await upkeep(newer)
        assert count(mainspring_url, rules) == 0
    assert await handle.result(timeout=1) == {"n": 1}


@pytest.mark.parametrize("given", [0, -1, True, "1d", timedelta(0)])
def test_a_time_that_keeps_nothing_is_refused(given: Any) -> None:
    app = Mainspring()
    with pytest.raises(InvalidSetting, match="keep_result must be 1 second or more"):
        declare(app, keep_result=given)


def test_history_that_goes_before_a_call_may_run_again_is_refused() -> None:
    app = Mainspring()
    with pytest.raises(
        InvalidTask, match=r"for 7200 s after .* keeps its history for 3600 s: a call"
    ):
        declare(app, keep_history=3600, unique=Unique(by=["n"], done_within=7200))
    declare(app, keep_history=7200, unique=Unique(by=["n"], done_within=7200))
