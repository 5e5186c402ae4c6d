"""What an operator sees: search, groups of parked tasks, causes, templates, settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import InvalidSetting, InvalidTime, NotFound
from mainspring.processes.operate.search import ProcessFilter
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
async def shop(app: Mainspring) -> Mainspring:
    """Orders 1 to 4: two failed alike, one otherwise, one finished; and one return."""

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        if order in (1, 2):
            raise ValueError(f"card of order {order} was refused")
        if order == 3:
            raise ConnectionError("bank is closed")
        return order

    @app.process
    def order(number: int) -> Promise[int]:
        return charge(number)

    @app.process
    def give_back(number: int) -> int:
        return number

    for number in range(1, 5):
        attrs = {"shop": number % 2, "vip": number == 4}
        await order.options(id=f"order-{number}", attrs=attrs).start(number)
    await give_back.options(id="order-1").start(1)
    await run_until_idle(app)
    return app


async def found(app: Mainspring, **conditions: object) -> list[str]:
    processes = await app.operator.processes.search(ProcessFilter(**conditions))  # type: ignore[arg-type]
    return sorted(p.key for p in processes)


async def test_processes_are_found_by_all_that_is_known_of_them(shop: Mainspring) -> None:
    """P12: search by type, state, id, time, attributes, error and task."""
    now = datetime.now(UTC)

    assert await found(shop, type="order", state="open") == ["order-1", "order-2", "order-3"]
    assert await found(shop, type="order", state="finished") == ["order-4"]
    assert await found(shop, id="order-1") == ["order-1", "order-1"]
    assert await found(shop, attrs={"shop": 0, "vip": True}) == ["order-4"]
    assert await found(shop, error="refused") == ["order-1", "order-2"]
    assert await found(shop, error="ConnectionError") == ["order-3"]
    assert await found(shop, task="charge", state="finished") == ["order-4"]
    assert await found(shop, parked=True, task="charge") == ["order-1", "order-2", "order-3"]
    assert await found(shop, since=now + timedelta(days=1)) == []
    assert len(await found(shop, until=now + timedelta(days=1))) == 5
    assert await found(shop, type="nothing") == []


async def test_pages_go_on_where_the_last_one_ended(shop: Mainspring) -> None:
    """P12."""
    ask = shop.operator.processes.search
    first = await ask(limit=3)

    second = await ask(before=first[-1].position, limit=3)

    assert [p.key for p in first + second] == [
        "order-1",
        "order-4",
        "order-3",
        "order-2",
        "order-1",
    ]


def test_filters_that_cannot_be_meant_are_refused() -> None:
    """Bad input: names the value and the remedy."""
    with pytest.raises(
        InvalidSetting, match=r"state must be one of .*got 'finnished'; did you mean"
    ):
        ProcessFilter(state="finnished")
    with pytest.raises(InvalidTime, match="since must be a datetime with a time zone"):
        ProcessFilter(since=datetime(2026, 1, 1))
    assert ProcessFilter().is_empty
    assert not ProcessFilter(type="order").is_empty


async def test_an_id_that_nothing_or_too_much_has_is_said(shop: Mainspring) -> None:
    with pytest.raises(NotFound, match="no process has the id 'order-9'"):
        await shop.operator.processes.find("order-9")
    with pytest.raises(NotFound, match="several processes have the id 'order-1'"):
        await shop.operator.processes.find("order-1")


async def test_parked_tasks_are_grouped_by_type_actor_and_error(shop: Mainspring) -> None:
    """P9, P10: values in the message do not part a group."""
    groups = await shop.operator.processes.parked_groups()

    assert [(g.type, g.actor, g.error_type, g.count) for g in groups] == [
        ("order", "charge", "ValueError", 2),
        ("order", "charge", "ConnectionError", 1),
    ]
    assert await found(shop, fingerprint=groups[0].fingerprint) == ["order-1", "order-2"]
    assert await shop.operator.processes.parked_groups(type="give_back") == []


async def test_filters_are_kept_under_a_name(shop: Mainspring) -> None:
    """P12: templates of filters with their action."""
    wanted = ProcessFilter(type="order", error="refused", since=datetime(2026, 1, 1, tzinfo=UTC))
    operator = shop.operator.processes
    await operator.save_template("refused cards", ProcessFilter(), source="bob")

    await operator.save_template("refused cards", wanted, action="restart", source="ann")

    kept = await operator.template("refused cards")
    assert (kept.filter, kept.action, kept.created_by) == (wanted, "restart", "ann")
    with pytest.raises(InvalidSetting, match="is one of search, restart, cancel, check, got 'rest"):
        await operator.save_template("refused cards", wanted, action="restrt")
    with pytest.raises(NotFound, match="no template is named 'refused card'; did you mean"):
        await operator.template("refused card")


# -- why


async def causes(app: Mainspring, id: str) -> list[str]:
    return [cause.name for cause in (await app.operator.processes.why(id)).causes]


async def test_a_parked_task_is_a_cause_with_its_error(shop: Mainspring) -> None:
    """P8: a named cause for every idle process."""
    why = await shop.operator.processes.why("order-3")

    assert why.causes[-1].name == "parked_task"
    assert why.causes[-1].text == "'charge' is parked: ConnectionError: bank is closed"
    assert why.causes[-1].remedy.startswith("restart all such when their reason is gone: ")
    assert "mainspring processes restart-tasks --task " in why.causes[-1].remedy
    assert await causes(shop, "order-4") == ["finished"]


async def test_an_engine_that_is_off_is_the_cause(app: Mainspring) -> None:
    """P8: looked up, not inferred."""

    @app.process
    def order() -> int:
        return 1

    await app.migrate()
    await order.options(id="o").start()

    assert (await causes(app, "o"))[0] == "engine_off"


async def test_an_actor_that_no_code_knows_waits_and_is_reported(
    app: Mainspring, database_url: str
) -> None:
    """P8, versions: an unknown actor is a queue that nobody reads, not a failure."""

    @app.task
    def step() -> int:
        return 1

    @app.process
    def order() -> Promise[int]:
        return step()

    handle = await order.options(id="o").start()
    removed = app.tasks.pop("step")
    await run_until_idle(app)

    assert await handle.status() == "open"
    async with app.worker(lease=1.0, poll=0.05):
        assert any(name in ("unknown_queue", "no_worker") for name in await causes(app, "o"))
    app.tasks["step"] = removed
    await run_until_idle(app)
    assert await handle.result(5) == 1


# -- settings


async def test_settings_of_process_types_are_changed_while_the_engine_runs(
    app: Mainspring,
) -> None:
    """P14: they live in the database; every change is kept with who made it."""

    @app.process(idle_timeout=600)
    def order() -> int:
        return 1

    await run_until_idle(app)
    operator = app.operator.processes
    assert await operator.settings() == {
        "order": {"process_timeout": 86_400.0, "idle_timeout": 600}
    }

    await operator.change_settings("order", {"idle_timeout": 60}, source="ann")
    await run_until_idle(app)  # a worker that declares the same leaves it

    assert (await operator.settings())["order"]["idle_timeout"] == 60
    change = (await operator.setting_changes("order"))[0]
    assert (change.subject, change.source) == ("process order", "ann")
    assert (change.before["idle_timeout"], change.after["idle_timeout"]) == (600, 60)


async def test_a_changed_setting_counts_for_the_next_start(
    app: Mainspring, database_url: str
) -> None:
    """P5, P6, P14: the first look is after idle_timeout, as it is set now."""

    @app.process
    def order() -> int:
        return 1

    await run_until_idle(app)
    await app.operator.processes.change_settings("order", {"idle_timeout": 120})

    await order.start()

    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "select extract(epoch from v.due_at - p.created_at) from mainspring.visit v, "
            "mainspring.process p where v.key = 'look/' || p.id"
        ).fetchone()
    assert row is not None
    assert round(row[0]) == 120


async def test_settings_that_are_none_or_out_of_range_are_refused(app: Mainspring) -> None:
    """P14, bad input."""
    operator = app.operator.processes
    with pytest.raises(InvalidSetting, match=r"did you mean 'idle_timeout'\?"):
        await operator.change_settings("order", {"idle_timout": 3})
    with pytest.raises(InvalidSetting, match="idle_timeout must be 1 or more seconds, got 0"):
        await operator.change_settings("order", {"idle_timeout": 0})
    with pytest.raises(InvalidSetting, match="name a setting to change"):
        await operator.change_settings("order", {})
    with pytest.raises(NotFound, match="no process type is named 'order'"):
        await operator.change_settings("order", {"idle_timeout": 3})
