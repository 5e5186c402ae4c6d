"""`mainspring processes`, on an application that ran."""

from __future__ import annotations

import asyncio
import importlib

import msgspec
import psycopg
import pytest

from mainspring.testing import run_until_idle

SHOP = """
    from mainspring import Mainspring, RetryPolicy
    from mainspring.tasks.declare.promise import Promise

    app = Mainspring({url!r})

    @app.task(retry=RetryPolicy(attempts=1))
    def charge(order: int) -> int:
        raise ValueError(f"card of order {{order}} was refused")

    @app.process
    def order(number: int) -> Promise[int]:
        return charge(number)
"""


@pytest.fixture
def shop(cli, module, database_url):
    """The command line beside a shop whose order 7 was run, and parked."""
    module("shop", SHOP.format(url=database_url))
    named = ("--id", "order-7", "--attr", "vip=true", "--app", "shop")
    started = cli("processes", "start", "order", '{"number": 7}', *named)
    assert (started.code, started.err) == (0, "")
    assert started.out.startswith("started ")

    async def work() -> None:
        async with importlib.import_module("shop").app as app:
            await run_until_idle(app)

    asyncio.run(work())
    return lambda *arguments: cli("processes", *arguments, "--url", database_url)


def test_processes_are_listed_searched_shown_and_explained(shop):
    """P8, P9, P12"""
    assert "order-7" in shop("list", "--type", "order").out
    (found,) = shop("search", "--attr", "vip=true", "--error", "refused", "--json").json()
    assert (found["key"], found["state"], found["parked"]) == ("order-7", "open", 1)
    assert "no process is like that" in shop("search", "--attr", "vip=false").out

    assert (
        "■ #2 charge [parked] ValueError: card of order 7 was refused"
        in shop("show", "order-7").out
    )
    assert shop("show", "order-7", "--dot").out.startswith("digraph process {")
    assert shop("show", "order-7", "--mermaid").out.startswith("flowchart LR")
    assert "parked_task: 'charge' is parked" in shop("why", "order-7").out
    (group,) = shop("parked", "--json").json()
    assert (group["type"], group["actor"], group["count"]) == ("order", "charge", 1)


def test_filters_are_kept_and_used_by_name(shop):
    """P12"""
    shop("search", "--error", "refused", "--save", "cards")

    assert "order-7" in shop("search", "--template", "cards").out
    wrong = shop("search", "--template", "card")
    assert "no template is named 'card'; did you mean 'cards'?" in wrong.err


def test_a_filter_is_kept_with_its_action_and_used_for_no_other(shop):
    """P12: a template says all; a condition beside it, or another action, is not passed over."""
    assert "no filter is kept" in shop("templates").out
    dry = shop("cancel-all", "--error", "refused", "--save", "give up", "--dry-run")
    assert dry.out == "dry run: 1 would be touched\n"
    (kept,) = shop("templates", "--json").json()
    assert (kept["name"], kept["action"], kept["filter"]) == (
        "give up", "cancel", {"error": "refused"},
    )  # fmt: skip
    assert '{"error":"refused"}' in shop("templates").out

    assert "order-7" in shop("search", "--template", "give up").out
    other = shop("restart-all", "--template", "give up")
    assert "template 'give up' is kept for cancel, not for restart" in other.err
    for command in ("search", "cancel-all"):
        beside = shop(command, "--template", "give up", "--type", "order")
        assert (beside.code, beside.out) == (2, "")
        assert "is a whole filter: leave the other conditions out" in beside.err
    assert "operation" in shop("cancel-all", "--template", "give up").out


def test_a_kept_filter_is_run_with_its_action_and_its_terms(shop):
    """P12: from which task on, with or without compensation, as it was kept."""
    shop("restart-all", "--error", "refused", "--from", "charge", "--save", "again", "--dry-run")
    shop("cancel-all", "--error", "refused", "--no-compensate", "--save", "give up", "--dry-run")
    shop("search", "--error", "refused", "--save", "cards")
    kept = {one["name"]: one.get("terms") for one in shop("templates", "--json").json()}
    assert kept == {"again": {"task": "charge"}, "cards": {}, "give up": {"compensate": False}}

    assert shop("templates", "run", "again", "--dry-run").out == "dry run: 1 would be touched\n"
    assert "operation" in shop("templates", "run", "give up").out
    wrong = shop("templates", "run", "cards")
    assert (wrong.code, wrong.out) == (2, "")
    assert "is kept for search, which is no order: mainspring processes search" in wrong.err
    assert "did you mean 'again'?" in shop("templates", "run", "agan").err


