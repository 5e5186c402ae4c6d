"""Code that changes under running processes: names, arguments, actors that are gone for a while."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import DuplicateTask, InvalidArguments, InvalidSetting
from mainspring.processes.versions import Versions
from mainspring.tasks.promise import Promise
from mainspring.testing import run_until_idle


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
    del old.hub.types["finish"]  # this worker knows only the first step
    await run_until_idle(old)
    new = application(database_url)

    @new.process(name="conclude", aliases=["finish"])
    def conclude(n: int) -> int:
        return n * 10

    await run_until_idle(new)

    assert await handle.result(5) == 30
    with pytest.raises(DuplicateTask, match="an alias is for a name that is gone"):
        new.process(name="other", aliases=["conclude"])(nothing)
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
