"""Pauses of queues: why, until when, and that they end by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidSetting, InvalidTime
from mainspring.metrics import render
from mainspring.testing import Clock, wait_until
from visits import QUEUE, Visits, queue
from workers import Gauge, working


async def test_a_pause_with_an_end_goes_on_by_itself_then(
    visits: Visits, database_url: str, app: Mainspring, clock: Clock
) -> None:
    """T13: without an order, and whoever paused it may be gone."""
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge)) as worker:
        until = await app.operator.now() + timedelta(hours=1)
        await app.operator.pause(QUEUE, reason="the bank is away", until=until)
        await wait_until(lambda: worker.buffer.queues[QUEUE].paused)
        visits.offer("a", "b")
        [load] = await app.operator.queues(name=QUEUE)
        assert (load.paused_until, load.pause_reason) == (until, "the bank is away")
        assert gauge.started == []

        await clock.advance(3601)
        await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0)
        [load] = await app.operator.queues(name=QUEUE)
        assert (load.paused_at, load.paused_until, load.pause_reason) == (None, None, None)
    assert gauge.started == ["a", "b"]


async def test_a_worker_looks_when_the_pause_ends_and_not_only_at_a_beat(
    visits: Visits, database_url: str, app: Mainspring
) -> None:
    """T13: an idle worker reads settings once in a lease time; the end of a pause is no later for it."""
    gauge = Gauge(seconds=0)
    async with working(database_url, queue(handler=gauge), lease=60.0) as worker:
        until = await app.operator.now() + timedelta(seconds=0.4)
        await app.operator.pause(QUEUE, until=until)
        await wait_until(lambda: worker.buffer.queues[QUEUE].paused)
        visits.offer("a")
        await wait_until(lambda: gauge.started == ["a"], 10)
        assert await app.operator.now() >= until


async def test_why_status_and_the_queue_say_the_reason_and_the_end(
    visits: Visits, app: Mainspring
) -> None:
    """T13."""
    visits.offer("a")
    until = datetime(2999, 1, 2, 3, 4, 5, tzinfo=UTC)
    await app.operator.pause(QUEUE, reason="the bank\x00 is away", until=until)

    paused = next(c for c in (await app.operator.why(QUEUE, "a")).causes if c.name == "paused")
    assert paused.text.endswith("until 2999-01-02 03:04:05Z: the bank� is away")
    assert (paused.facts["until"], paused.facts["reason"]) == (until, "the bank� is away")
    status = await app.operator.status()
    assert status.lag_seconds == 0
    [load] = [q for q in status.queues if q.name == QUEUE]
    assert load.pause == paused.text.partition("is paused ")[2]
    assert f'mainspring_queue_paused{{queue="{QUEUE}"}} 1' in render(status, [], [], [])

    await app.operator.resume(QUEUE)
    assert "paused" not in {c.name for c in (await app.operator.why(QUEUE, "a")).causes}
    assert (await app.operator.queues(name=QUEUE))[0].pause == ""


async def test_the_end_of_a_pause_needs_nobody(
    visits: Visits, app: Mainspring, clock: Clock
) -> None:
    """T13: no worker lives; a later pause is a new one, and one in force stays as old as it is."""
    visits.offer("a")
    until = await app.operator.now() + timedelta(minutes=1)
    await app.operator.pause(QUEUE, until=until)
    first = (await app.operator.queues(name=QUEUE))[0].paused_at
    await app.operator.pause(QUEUE, reason="for longer")
    [load] = await app.operator.queues(name=QUEUE)
    assert (load.paused_at, load.paused_until, load.pause_reason) == (first, None, "for longer")

    await app.operator.pause(QUEUE, until=until)
    await clock.advance(120)
    assert "paused" not in {c.name for c in (await app.operator.why(QUEUE, "a")).causes}
    assert QUEUE not in await app.operator.pause_all(reason="a restore")
    [load] = await app.operator.queues(name=QUEUE)
    assert load.paused_at
    assert first
    assert load.paused_at > first
    assert load.pause_reason == "a restore"
    assert QUEUE in await app.operator.pause_all(reason="again")
    assert (await app.operator.queues(name=QUEUE))[0].pause_reason == "a restore"


async def test_a_pause_that_ends_in_the_past_is_refused(visits: Visits, app: Mainspring) -> None:
    past = await app.operator.now() - timedelta(seconds=1)
    with pytest.raises(InvalidSetting, match="a pause must end in the future, got until="):
        await app.operator.pause(QUEUE, until=past)
    with pytest.raises(InvalidTime, match="a pause must end at a time with a time zone"):
        await app.operator.pause_all(until=datetime(2999, 1, 1))
    assert (await app.operator.queues(name=QUEUE))[0].paused_at is None