def test_a_part_of_a_process_is_cancelled_by_what_show_calls_it(shop):
    """P13, P15: a task by its number; what is not there, or has ended, is said."""
    gone = shop("cancel", "order-7", "--scope", "hotel")
    assert "the process has opened no scope 'hotel'; none of its scopes has a name" in gone.err
    both = shop("cancel", "order-7", "--scope", "hotel", "--task", "2")
    assert "name a task or a scope to be cancelled, not both" in both.err

    called = shop("cancel", "order-7", "--task", "2", "--why", "the customer left")

    assert called.out == "cancelled: 1 tasks, 0 runs told to stop\n"
    assert "finished" in shop("show", "order-7").out


def test_an_empty_condition_is_not_taken_for_everything(cli, shop, database_url):
    """P10, bad input: as an unset variable of a shell leaves it."""
    for command in ("restart-tasks", "restart-all", "cancel-all"):
        refused = shop(command, "--error", "")
        assert (refused.code, refused.out) == (2, "")
        assert "means everything" in refused.err
    refused = cli("parked", "delete", "--error", "", "--url", database_url)
    assert "name which ones" in refused.err


def test_settings_are_shown_and_changed(shop):
    """P14"""
    assert "86400.0" in shop("settings").out

    changed = shop("settings", "order", "--set", "idle_timeout=60", "--json").json()

    assert changed["order"]["idle_timeout"] == 60
    assert "did you mean 'idle_timeout'?" in shop("settings", "order", "--set", "idle_timout=6").err
    assert "no process type is named 'ordr'; did you mean 'order'?" in shop("settings", "ordr").err


def test_settings_of_actors_are_shown_changed_and_audited(shop):
    """P14"""
    assert "requeue" in shop("actors").out

    changed = shop(
        "actors", "charge", "--set", "work_timeout=30", "--set", "accept=last", "--json"
    ).json()
    shop("actors", "charge", "--set", "retry.attempts=4")

    assert (changed["charge"]["work_timeout"], changed["charge"]["accept"]) == (30, "last")
    audit = shop("changes", "--actor", "charge", "--json").json()
    assert [change["subject"] for change in audit] == ["actor charge", "actor charge"]
    assert audit[0]["after"]["retry"] == {"attempts": 4}
    assert "accept: None -> last" in " ".join(shop("changes").out.split())
    assert "did you mean 'accept'?" in shop("actors", "charge", "--set", "acept=last").err
    assert (
        "no actor is named 'chage'; did you mean" in shop("actors", "chage", "--set", "rate=1").err
    )
    assert "name the actor whose settings are to change" in shop("actors", "--set", "rate=1").err
    assert "no actor is named 'chage'; did you mean 'charge'?" in shop("actors", "chage").err


def test_counters_of_recovery_are_shown_of_each_actor_and_in_all(cli, shop, database_url):
    """P3: exported, globally and per actor."""
    assert "nothing was counted" in shop("counters").out
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into mainspring.counter values ('charge', 'work_timeout', mainspring.now(), 2),"
            " ('pack', 'work_timeout', mainspring.now(), 3)"
        )

    shown = shop("counters").out
    assert shop("counters", "--actor", "pack", "--json").json() == [
        {"actor": "pack", "counts": {"work_timeout": 3}}
    ]
    assert [line.split()[:2] for line in shown.splitlines() if line.split()[:1] == ["all"]] == [
        ["all", "5"]
    ]
    assert "charge in the last hour: 2 work timeouts" in cli("status", "--url", database_url).out


def test_what_is_not_there_is_one_line_and_a_code(cli, shop):
    missing = shop("show", "order-8")
    wrong = cli("processes", "start", "order", "[7]", "--app", "shop")
    unknown = cli("processes", "start", "oder", "{}", "--app", "shop")

    assert missing.code != 0
    assert missing.err.startswith("mainspring: no process has the id 'order-8'")
    assert "arguments must be a JSON object by parameter name" in wrong.err
    assert "no process type is named 'oder'; did you mean 'order'?" in unknown.err


def test_parked_tasks_are_restarted_and_processes_checked_by_operations(shop):
    """P10, P11"""
    dry = shop("restart-tasks", "--task", "charge", "--dry-run", "--json").json()
    begun = shop("restart-tasks", "--error", "refused")
    everything = shop("restart-tasks")
    checked = shop("check", "--type", "order")

    assert (dry["total"], dry["id"]) == (1, None)
    assert "operation 1 begins (1 item)" in begun.out
    assert "means everything" in everything.err
    assert "operation 2 begins (1 item)" in checked.out
    assert "nothing was repaired" in shop("repairs").out


def test_processes_are_restarted_and_cancelled_by_a_filter(shop):
    """P10, P12: from scratch or from a task on, of a template or of conditions."""
    shop("search", "--error", "refused", "--save", "refused")

    dry = shop("restart-all", "--template", "refused", "--dry-run", "--json").json()
    begun = shop("restart-all", "--template", "refused", "--from", "charge")
    cancelled = shop("cancel-all", "--type", "order", "--rate", "10")

    assert (dry["total"], dry["id"]) == (1, None)
    assert "operation 1 begins (1 item)" in begun.out
    assert "operation 2 begins (1 item)" in cancelled.out
    assert "means everything" in shop("restart-all").err
    assert "means everything" in shop("cancel-all").err


