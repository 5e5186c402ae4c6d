"""Why, from the tables: live, with what stands besides the trigger."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from gates import Gate, declare, working_until_started
from tables import day

from mainspring import Mainspring, ReactiveRun
from mainspring.errors import InvalidTrigger
from mainspring.reactive import all_of, any_of, fresh, in_this_chunk, new_data
from mainspring.reactive.decide.explain import lines_of
from mainspring.reactive.model.values import Param
from mainspring.reactive.operate.why import why
from mainspring.testing import Clock, run_until_idle, wait_until


async def test_a_ready_task_is_told_its_place_and_who_is_before_it(
    app: Mainspring, orders: Param, gate: Gate
) -> None:
    """R8, R17: the cap, how many run, and the number in the queue."""
    app.reactive_pool(cap=1)
    declare(app, gate, name="first", when=new_data(orders), priority=9)
    declare(app, gate, name="second", when=new_data(orders))
    declare(app, gate, name="third", when=new_data(orders), priority=1)
    await app.reactive_apply()
    await app.advance(orders, day(1))
    async with working_until_started(app, gate):
        await wait_until(lambda: _is_ready(app, "third"))
        told = await why(app.reactive, "third")
        running = await why(app.reactive, "first")

    assert "ready, number 2 in pool 'default' (cap 1, 1 running)" in told.notes
    assert any(note.startswith("running since") for note in running.notes)


async def _is_ready(app: Mainspring, task: str) -> bool:
    return (await app.reactive.tasks(task=task))[0].state == "ready"


async def test_the_producer_is_named_with_how_long_it_runs_and_usually_takes(
    app: Mainspring, orders: Param, built: Param, gate: Gate
) -> None:
    """R17: the next fact, with the producer that would bring it and its usual duration."""
    gate.open.set()
    declare(app, gate, name="load", when=new_data(orders), produces=[built])
    declare(app, Gate(), name="report", when=new_data(built))
    await app.reactive_apply()
    await app.advance(orders, day(1))
    async with working_until_started(app, gate):
        await wait_until(lambda: _has_succeeded(app, "load"))
        gate.open.clear()
        gate.started.clear()
        await app.advance(orders, day(2))
        async with asyncio.timeout(10):
            await gate.started.wait()
        told = await why(app.reactive, "report")

    assert [fact.text for fact in told.next] == ["mart.daily.built_to to have a value"]
    [producer] = told.next[0].producers
    assert producer.startswith("load brings it, running for ")
    assert "usually takes" in producer


async def _has_succeeded(app: Mainspring, task: str) -> bool:
    return (await app.reactive.tasks(task=task))[0].succeeded_at is not None


async def test_the_live_verdict_counts_not_the_stored_one(
    app: Mainspring, orders: Param, mainspring_clock: Clock
) -> None:
    """R17, trap: a Delay went false by time, and nobody wrote it."""
    ran = []

    @app.task(when=all_of(fresh(orders, "1h"), new_data(orders)), expect_within="1d")
    async def daily(run: ReactiveRun) -> None:
        ran.append(1)

    await run_until_idle(app)
    await app.reactive.pause("daily")
    await app.advance(orders, await app.operator.now())
    assert (await why(app.reactive, "daily")).true
    await mainspring_clock.advance(timedelta(hours=2))

    told = await why(app.reactive, "daily")
    assert not told.true
    assert any("false since" in line for line in lines_of(told))
    assert "paused; resume it with `mainspring reactive resume`" in told.notes
    assert ran == []


async def test_a_future_value_is_looked_at_when_its_chunk_begins(
    app: Mainspring, orders: Param, mainspring_clock: Clock
) -> None:
    """R7: the one verdict that time alone turns true has a durable timer, and why names the moment."""
    ran = []

    @app.task(when=all_of(in_this_chunk(orders, "day"), new_data(orders)), expect_within="9d")
    async def daily(run: ReactiveRun) -> None:
        ran.append(run.current[orders])

    await run_until_idle(app)
    now = await app.operator.now()
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC)
    ahead = midnight + timedelta(days=2, hours=5)
    await app.advance(orders, ahead)
    await run_until_idle(app)
    assert ran == []
    told = await why(app.reactive, "daily")
    assert told.again_at == midnight + timedelta(days=2)

    await mainspring_clock.advance(told.again_at - now)
    await run_until_idle(app)
    assert ran == [ahead]


def test_a_setting_of_the_application_forbids_nesting() -> None:
    """R5: one nested layer at most, and a setting forbids even that."""
    app = Mainspring("postgresql://nobody@localhost:1/nowhere", nested_triggers=False)
    a, b = (app.data("raw").param(name) for name in "ab")

    app.task(when=any_of(new_data(a), new_data(b)), name="flat")(lambda: None)
    with pytest.raises(
        InvalidTrigger, match="nested triggers are switched off in this application"
    ):
        app.task(when=all_of(new_data(a), any_of(new_data(a), new_data(b))), name="deep")(
            lambda: None
        )
