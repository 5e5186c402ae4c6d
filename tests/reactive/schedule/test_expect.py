"""Expected successes that did not come are reported (R14)."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from gates import Gate, declare
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.reactive.model.triggers import Delay, Delta
from mainspring.reactive.model.values import Param
from mainspring.testing import Clock, wait_until


async def test_a_missed_expectation_is_reported_once_and_cleared_by_a_success(
    app: Mainspring,
    base: Base,
    clock: Clock,
    orders: Param,
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R14: in the logs, in the list, in the numbers; a recorded success clears it."""
    gate.open.set()
    declare(app, gate, when=Delay(orders, "1h"), expect_within="2d", min_interval="1d")
    caplog.set_level(logging.ERROR, "mainspring")
    async with working(app) as worker:
        assert await app.reactive.tasks(missed_only=True) == []
        await clock.advance(timedelta(days=2, hours=1))
        await wait_until(lambda: base.state("daily")["missed_at"] is not None)
        await worker.idle()
        await clock.advance(timedelta(days=2, hours=1))
        await worker.idle()
        assert [t.task for t in await app.reactive.tasks(missed_only=True)] == ["daily"]
        missed = [r for r in caplog.records if r.msg == "reactive.expectation_missed"]
        assert len(missed) == 1
        load = base.rows("select pool, tasks, missed from mainspring.reactive_load")
        assert load == [{"pool": "default", "tasks": 1, "missed": 1}]

        await app.advance(orders, await clock.now())
        await worker.idle()

    assert len(gate.runs) == 1
    assert await app.reactive.tasks(missed_only=True) == []
    assert [(load.tasks, load.missed) for load in await app.reactive.load()] == [(1, 0)]


async def test_a_success_in_time_is_not_missed(
    app: Mainspring, base: Base, clock: Clock, orders: Param, gate: Gate
) -> None:
    """R14: the expectation counts from the last recorded success."""
    gate.open.set()
    declare(app, gate, when=Delta(orders), expect_within="2d")
    async with working(app) as worker:
        for n in range(1, 4):
            await clock.advance(timedelta(days=1, hours=12))
            await app.advance(orders, day(n))
            await worker.idle()

    assert base.state("daily")["missed_at"] is None
    assert len(gate.runs) == 3


async def test_a_paused_task_is_not_expected(
    app: Mainspring, base: Base, clock: Clock, orders: Param, gate: Gate
) -> None:
    declare(app, gate, when=Delta(orders), expect_within="2d")
    async with working(app) as worker:
        await app.reactive.pause("daily")
        await clock.advance(timedelta(days=3))
        await worker.idle()
        await app.reactive.resume("daily")
        await worker.idle()

    assert base.state("daily")["missed_at"] is None
