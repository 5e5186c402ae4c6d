"""Params and reactive tasks from the command line."""

from __future__ import annotations

import asyncio
import importlib
from datetime import timedelta

import pytest

from mainspring import Mainspring
from mainspring.testing import Clock, run_until_idle

PLATFORM = """
    from mainspring import Mainspring, ReactiveRun
    from mainspring.reactive import all_of, caught_up, new_data, new_day

    app = Mainspring({url!r})
    orders = app.data("dwh.orders").param("loaded_to", external=True)
    fx = app.data("ext.fx").param("loaded_to")
    built = app.data("mart.daily").param("built_to")
    batch = app.data("ext.fx").param("batch", kind="integer", external=True)

    @app.task(when=new_data(batch), produces=[fx])
    async def load_fx(run: ReactiveRun) -> None:
        pass

    @app.task(
        when=all_of(new_day(orders), caught_up(fx, with_=orders, chunk="day")),
        produces=[built],
        expect_within="26h",
    )
    async def daily(run: ReactiveRun) -> None:
        run.advance(built, run.current[orders])
"""


@pytest.fixture
def platform(module, database_url) -> Mainspring:
    """An application with two reactive tasks, registered."""
    module("platform_app", PLATFORM.format(url=database_url))
    app: Mainspring = importlib.import_module("platform_app").app
    asyncio.run(_idle(app))
    return app


async def _idle(app: Mainspring) -> None:
    async with app:
        await run_until_idle(app)


@pytest.fixture
def on(cli, database_url, platform):
    """The command line on the platform's database."""
    return lambda *arguments: cli(*arguments, "--url", database_url)


def test_params_are_set_listed_and_shown(on):
    """R1: with who and why."""
    assert "is set" in on("params", "set", "ext.fx.batch", "7", "--by", "ann", "--why", "test").out
    assert "left as it is" in on("params", "set", "ext.fx.batch", "7").out
    assert "left as it is" in on("params", "set", "ext.fx.batch", "6", "--if-greater").out

    table = on("params", "list").out
    assert "dwh.orders.loaded_to" in table
    known = {p["param"]["name"]: p for p in on("params", "list", "--json").json()}
    assert known["batch"]["value"] == 7
    assert known["batch"]["consumers"] == ["load_fx"]
    history = on("params", "show", "ext.fx.batch", "--json").json()
    assert [(c["value"], c["changed_by"], c["why"]) for c in history] == [(7, "ann", "test")]
    assert "test" in on("params", "show", "ext.fx.batch").out


def test_a_param_that_goes_back_is_refused_with_the_way_out(on):
    """R13"""
    on("params", "set", "ext.fx.batch", "7")
    refused = on("params", "set", "ext.fx.batch", "6")

    assert refused.code == 1
    assert "would go back from 7 to 6; if the data was restated say so with rewind" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("params", "set", "ext.fx.bach", "7"), 4, "did you mean 'ext.fx.batch'?"),
        (("params", "show", "ext.fx.bach"), 4, "no param is named 'ext.fx.bach'"),
        (("params", "set", "ext.fx.batch", "many"), 2, "'many' cannot be read as one"),
        (("params", "set", "dwh.orders.loaded_to", "2026-03-10"), 2, "got the naive"),
        (("params", "create", "loaded_to"), 2, "its object, a dot and its name"),
        (("params", "create", "a.b", "--kind", "float"), 2, "'instant', 'integer', 'version'"),
        (("reactive", "run", "dayly"), 4, "did you mean 'daily'?"),
        (("reactive", "checks", "dayly"), 4, "no reactive task is named 'dayly'"),
        (("why", "dayly"), 4, "did you mean 'daily'?"),
        (("why", "xyz"), 4, "nothing is named 'xyz': no reactive task, task, kind or process"),
    ],
)
def test_what_cannot_be_is_one_line_and_a_code(on, arguments, code, says):
    """R1, R17: bad input by text."""
    answer = on(*arguments)

    assert answer.code == code
    assert says in answer.err


