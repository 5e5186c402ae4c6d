"""Every command: a table for people, JSON for programs."""

from __future__ import annotations

import re

import pytest

from mainspring.cli import operations, show
from visits import QUEUE, queue


@pytest.fixture
def on(cli, database_url):
    """The command line on the test's database."""
    return lambda *arguments: cli(*arguments, "--url", database_url)


@pytest.fixture
def busy(visits, me):
    """Something in every state."""
    visits.offer("waiting", payload={"n": 1})
    visits.offer("later", after=3600)
    visits.offer("parked")
    visits.change("parked", parked_at=visits.now(), error="ValueError: no", attempt=9)
    visits.offer("held")
    visits.hold(me, visits.start("held"))
    return visits


def test_migrate_creates_the_schema_once(cli, mainspring_server):
    """T11"""
    with mainspring_server.database(migrated=False) as url:
        first = cli("migrate", "--url", url)
        second = cli("migrate", "--url", url, "--json")

    assert "applied migrations 1" in first.out
    assert second.json()["applied"] == []


def test_migrate_prints_its_sql_for_other_tools(cli):
    """T11"""
    everything = cli("migrate", "--sql")
    nothing_new = cli("migrate", "--sql", "--from", "999")

    assert "create table mainspring.visit " in everything.out
    assert "create table mainspring.visit " not in nothing_new.out


def test_status_shows_workers_queues_and_lag(on, busy):
    shown = on("status")
    known = on("status", "--json").json()

    assert "1 worker, lag" in shown.out
    assert "silent" in shown.out
    assert QUEUE in shown.out
    (queue,) = known["queues"]
    assert [queue[s] for s in ("waiting", "scheduled", "running", "parked")] == [1, 1, 1, 1]
    assert known["lag_seconds"] >= 0


def test_tasks_are_listed_shown_and_cancelled(on, busy):
    listed = on("tasks", "list", "--json").json()
    shown = on("tasks", "show", "waiting")
    cancelled = on("tasks", "cancel", QUEUE, "waiting")
    told = on("tasks", "cancel", QUEUE, "held")
    why = on("why", QUEUE, "held")

    assert [v["key"] for v in listed] == ["held", "waiting", "later"]
    assert '{"n":1}' in shown.out
    assert cancelled.code == 0
    assert busy.row("waiting") is None
    assert told.code == 0
    assert "'held' is told to end" in told.out
    assert "it is told to end: cancelled by an operator" in why.out


def test_a_key_within_a_group_is_named_and_shown_with_its_group(on, visits, me):
    given = ("--group", "tenant-4")
    on("tasks", "enqueue", QUEUE, "--key", "page-1", *given)
    on("tasks", "enqueue", QUEUE, "--key", "5:x")
    (listed, odd) = sorted(
        on("tasks", "list", "--json").json(), key=lambda v: str(v["group"]), reverse=True
    )
    shown = on("tasks", "show", "page-1", *given, "--json").json()
    why = on("why", QUEUE, "page-1", *given, "--json").json()
    visits.query(
        "update mainspring.visit set parked_at = now(), error = 'E: no' where grp is not null"
    )
    parked = on("parked", "list", "--key", "page-1", *given, "--json").json()
    restarted = on("parked", "restart", "--queue", QUEUE, "--key", "page-1", *given)
    alone = on("tasks", "show", "page-1")
    cancelled = on("tasks", "cancel", QUEUE, "page-1", *given)
    past = on("history", "--key", "page-1", *given, "--json").json()

    assert [(v["group"], v["key"]) for v in (listed, odd)] == [
        ("tenant-4", "page-1"),
        (None, "5:x"),
    ]
    assert [v["key"] for v in shown["live"]] == ["page-1"]
    # The worker of this test never beats: on a slow machine it has been silent for a while by now.
    assert why["group"] == "tenant-4"
    assert why["causes"][0]["name"] in ("about_to_run", "owner_silent")
    assert [(v["group"], v["key"]) for v in parked] == [("tenant-4", "page-1")]
    assert (restarted.code, cancelled.code) == (0, 0)
    assert alone.code == 4
    assert "give --group" in alone.err
    assert [(v["group"], v["key"], v["outcome"]) for v in past] == [
        ("tenant-4", "page-1", "cancelled")
    ]
    assert on("tasks", "show", "5:x", "--json").json()["live"][0]["key"] == "5:x"


def test_an_id_in_a_group_is_found_with_and_without_its_group(on, visits, me):
    id = on("tasks", "enqueue", QUEUE, "--group", "g", "--json").json()["id"]

    for given in ((), ("--group", "g")):
        assert on("tasks", "show", id, *given, "--json").json()["live"][0]["id"] == id
    assert on("tasks", "show", id, "--group", "other").code == 4


def test_a_task_is_enqueued_by_its_name(on, visits):
    """T8: from anywhere, without its code."""
    answer = on("tasks", "enqueue", QUEUE, '{"n": 7}', "--key", "once", "--json")

    row = visits.row("once")
    assert row["payload"] == {"n": 7}
    assert answer.json() == {"task": QUEUE, "id": str(row["id"])}