def test_a_process_is_signalled_cancelled_and_restarted(cli, shop):
    """P12, P15"""
    unknown = cli("processes", "signal", "order-7", "approved", "true", "--app", "shop")
    cancelled = shop("cancel", "order-7")
    again = shop("cancel", "order-7")
    restarted = shop("restart", "order-7")
    part = shop("restart", "order-7", "--from", "9")

    assert "no signal is named 'approved'" in unknown.err
    assert "cancelled: " in cancelled.out
    assert "the process is cancelled" in again.err
    assert "restarted: " in restarted.out
    assert "process order-7 has no task 9: `show` numbers them from #1 to #1" in part.err


APPROVAL = """
    from mainspring import Mainspring
    from mainspring.tasks.declare.promise import Promise

    app = Mainspring({url!r})
    approved = app.signal("approved", bool)

    @app.process
    def ask() -> Promise[bool]:
        return approved.wait()
"""


def test_a_signal_is_sent_once_under_its_id_and_read_as_its_type(cli, module, database_url):
    """P15: a human step, answered from the command line; who sent it is kept."""
    module("approval", APPROVAL.format(url=database_url))
    on = ("--app", "approval")
    cli("processes", "start", "ask", "--id", "a-1", *on)

    wrong = cli("processes", "signal", "a-1", "approved", '"yes"', *on)
    broken = cli("processes", "signal", "a-1", "approved", "yes", *on)
    sent = cli("processes", "signal", "a-1", "approved", "true", "--once", "1", *on)
    again = cli("processes", "signal", "a-1", "approved", "true", "--once", "1", *on)

    assert "approved" in wrong.err
    assert "the payload must be JSON" in broken.err
    assert (sent.out.strip(), again.out.strip()) == ("sent", "it was sent before")
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select payload::text, sent_by from mainspring.signal").fetchall()
    assert [payload for payload, _ in rows] == ["true"]
    assert rows[0][1]


def test_a_part_is_redone_from_the_task_that_show_numbers(shop, cli):
    """P12; and an id in use is answered, or refused as asked."""
    named = ("--id", "order-7", "--app", "shop")
    there = cli("processes", "start", "order", '{"number": 7}', *named)
    refused = cli("processes", "start", "order", '{"number": 7}', "--refuse", *named)

    assert "restarted: 1 tasks" in shop("restart", "order-7", "--from", "2").out
    assert there.out.startswith("it is there: ")
    assert "with the id 'order-7' was started before and is open" in refused.err


def test_what_is_not_there_has_its_own_exit_code(shop, cli):
    """P12: and says what there is."""
    unknown = cli("processes", "start", "ordr", "--app", "shop")
    signal = cli("processes", "signal", "order-7", "aproved", "--app", "shop")
    task = shop("restart", "order-7", "--from", "bogus")
    elsewhere = ("--app", "shop", "--url", "postgresql://nobody@127.0.0.1:1/x")

    assert (unknown.code, signal.code, task.code) == (4, 4, 4)
    assert "no process type is named 'ordr'; did you mean 'order'?" in unknown.err
    assert "no signal is named 'aproved'" in signal.err
    assert cli("processes", "start", "order", '{"number": 8}', *elsewhere).code == 3
    assert "has no task of 'bogus'" in task.err


def test_why_points_to_the_why_of_processes(shop, cli, database_url):
    """P8"""
    one = cli("why", "order", "order-7", "--url", database_url)
    none = cli("why", "order", "--url", database_url)
    id = cli("why", "order-7", "--url", database_url)
    typo = cli("why", "ordr", "--url", database_url)
    task = cli("why", "charge", "--url", database_url)

    assert (one.code, none.code) == (4, 2)
    assert "'order' is a process type: ask mainspring processes why order-7" in one.err
    assert "name one by its id, mainspring processes why <id>" in none.err
    assert "'order-7' is a process: mainspring processes why order-7" in id.err
    assert "nothing is named 'ordr': no reactive task, task, kind or process; did you" in typo.err
    assert "mainspring why charge <key>" in task.err
    assert "mainspring processes restart-tasks --task charge" in shop("why", "order-7").out


@pytest.mark.parametrize("order", [("restart-tasks", "--task", "charge"), ("check",)])
def test_a_worker_of_its_own_carries_out_operations_on_processes(shop, spawn, order):
    """P10, P11: it has the application's modules alone, and nothing of the command line."""
    shop(*order)
    worker = spawn("worker", "shop:app", "--drain", "--log-level", "warning")
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    listed = spawn("operations", "list", "--json")
    (operation,) = msgspec.json.decode(listed.communicate(timeout=60)[0])
    assert (operation["state"], operation["failed"]) == ("done", 0)