def test_why_names_the_next_fact_and_who_brings_it(on, platform):
    """R17: live, with values and verdicts."""
    on("params", "set", "dwh.orders.loaded_to", "2026-03-10T01:00:00+00:00", "--by", "load_orders")
    asyncio.run(_idle(platform))

    told = on("why", "daily").out
    assert "daily: the trigger is false" in told
    assert "YES ChunkDelta: a later day" in told
    assert "dwh.orders.loaded_to: nothing -> 2026-03-10; set" in told
    assert "by load_orders" in told
    assert "NO  ChunkRefDelay: at most 0 x day behind dwh.orders.loaded_to" in told
    assert "next: ext.fx.loaded_to >= 2026-03-10 00:00:00Z" in told
    assert "load_fx brings it, is not running" in told
    assert "no success was recorded yet" in told
    known = on("why", "daily", "--json").json()
    assert known["true"] is False
    assert known["next"][0]["text"] == "ext.fx.loaded_to >= 2026-03-10 00:00:00Z"
    assert on("reactive", "checks", "daily", "--json").json()[0]["verdict"] is False


def test_a_task_runs_is_rewound_and_repaired(on, platform):
    """R13: the affected tasks are listed, and the repairs are one command each."""
    for name in ("dwh.orders.loaded_to", "ext.fx.loaded_to"):
        on("params", "set", name, "2026-03-10T01:00:00+00:00")
    asyncio.run(_idle(platform))
    seen = on("reactive", "seen", "show", "daily").out
    assert "dwh.orders.loaded_to" in seen
    assert "2026-03-10 01:00:00Z" in seen

    back = ("params", "rewind", "dwh.orders.loaded_to", "2026-03-05T00:00:00+00:00")
    tried = on(*back, "--dry-run")
    assert "param 'dwh.orders.loaded_to' would be at 2026-03-05 00:00:00Z" in tried.out
    assert "daily: has seen 2026-03-10 01:00:00Z" in tried.out
    assert "2026-03-10 01:00:00Z" in on("params", "show", "dwh.orders.loaded_to").out
    moved = on(
        "params", "rewind", "dwh.orders.loaded_to", "2026-03-05T00:00:00+00:00", "--why", "late"
    )
    assert "param 'dwh.orders.loaded_to' is at 2026-03-05 00:00:00Z" in moved.out
    assert "daily: has seen 2026-03-10 01:00:00Z" in moved.out
    assert "mainspring reactive seen move daily dwh.orders.loaded_to <value>" in moved.out
    assert "daily" in on("params", "affected", "dwh.orders.loaded_to").out
    assert "was rewound since it was seen (report)" in on("why", "daily").out

    on("reactive", "seen", "move", "daily", "dwh.orders.loaded_to", "2026-03-04T00:00:00+00:00")
    assert "no task is affected" in on("params", "affected", "dwh.orders.loaded_to").out
    assert "the trigger is true" in on("why", "daily").out
    on("reactive", "seen", "delete", "daily", "dwh.orders.loaded_to")
    assert "dwh.orders" not in on("reactive", "seen", "show", "daily").out


def test_tasks_are_listed_run_paused_and_resumed(on, platform):
    """R8, R10"""
    listed = on("reactive", "list").out
    assert "load_fx" in listed
    known = {t["task"]: t for t in on("reactive", "list", "--json").json()}
    assert known["daily"]["state"] == "waiting"
    assert known["daily"]["trigger"].startswith("all_of(ChunkDelta(dwh.orders.loaded_to, day)")
    assert "no task missed its expectation" in on("reactive", "list", "--missed").out

    assert "is paused" in on("reactive", "pause", "daily").out
    assert "paused; resume it" in on("why", "daily").out
    assert "goes on" in on("reactive", "resume", "daily").out
    assert "will run; nothing will be recorded" in on("reactive", "run", "daily").out
    assert (
        "will run; its success will be recorded" in on("reactive", "run", "daily", "--record").out
    )
    assert "a manual run was asked for" in on("why", "daily").out
    assert "a cap of 3" in on("reactive", "cap", "default", "3").out
    assert "no cap" in on("reactive", "cap", "default", "none").out


