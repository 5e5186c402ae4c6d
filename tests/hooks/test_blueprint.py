"""T13: tasks that are declared without an application, and found by their modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import Mainspring, Promise
from mainspring.blueprint import Blueprint
from mainspring.errors import DuplicateTask, InvalidSetting, InvalidTask
from mainspring.hooks.told import FailedRun
from mainspring.reactive import new_data
from mainspring.testing import run_until_idle


async def test_a_blueprint_s_tasks_are_the_application_s_once_it_is_included(
    app: Mainspring,
) -> None:
    """T13: those that were declared before and after, with its prefix, its hooks and the pool."""
    billing, failed = Blueprint("billing."), []
    seen: list[int] = []

    @billing.task
    async def charge(order: int) -> int:
        seen.append(order)
        return order

    @billing.hooks.failure
    def report(found: FailedRun) -> None:
        failed.append(found.run.task)

    grouped = charge.options(group="g")
    with pytest.raises(InvalidTask, match=r"is in no application: app\.include"):
        await charge.enqueue(1)
    app.include(billing)
    app.include(billing)  # once more is nothing more

    @billing.task(name="refund", priority=7, pool="other")
    async def give_back(order: int) -> None: ...

    assert set(app.tasks) == {"billing.charge", "billing.refund"}
    assert (charge.settings.pool, give_back.settings.pool) == (app.default_pool, "other")
    handle = await charge.enqueue(1)
    await grouped.enqueue(2)
    await charge.enqueue_many([{"order": 3}])
    await run_until_idle(app)
    assert await handle.result(timeout=1) == 1
    assert sorted(seen) == [1, 2, 3]
    assert len(app.hooks.failures) == 1


async def test_a_blueprint_declares_the_rest_in_its_application(app: Mainspring) -> None:
    """T13: schedules, processes, kinds and tasks with a trigger; once, and late ones at once."""
    billing = Blueprint("billing.")
    seen: list[int] = []

    @billing.task
    async def charge(order: int) -> None:
        seen.append(order)

    @billing.on_include
    def declare(app: Mainspring) -> None:
        app.schedule(charge.bind(0), cron="0 4 * * *", name="billing.nightly")
        loaded = app.data("raw.billing").param("loaded_to", external=True)
        app.task(name="billing.mart", when=new_data(loaded))(mart)
        app.entities("billing_account", table="account")

        @app.process(name="billing.order")
        def order(number: int) -> Promise[None]:
            return charge(number)

    async def mart() -> None: ...

    app.include(billing)
    app.include(billing)
    late = billing.on_include(lambda app: seen.append(len(app.tasks)))

    assert late is not None
    assert seen == [1]
    assert [s.name for s in app.schedules.declared()[0]] == ["billing.nightly"]
    assert (set(app.processes), set(app.reactive_tasks), set(app.kinds)) == (
        {"billing.order"},
        {"billing.mart"},
        {"billing_account"},
    )
    await app.processes["billing.order"].start(7)
    await run_until_idle(app)
    assert seen == [1, 7]
    with pytest.raises(
        InvalidSetting, match="on_include takes a function of an application, got 3"
    ):
        billing.on_include(3)  # type: ignore[type-var]


def test_names_and_applications_of_blueprints_do_not_mix() -> None:
    one, two = Mainspring(), Mainspring()
    billing, again = Blueprint("billing."), Blueprint("billing.")
    for blueprint in (billing, again):

        @blueprint.task
        async def charge() -> None: ...

    one.include(billing)
    with pytest.raises(InvalidSetting, match="is included in another application already"):
        two.include(billing)
    with pytest.raises(DuplicateTask, match="give the blueprint a prefix"):
        one.include(again)
    with pytest.raises(InvalidTask, match="it has no tasks with a trigger"):
        billing.task(when=None)(lambda: None)


async def test_modules_are_discovered_with_all_that_is_in_them(
    app: Mainspring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T13: packages to their bottom; a module that cannot be imported is told of as it is."""
    package = tmp_path / "found_shop"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "deep" / "__init__.py").write_text("")
    text = (
        "from mainspring.blueprint import Blueprint\n{0} = Blueprint('{0}.')\n"
        "@{0}.task\nasync def go(): ...\n"
    )
    (package / "mails.py").write_text(text.format("mails"))
    (package / "deep" / "bills.py").write_text(
        text.format("bills") + "from found_shop.mails import mails\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert app.autodiscover("found_shop") == [
        "found_shop",
        "found_shop.deep",
        "found_shop.deep.bills",
        "found_shop.mails",
    ]
    assert set(app.tasks) == {"mails.go", "bills.go"}
    app.autodiscover("found_shop")
    (package / "broken.py").write_text("import nobody_has_this")
    with pytest.raises(ModuleNotFoundError, match="nobody_has_this"):
        app.autodiscover("found_shop")