def test_parked_visits_are_listed_counted_and_restarted(on, busy):
    listed = on("parked", "list")
    groups = on("parked", "groups", "--json").json()
    tried = on("parked", "restart", "--all", "--dry-run")
    one = on("parked", "restart", "--queue", QUEUE, "--key", "parked")

    assert "ValueError: no" in listed.out
    assert [(g["error_type"], g["count"]) for g in groups] == [("ValueError", 1)]
    assert "dry run: 1 would be touched" in tried.out
    assert one.code == 0
    assert busy.row("parked")["parked_at"] is None


def test_a_bulk_order_becomes_an_operation(on, busy):
    begun = on("parked", "delete", "--error-type", "ValueError", "--json").json()
    id = str(begun["id"])
    paused = on("operations", "pause", id)
    listed = on("operations", "list", "--state", "paused", "--json").json()
    bars = on("operations", "list")
    shown = on("operations", "show", id, "--follow")
    cancelled = on("operations", "cancel", id)
    again = on("operations", "resume", id)

    assert paused.code == cancelled.code == 0
    assert [o["id"] for o in listed] == [begun["id"]]
    assert "delete_parked" in shown.out
    assert "░░░░ 0 %" in bars.out
    assert "░░░░ 0 %" in shown.out  # a paused one is not waited for
    assert again.code == 2
    assert "is cancelled" in again.err


def test_an_operation_is_followed_until_it_ends(on, busy, monkeypatch):
    """P10: progress; here the operation ends between two looks at it."""
    begun = on("parked", "delete", "--error-type", "ValueError", "--json").json()
    looked: list[str] = []
    progress = operations._progress

    def look(found):
        looked.append(found.state)
        busy.query("update mainspring.operation set state = 'done', done = 1 returning id")
        return progress(found)

    monkeypatch.setattr(operations, "FOLLOW_SECONDS", 0)
    monkeypatch.setattr(operations, "_progress", look)

    shown = on("operations", "show", str(begun["id"]), "--follow")

    assert looked == ["running", "done"]
    assert "████ 100 %" in shown.out


def test_a_bar_is_never_overrun():
    """A total is an estimate."""
    assert show.bar(3, 10, width=10) == "███░░░░░░░ 30 %"
    assert show.bar(12, 10, width=4) == "████ 100 %"
    assert show.bar(0, 0, width=4) == "████ 100 %"
    assert show.bar(3, None) == "-"


def test_the_order_of_a_restart_has_no_reason_of_a_deletion(on, busy):
    on("parked", "restart", "--all")
    on("parked", "delete", "--all")

    deleted, restarted = on("operations", "list", "--json").json()

    assert restarted["order"].keys() == {"wanted", "fresh_ids"}
    assert deleted["order"]["reason"] == "deleted by an operator while parked"


def test_the_first_attempt_is_1_wherever_it_is_shown(on, busy):
    """Of the run under way or to come; of a parked visit, of its last."""
    busy.offer("failed", after=60)
    busy.change("failed", attempt=2, error="OSError: down")
    listed = {v["key"]: v["attempt"] for v in on("tasks", "list", "--json").json()}
    found = {
        key: on("tasks", "show", key, "--json").json()["live"][0]["attempt"]
        for key in (*listed, "parked")
    }
    (parked,) = on("parked", "list", "--json").json()
    facts = on("why", QUEUE, "failed", "--json").json()["causes"][0]["facts"]
    for key in ("waiting", "failed"):
        on("tasks", "cancel", QUEUE, key)
    past = {r["key"]: r["attempt"] for r in on("history", "--since", "1h", "--json").json()}

    assert listed == {"held": 1, "waiting": 1, "later": 1, "failed": 3}
    assert found == {**listed, "parked": 9}
    assert parked["attempt"] == 9
    assert (facts["failures"], facts["attempt"]) == (2, 3)
    assert past == {"waiting": 1, "failed": 3}


def test_a_pause_says_why_and_until_when(on, visits):
    """T13"""
    said = on("queues", "pause", QUEUE, "--reason", "the bank is away", "--until", "2h")
    assert f"queue {QUEUE!r} is paused until 20" in said.out
    pause = r"since 20.*Z until\s+20.*Z:\s+the\s+bank\s+is\s+away"
    (shown,) = on("queues", "list", "--json").json()
    assert shown["pause_reason"] == "the bank is away"
    visits.offer("a")
    assert re.search(pause, on("why", QUEUE, "a").out, re.DOTALL)
    everything = on("queues", "pause", "--all", "--until", "3h")
    assert "every queue is paused until 20" in everything.out
    assert f"--keep {QUEUE}" in everything.out