def test_past_runs_of_a_reactive_task_are_found_by_its_name(on, platform):
    """R10: history has them under the queue of their pool, which nobody needs to know."""
    assert "nothing was found" in on("history", "--name", "daily").out
    for name in ("dwh.orders.loaded_to", "ext.fx.loaded_to"):
        on("params", "set", name, "2026-03-10T01:00:00+00:00")
    asyncio.run(_idle(platform))

    (run,) = on("history", "--name", "daily", "--json").json()
    assert (run["key"], run["outcome"]) == ("daily", "done")
    assert on("history", "--name", "daily", "--outcome", "retry", "--json").json() == []
    assert "did you mean 'mainspring.check'?" in on("history", "-q", "mainspring.chek").err
    assert (
        "'daily' is a reactive task, which has no queue of its own; mainspring why daily says"
        in on("tasks", "list", "--queue", "daily").err
    )
    refused = on("put-back", "--queue", "daily")
    assert refused.code == 2
    assert "to run it now: mainspring reactive run daily [--record]" in refused.err


def test_a_missed_expectation_is_in_the_status_and_the_metrics(on, platform, database_url):
    """R14: in status, in the list, in why and in the metrics."""
    Clock(database_url).advance_sync(timedelta(hours=27))
    asyncio.run(_idle(platform))

    assert "daily missed its expectation at" in on("status").out
    status = on("status", "--json").json()
    assert [missed["task"] for missed in status["missed"]] == ["daily"]
    assert [(load["pool"], load["missed"]) for load in status["reactive"]] == [("default", 1)]
    assert "daily" in on("reactive", "list", "--missed").out
    assert "missed its expectation at" in on("why", "daily").out
    metrics = on("metrics").out
    assert 'mainspring_reactive_tasks_in{pool="default",state="missed"} 1\n' in metrics
    assert 'mainspring_reactive_missed_timestamp_seconds{task="daily"} ' in metrics
    assert metrics.endswith("# EOF\n")


def test_apply_registers_without_a_worker(cli, module, database_url):
    """R12"""
    module("platform_app", PLATFORM.format(url=database_url))

    assert "2 reactive tasks are known" in cli("reactive", "apply", "platform_app:app").out
    assert "load_fx" in cli("reactive", "list", "--url", database_url).out


def test_a_param_is_created_for_those_who_set_it_in_sql(on):
    """R1"""
    on("params", "create", "raw.rides.version", "--kind", "version")

    assert "is set" in on("params", "set", "raw.rides.version", "v1").out


CHECKED = """
    from mainspring import Mainspring
    from mainspring.reactive import fresh, new_data

    app = Mainspring("postgresql://nobody@localhost:1/nowhere")
    orders = app.data("dwh.orders").param("loaded_to", external=True)
    a, b = (app.data("mart").param(name) for name in "ab")

    @app.task(when={trigger}, produces=[b])
    def one() -> None: ...

    @app.task(when=new_data(b), produces=[a])
    def two() -> None: ...
"""


def test_check_finds_what_is_wrong_without_a_database(cli, module):
    """R15: exit 1 if something was found."""
    module("checked_app", CHECKED.format(trigger="fresh(orders, '1d')"))
    found = cli("check", "checked_app:app")
    assert found.code == 1
    assert "MS101 one: may run without pause" in found.out
    assert "MS104 one: may never run" in found.out

    module("checked_app", CHECKED.format(trigger="new_data(a)"))
    circle = cli("check", "checked_app:app", "--json")
    assert [finding["code"] for finding in circle.json()] == ["MS102"]

    module("checked_app", CHECKED.format(trigger="new_data(orders)"))
    fine = cli("check", "checked_app:app")
    assert fine.code == 0
    assert "2 reactive tasks, nothing to complain about" in fine.out

    module(
        "checked_app",
        CHECKED.format(trigger="new_data(orders)")
        + """
    @app.task
    def greet() -> None: ...

    @app.process
    def meet() -> None: ...
""",
    )
    more = cli("check", "checked_app:app")
    assert more.out == "1 task, 1 process, 2 reactive tasks, nothing to complain about\n"
