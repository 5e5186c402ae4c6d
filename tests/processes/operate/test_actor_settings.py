"""Settings of actors: declared, changed while the engine runs, audited, counted."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring
from mainspring.errors import InvalidSetting, NotFound
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import Clock, run_until_idle
from mainspring.testing.idle import wait_until

FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}


def nothing() -> None: ...


async def test_settings_of_an_actor_are_kept_and_every_change_with_who_made_it(
    app: Mainspring,
) -> None:
    """P14: in the database, changed at run time, audited: who, when, from what to what."""
    app.task(name="charge", work_timeout=300.0, accept="last", concurrency=7)(nothing)
    await run_until_idle(app)
    orders = app.operator.processes
    found = (await orders.actors())["charge"]
    assert (found["work_timeout"], found["accept"], found["concurrency"]) == (300.0, "last", 7)
    assert (found["on_work_timeout"], found["task_timeout"]) == ("requeue", None)

    changes = {"work_timeout": 30.0, "retry.attempts": 3, "retry.first": 0.5, "concurrency": 2}
    after = await orders.change_actor("charge", changes, source="ann")
    await orders.change_actor("charge", {"task_timeout": 60.0}, source="bob")
    await orders.change_actor("charge", {"task_timeout": None}, source="bob")

    assert (after["work_timeout"], after["retry"]) == (30.0, {"attempts": 3, "first": 0.5})
    assert after["concurrency"] == 2
    last, second, first = await orders.setting_changes(actor="charge")
    assert (first.subject, first.source) == ("actor charge", "ann")
    assert (first.before["work_timeout"], first.after["work_timeout"]) == (300.0, 30.0)
    assert (first.before["concurrency"], first.after["concurrency"]) == (7, 2)
    assert (second.source, second.after["task_timeout"]) == ("bob", 60.0)
    assert (last.before["task_timeout"], last.after["task_timeout"]) == (60.0, None)
    assert await orders.setting_changes("charge") == []

    await app.operator.limit("charge", source="cyd", rate=5.0)
    [limited] = await orders.setting_changes(actor="charge", limit=1)
    assert (limited.source, limited.before["rate"], limited.after["rate"]) == ("cyd", None, 5.0)


async def test_an_operator_s_change_stands_until_the_code_declares_something_else(
    app: Mainspring, database_url: str
) -> None:
    """P14: like limits of queues."""
    app.task(name="charge", work_timeout=300.0)(nothing)
    await run_until_idle(app)
    await app.operator.processes.change_actor("charge", {"work_timeout": 30.0}, source="ann")

    await run_until_idle(app)
    assert (await app.operator.processes.actors())["charge"]["work_timeout"] == 30.0

    newer = Mainspring(database_url)
    newer.task(name="charge", work_timeout=200.0)(nothing)
    await run_until_idle(newer)
    assert (await app.operator.processes.actors())["charge"]["work_timeout"] == 200.0
    await newer.close()


async def test_a_running_worker_sees_a_change_at_once(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P14, P3: a run that begins after the change has the new work timeout."""
    runs: list[Context] = []
    release = asyncio.Event()

    @app.task(hold_after=0.05, work_timeout=3600.0)
    async def charge(ctx: Context) -> int:
        runs.append(ctx)
        if len(runs) == 1:
            await release.wait()
        return len(runs)

    @app.process
    def order() -> Promise[int]:
        return charge()

    def held_for() -> Any:
        with psycopg.connect(database_url) as connection:
            row = connection.execute(
                "select held_until - started_at from mainspring.visit"
                " where queue = 'charge' and pass is not null"
            ).fetchone()
            return row and row[0]

    async with app.worker(**FAST) as worker:
        await worker.ready()
        await app.operator.processes.change_actor("charge", {"work_timeout": 5.0}, source="ann")
        terms = worker.buffer.queues["charge"].settings.terms
        assert terms is not None
        await wait_until(lambda: "5.0" in worker.buffer.queues["charge"].policy, 10)
        handle = await order.start()
        await wait_until(lambda: held_for() == timedelta(seconds=5), 10)
        await clock.advance(timedelta(seconds=6))
        assert await handle.result(10) == 2
        release.set()