def test_a_breaker_is_opened_listed_and_closed(on, visits):
    """T13"""
    assert "every breaker is closed" in on("queues", "breakers").out
    opened = on(
        "queues", "open-breaker", QUEUE, "--until", "2h", "--group", "a", "--reason", "down"
    )
    assert f"the breaker of group 'a' of queue {QUEUE!r} is open until 20" in opened.out
    (listed,) = on("queues", "breakers", QUEUE, "--json").json()
    assert (listed["queue"], listed["group"], listed["reason"]) == (QUEUE, "a", "down")
    assert "down" in on("queues", "breakers").out
    assert "nothing of it starts until" in " ".join(on("status").out.split())
    closed = on("queues", "close-breaker", QUEUE, "--group", "a")
    assert f"the breaker of group 'a' of queue {QUEUE!r} is closed" in closed.out
    again = on("queues", "close-breaker", QUEUE)
    assert (again.code, "is not open" in again.err) == (4, True)
    on("queues", "limit", QUEUE, "--breaker-failures", "5", "--breaker-pause", "2.5")
    (limited,) = on("queues", "list", "--json").json()
    assert (limited["breaker_failures"], limited["breaker_pause"]) == (5, 2.5)


def test_a_queue_is_paused_resumed_and_limited(on, visits):
    on("queues", "pause", QUEUE)
    paused = on("queues", "list", "--json").json()[0]["paused_at"]
    on("queues", "resume", QUEUE)
    on("queues", "limit", QUEUE, "--concurrency", "3", "--rate", "2.5")
    limited = on("queues", "list", "--json").json()[0]
    on("queues", "limit", QUEUE, "--rate", "none")
    lifted = on("queues", "list", "--json").json()[0]

    assert paused is not None
    assert (limited["paused_at"], limited["concurrency"], limited["rate"]) == (None, 3, 2.5)
    assert (lifted["concurrency"], lifted["rate"]) == (3, None)


def test_history_and_why(on, busy):
    on("tasks", "cancel", QUEUE, "waiting")

    found = on("history", "--since", "1h", "--outcome", "cancelled", "--json").json()
    why = on("why", QUEUE, "parked")
    gone = on("why", QUEUE, "never")

    assert [run["key"] for run in found] == ["waiting"]
    assert why.out.startswith("parked: parked since")
    assert "mainspring parked restart --queue ring --key parked" in why.out
    assert gone.code == 4
    assert "it was never committed" in gone.out
    assert "its history" not in gone.out.replace("its history was dropped", "")


def test_why_of_a_task_alone_asks_for_a_key(on, visits):
    answer = on("why", QUEUE)

    assert answer.code == 2
    assert (
        "'ring' is not a reactive task: name one of its calls by its key or id, mainspring why ring "
        "<key>; those that wait: mainspring tasks list --queue ring"
    ) in answer.err


def test_a_task_is_enqueued_before_any_worker_has_registered_it(on, cli, module, visits):
    module(
        "early",
        """
        from mainspring import Mainspring
        app = Mainspring()

        @app.task
        def hello(name: str) -> None: ...
        """,
    )

    assert "is enqueued" in on("tasks", "enqueue", "hello", '{"name": "Bo"}', "--app", "early").out
    wrong = on("tasks", "enqueue", "hello", '{"name": 3}', "--app", "early")
    assert (wrong.code, "name" in wrong.err) == (2, True)


def test_what_was_cancelled_is_put_back(on, busy):
    """T6"""
    on("tasks", "cancel", QUEUE, "waiting")

    begun = on("put-back", "--key", "waiting")

    assert "operation 1 begins (1 item)" in begun.out


def test_the_doctor_exits_with_1_when_something_is_bad(on, visits):
    """The test server has fsync off, which is bad."""
    answer = on("doctor")

    assert answer.code == 1
    assert "fsync is off" in answer.out
    assert "set fsync = on" in answer.out


def test_recurring_is_listed(on, visits):
    assert "nothing recurs" in on("recurring", "list").out


def test_schedules_are_made_and_ordered_by_commands(on, visits):
    """T13: at run time, by the command line; each order is kept with who gave it."""
    visits.register(queue("hello"))
    made = on("recurring", "add", "tenant-7", "hello", "--cron", "0 4 * * *", "--arg", "name=Bo")
    assert "schedule 'tenant-7' ticks first at " in made.out
    assert "04:00:00Z" in made.out
    changed = on("recurring", "change", "tenant-7", "--cron", "30 5 * * *", "--catch-up", "all")
    assert "05:30:00Z" in changed.out
    paused = on("recurring", "pause", "tenant-7", "--reason", "unpaid", "--until", "2d")
    assert "schedule 'tenant-7' is paused until " in paused.out
    shown = on("recurring", "show", "tenant-7").out
    assert "starts hello by '30 5 * * *' in UTC" in shown
    assert "made at run time; missed ticks: all" in shown
    assert re.search("paused since .*Z until .*Z: unpaid", shown)
    assert shown.count("05:30:00Z") == 5
    assert "tenant-7" in on("recurring", "list").out
    assert "goes on" in on("recurring", "resume", "tenant-7", "--catch-up", "one").out
    assert "is removed" in on("recurring", "remove", "tenant-7").out
    rows = visits.query("select source from mainspring.setting_change order by id")
    assert len(rows) == 5
    assert all("@" in row["source"] for row in rows)
    wrong = on("recurring", "add", "x", "helo", "--cron", "0 4 * * *")
    assert (wrong.code, "no task or process type is named 'helo'" in wrong.err) == (4, True)
