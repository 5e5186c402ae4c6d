"""Code that changes under running processes: names, arguments, actors that are gone for a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import Mainspring, Outcome, RetryPolicy
from mainspring.errors import DuplicateTask, InvalidArguments, InvalidSetting
from mainspring.processes.declare.versions import Versions
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import Clock, run_until_idle


def nothing() -> None: ...


def application(url: str) -> Mainspring:
    return Mainspring(url)


async def stop(app: Mainspring) -> None:
    await app.close()


async def test_a_renamed_continuation_is_served_under_its_former_name(database_url: str) -> None:
    """P1, versions: tasks recorded under a former name are run by its successor."""
    old = application(database_url)

    @old.process
    def finish(n: int) -> int:
        raise AssertionError("the old code is gone")

    @old.process
    def order(n: int) -> Promise[int]:
        return finish(n)

    handle = await order.start(3)
    del old.registry.types["finish"]  # this worker knows only the first step
    await run_until_idle(old)
    new = application(database_url)

    @new.process(name="conclude", was=["finish"])
    def conclude(n: int) -> int:
        return n * 10

    await run_until_idle(new)

    assert await handle.result(5) == 30
    with pytest.raises(DuplicateTask, match="a former name is one that is gone"):
        new.process(name="other", was=["conclude"])(nothing)
    await stop(old)
    await stop(new)


async def test_arguments_that_older_code_recorded_are_brought_up(
    app: Mainspring, database_url: str
) -> None:
    """Versions: an upcast for each step, promises among the arguments included."""

    @app.task
    def price() -> int:
        return 5

    @app.task
    def charge(order: int, amount: int, currency: str) -> str:
        return f"{order}: {amount} {currency}"

    @app.process
    def order(n: int) -> Promise[str]:
        return charge(n, price(), "")

    handle = await order.start(7)
    removed = app.tasks.pop("charge")
    await run_until_idle(app)
    with psycopg.connect(database_url) as connection:  # as the code before the change recorded it
        connection.execute(
            "update mainspring.task set args = args - 'currency' - 'order' "
            "|| jsonb_build_object('number', args -> 'order') where actor = 'charge'"
        )

    app.tasks["charge"] = removed

    @app.upcast(charge, version=1)
    def _(old: dict[str, Any]) -> dict[str, Any]:
        return {"order": old["number"], "amount": old["amount"]}

    @app.upcast(charge, version=2)
    def _(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "currency": "EUR"}

    await run_until_idle(app)

    assert await handle.result(5) == "7: 5 EUR"


async def test_a_step_that_newer_code_recorded_waits_for_a_worker_that_reads_it(
    database_url: str, clock: Clock
) -> None:
    """Versions: a rollback, or a shard that moves back during a deploy, parks nothing."""
    new, old = application(database_url), application(database_url)

    def declare(app: Mainspring) -> Any:
        @app.task(retry=RetryPolicy(attempts=1))
        def charge(order: int) -> str:
            return f"{order}"

        @app.process
        def order(n: int) -> Promise[str]:
            return charge(n)

        return order

    handle = await declare(new).start(7)

    @new.upcast(new.tasks["charge"], version=1)
    def _(old: dict[str, Any]) -> dict[str, Any]:
        return {"order": old["number"]}

    charge = new.tasks.pop("charge")  # this worker runs only the first step
    await run_until_idle(new)
    new.tasks["charge"] = charge
    declare(old)
    for _ in range(3):
        await run_until_idle(old)
        await clock.advance(timedelta(seconds=6))

    assert await old.operator.processes.parked_groups() == []
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select attempt, error from mainspring.visit where queue = 'charge'"
        ).fetchall()
    [(attempt, error)] = rows
    assert (attempt, "it runs older code than the one that recorded them" in error) == (0, True)
    await run_until_idle(new)
    assert await handle.result(5) == "7"
    await stop(old)
    await stop(new)


async def test_a_step_that_does_not_fit_is_tried_again_and_then_parked(
    app: Mainspring, database_url: str
) -> None:
    """Versions: as with plain tasks, a deploy may bring the code that fits; then the code is at fault."""

    @app.task(retry=RetryPolicy(attempts=2, first=0.0, most=0.0))
    def charge(order: int) -> str:
        return f"{order}"

    @app.task
    def judge(paid: Outcome[str]) -> str:
        return "caught"

    @app.process
    def order(n: int) -> Promise[str]:
        return judge(charge(n))

    handle = await order.start(7)
    removed = app.tasks.pop("charge")
    await run_until_idle(app)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            """update mainspring.task set args = '{"number": 7}' where actor = 'charge'"""
        )
    app.tasks["charge"] = removed
    await run_until_idle(app)

    [group] = await app.operator.processes.parked_groups()
    assert (group.actor, group.error_type) == ("charge", "mainspring.errors.InvalidArguments")
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select outcome::text from mainspring.history where queue = 'charge' order by run"
        ).fetchall()
    assert [row[0] for row in rows] == ["retry", "parked"]
    assert await handle.status() == "open"


def test_upcasts_are_steps_without_gaps() -> None:
    versions = Versions()
    assert versions.of("charge") == 1
    versions.add("charge", 2, lambda old: {**old, "b": 2})

    assert versions.of("charge") == 3
    assert msgspec.json.decode(versions.upcast("charge", 2, '{"a":1}')) == {"a": 1, "b": 2}
    with pytest.raises(InvalidArguments, match="nothing brings version 1 up to 2"):
        versions.upcast("charge", 1, "{}")
    with pytest.raises(
        InvalidArguments, match="it runs older code than the one that recorded them"
    ):
        versions.upcast("charge", 4, "{}")
    with pytest.raises(InvalidSetting, match="has an upcast from version 2 already"):
        versions.add("charge", 2, dict)
    with pytest.raises(InvalidSetting, match="version must be a whole number of 1 or more, got 0"):
        versions.add("charge", 0, dict)


async def test_a_step_of_the_engine_that_only_newer_code_knows_waits_for_it(
    database_url: str,
) -> None:
    """P1, versions: it is no failure of its process, and no attempt is counted."""
    app = application(database_url)

    @app.process
    def one() -> None: ...

    async with app:
        handle = await one.start()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("update mainspring.task set actor = '@tomorrow'")
            connection.execute(
                "update mainspring.visit set queue = 'mainspring.process' where queue = 'one'"
            )
            connection.execute(
                "update mainspring.visit set key = 'future/1' where key like 'look/%'"
            )
        await run_until_idle(app)
        assert await handle.status() == "open"
        with psycopg.connect(database_url) as connection:
            text = "select attempt, parked_at, error from mainspring.visit where error is not null"
            rows = connection.execute(text).fetchall()
    assert rows == [(0, None, "'@tomorrow' is of newer code than this worker's")]