async def test_bad_settings_are_refused_by_name(app: Mainspring) -> None:
    """P14: errors that say what is possible; nothing is changed by them."""
    app.task(name="charge")(nothing)
    await run_until_idle(app)
    change = app.operator.processes.change_actor
    bad: list[tuple[dict[str, Any], str]] = [
        ({}, "name a setting to change: work_timeout, accept, on_work_timeout"),
        ({"acept": "last"}, "a setting of an actor is one of .*; did you mean 'accept'"),
        ({"accept": "both"}, "accept must be 'first' or 'last', got 'both'"),
        ({"on_work_timeout": "park"}, "on_work_timeout must be 'requeue' or 'fail', got 'park'"),
        ({"on_task_timeout": 1}, "on_task_timeout must be 'slide' or 'force', got 1"),
        ({"work_timeout": 0}, "work_timeout must be 1 or more seconds, got 0"),
        ({"work_timeout": None}, "work_timeout must be 1 or more seconds, got None"),
        ({"task_timeout": "1h"}, "task_timeout must be 1 or more seconds, got '1h'"),
        ({"work_timeout_limit": 0}, "work_timeout_limit must be a whole number from 1 on, got 0"),
        ({"retry.attempts": 0}, "retry.attempts must be a whole number of 1 to 1000000, got 0"),
        ({"retry.attempts": 2_000_000}, "a whole number of 1 to 1000000, got 2000000"),
        ({"retry.first": math.nan}, "retry.first must be a number of 0 to 315360000, got nan"),
        ({"retry.most": 4e8}, "retry.most must be a number of 0 to 315360000, got 4"),
        ({"retry.factor": math.inf}, "retry.factor must be a number of 1 to 1000, got inf"),
        ({"retry.often": 3}, "a setting of an actor is one of"),
        ({"concurrency": 0}, "concurrency must be a whole number of 1 to 1000000, got 0"),
    ]
    for changes, text in bad:
        with pytest.raises(InvalidSetting, match=text):
            await change("charge", changes, source="ann")
    text = "no actor is named 'chrage'; did you mean 'charge'.*first start of a worker of its pool"
    with pytest.raises(NotFound, match=text):
        await change("chrage", {"accept": "last"}, source="ann")
    with pytest.raises(NotFound, match=r"no actor is named 'mainspring\.process'"):
        await change("mainspring.process", {"accept": "last"}, source="ann")
    assert await app.operator.processes.setting_changes() == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"accept": "newest"}, "accept must be 'first' or 'last', got 'newest'"),
        ({"work_timeout": -1}, "work_timeout must be 1 or more seconds, got -1"),
        ({"task_timeout": 0.5}, "task_timeout must be 1 or more seconds, got 0.5"),
        ({"work_timeout_limit": 1.5}, "work_timeout_limit must be a whole number from 1 on"),
    ],
)
def test_a_declaration_that_is_out_of_range_is_refused_at_once(
    app: Mainspring, settings: dict[str, Any], text: str
) -> None:
    """P4: for tasks and deciders alike."""
    with pytest.raises(InvalidSetting, match=text):
        app.task(name="charge", **settings)(nothing)
    with pytest.raises(InvalidSetting, match=text):
        app.process(name="order", **settings)(nothing)


@pytest.mark.parametrize("policy", ['{"accept": "both"}', '{"retry": {"factor": 2000}}'])
async def test_a_policy_that_was_broken_by_hand_stops_nobody(
    app: Mainspring, database_url: str, policy: str
) -> None:
    """P13: a hand-made change that makes no sense is logged, and what was in force stays."""

    @app.task
    def charge() -> str:
        return "paid"

    @app.process
    def order() -> Promise[str]:
        return charge()

    await run_until_idle(app)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "update mainspring.queue set policy = %s::jsonb where name = 'charge'", (policy,)
        )
    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == "paid"
    in_force = (await app.operator.processes.actors())["charge"]
    assert (in_force["accept"], in_force["retry"]) == ("first", {})
