"""Settle: each outcome is written once, whoever sends it and how often."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace

from mainspring.kernel.outcome import Again, Cancelled, Done, Expired, Failed, Parked, Retry
from mainspring.kernel.settle.batches import (
    is_plain,
    settle_arguments,
)
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run
from visits import Visits, queue

FAILED = Retry(after=60, error_type="Broken", error="it broke")
PARKED = Parked(error_type="Broken", error="it broke")


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (Done(), "done"),
        (Cancelled(), "cancelled"),
        (Expired(), "expired"),
        (Failed("Broken", "it broke"), "retry"),
    ],
)
def test_an_end_deletes_the_visit_and_writes_history(visits: Visits, me, outcome, name) -> None:
    """T7."""
    visits.offer("a", payload={"x": 1})

    assert visits.settle(me, (visits.start("a"), outcome)) == ["settled"]

    assert visits.row("a") is None
    [story] = visits.history("a")
    assert (story["outcome"], story["attempt"], story["superseded"]) == (name, 1, False)
    assert (story["payload"], story["worker_id"]) == ({"x": 1}, me)


def test_done_keeps_the_result_and_the_searchable_fields(visits: Visits, me) -> None:
    visits.offer("a", payload={"user": "ann", "n": 1})

    visits.settle(me, (visits.start("a"), Done(result='{"n": 7}')), searchable=("user",))

    [story] = visits.history("a")
    assert (story["result"], story["searchable"]) == ({"n": 7}, ["user=ann"])


def test_again_writes_the_new_time_and_consumes_the_version(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")

    assert visits.settle(me, (run, Again(after=30))) == ["settled"]

    row = visits.row("a")
    assert row["version"] == run.token
    assert row["attempt"] == 0
    assert timedelta(seconds=28) < row["due_at"] - visits.now() <= timedelta(seconds=30)


def test_again_at_a_time_is_due_then(visits: Visits, me) -> None:
    visits.offer("a")
    at = visits.now() + timedelta(hours=1)

    visits.settle(me, (visits.start("a"), Again(at=at)))

    assert visits.row("a")["due_at"] == at


def test_a_retry_counts_an_attempt_and_backs_off(visits: Visits, me) -> None:
    visits.offer("a")

    visits.settle(me, (visits.start("a"), FAILED))

    row = visits.row("a")
    assert (row["attempt"], row["error"]) == (1, "it broke")
    assert row["due_at"] > visits.now() + timedelta(seconds=50)
    [story] = visits.history("a")
    assert (story["outcome"], story["error_type"]) == ("retry", "Broken")


def test_parked_keeps_the_row_payload_and_error(visits: Visits, me) -> None:
    """T13."""
    visits.offer("a", payload={"x": 1})

    visits.settle(me, (visits.start("a"), PARKED))

    row = visits.row("a")
    assert row["parked_at"] is not None
    assert (row["payload"], row["error"]) == ({"x": 1}, "it broke")


@pytest.mark.parametrize("outcome", [Done(), Again(after=5), FAILED, PARKED])
def test_a_resent_settle_changes_nothing(visits: Visits, me, outcome) -> None:
    """T6: the reply was lost, so the worker sends the same again."""
    visits.offer("a")
    run = visits.start("a")
    visits.settle(me, (run, outcome))
    before = visits.row("a")

    answer = visits.settle(me, (run, outcome))

    assert answer == ["gone" if isinstance(outcome, Done) else "settled"]
    assert visits.row("a") == before
    assert len(visits.history("a")) == 1


def test_a_resent_settle_leaves_the_next_visit_of_the_key_alone(visits: Visits, me) -> None:
    """T6: the key was settled and offered anew before the repetition came."""
    visits.offer("a")
    run = visits.start("a")
    visits.settle(me, (run, Done()))
    visits.offer("a", payload={"second": True})
    before = visits.row("a")

    assert visits.settle(me, (run, Done())) == ["gone"]

    assert visits.row("a") == before
    assert len(visits.history("a")) == 1


def test_a_settle_of_an_older_run_after_a_retry_is_refused(visits: Visits, me) -> None:
    """T6: two runs of one version; the first to settle wins."""
    visits.offer("a")
    slow, quick = visits.start("a"), visits.start("a")
    visits.settle(me, (quick, Again(after=5)))
    before = visits.row("a")

    assert visits.settle(me, (slow, Done())) == ["superseded"]

    assert visits.row("a") == before


def test_a_superseded_run_keeps_the_row_and_its_version(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.offer("a")
    version = visits.row("a")["version"]

    assert visits.settle(me, (run, Done())) == ["superseded"]

    assert visits.row("a")["version"] == version
    [story] = visits.history("a")
    assert story["superseded"]


def test_a_superseded_retry_keeps_its_backoff(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.offer("a")

    assert visits.settle(me, (run, FAILED)) == ["superseded"]

    row = visits.row("a")
    assert row["due_at"] > visits.now() + timedelta(seconds=50)
    assert row["attempt"] == 1


def test_a_superseded_failure_never_parks_what_was_offered_meanwhile(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.offer("a")

    visits.settle(me, (run, PARKED))

    assert visits.row("a")["parked_at"] is None


def test_a_superseded_run_clears_its_own_hold(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)
    visits.offer("a")

    visits.settle(me, (run, Done()))

    assert visits.row("a")["pass"] is None
    assert visits.keys(me) == ["a"]


def test_the_holder_settles_what_it_holds(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.hold(me, run)

    assert visits.settle(me, (run, Done())) == ["settled"]

    assert visits.row("a") is None


@pytest.mark.parametrize(
    "outcome", [Done(), Again(after=1.0), Retry(1.0, "E", "e"), Parked("E", "e")]
)
def test_a_foreign_hold_refuses_the_settle(visits: Visits, me, outcome) -> None:
    """T6: whatever it says, it would free what another run still has."""
    visits.offer("a")
    mine, theirs = visits.start("a"), visits.start("a")
    visits.hold(me, theirs)
    before = visits.row("a")

    assert visits.settle(me, (mine, outcome)) == ["gone"]

    assert visits.row("a") == before
    assert visits.history("a") == []


def test_a_queue_that_takes_the_first_result_takes_it_from_an_overtaken_run(
    visits: Visits, me
) -> None:
    visits.offer("a")
    overtaken, running = visits.start("a"), visits.start("a")
    visits.hold(me, running)

    assert visits.settle(me, (overtaken, Done()), any_pass=True) == ["settled"]
    assert visits.settle(me, (running, Done()), any_pass=True) == ["gone"]

    assert len(visits.history("a")) == 1


@pytest.mark.parametrize("outcome", [Done(), Again(after=5), FAILED, PARKED])
def test_history_keeps_when_the_run_was_due(visits: Visits, me, outcome) -> None:
    """T7: not when the next one is."""
    visits.offer("a")
    due_at = visits.row("a")["due_at"]

    visits.settle(me, (visits.start("a"), outcome))

    [story] = visits.history("a")
    assert story["due_at"] == due_at


def test_a_visit_that_changes_while_the_settle_waits_is_sent_again(
    visits: Visits, me, mainspring_url: str
) -> None:
    """The statement's snapshot is older than the lock it waited for: it must not guess."""
    visits.offer("a")
    run = visits.start("a")
    visits.query("set lock_timeout = '5s'")
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(mainspring_url) as other:
            other.execute("update mainspring.visit set version = 1 where key = 'a'")
            answer = thread.submit(visits.settle, me, (run, Again(after=5)))
            wait_for_lock(other)

        assert answer.result() == ["changed"]

    assert visits.row("a")["version"] == 1
    assert visits.history("a") == []
    assert visits.settle(me, (run, Again(after=5))) == ["superseded"]


@pytest.mark.parametrize("bundled", [False, True])
def test_a_visit_that_changes_while_the_short_form_waits_is_left_to_the_long_one(
    visits: Visits, me, mainspring_url: str, bundled
) -> None:
    visits.offer("a", "b")
    run, other_run = visits.start("a"), visits.start("b")
    visits.query("set lock_timeout = '5s'")
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(mainspring_url) as other:
            other.execute("update mainspring.visit set version = 1 where key = 'a'")
            answer = thread.submit(settle_short, visits, me, run, other_run, bundled=bundled)
            wait_for_lock(other)

        assert answer.result() == ["changed", "settled"]

    assert visits.row("a")["version"] == 1
    assert visits.history("a") == []
    assert visits.settle(me, (run, Done())) == ["superseded"]


def settle_short(visits: Visits, worker_id: UUID, *runs: Run, bundled: bool = False) -> list[str]:
    """By a short form alone."""
    for run in runs:
        run.outcome = run.outcome or Done()
    return visits.settle_short(worker_id, runs, bundled)


def test_both_forms_of_a_settle_write_the_same_history(visits: Visits, me) -> None:
    visits.offer("a", "b", payload={"n": 1}, priority=7)
    short, long = visits.start("a"), visits.start("b")
    for run in (short, long):
        run.started, run.seconds = 1_700_000_000.123456, 2.5
        run.outcome = Done(result='{"x": [1, "two"]}')

    assert settle_short(visits, me, short) == ["settled"]
    values = settle_arguments([long], me)
    visits.call("settle", **dict(zip(SQL["settle"].names, values, strict=True)))

    stories = [visits.history(key)[0] for key in "ab"]
    for story in stories:
        for name in ("key", "run", "id"):
            del story[name]
    assert stories[0] == stories[1]
    assert stories[0]["result"] == {"x": [1, "two"]}
    assert stories[0]["duration_ms"] == 2500


def test_each_visit_of_a_batch_gets_the_end_of_its_own_run(visits: Visits, me) -> None:
    """Whatever the order of the versions, and whoever is not there any more."""
    keys = [f"k{n:02}" for n in range(20)]
    visits.offer(*keys)
    runs = [visits.start(key) for key in keys]
    for n, run in enumerate(runs):
        run.started, run.seconds = 1_700_000_000.000001 + n, n / 1000
        run.outcome = Done(result=None if n % 3 else f'{{"n": {n}}}')
    visits.offer("k07")

    answers = settle_short(visits, me, *runs)

    assert answers == ["changed" if key == "k07" else "settled" for key in keys]
    assert [row["key"] for row in visits.query("select key from mainspring.visit")] == ["k07"]
    for n, run in enumerate(runs):
        stories = [
            (s["run"], s["started_at"].timestamp(), s["duration_ms"], s["result"])
            for s in visits.history(run.visit.key)
        ]
        told = (run.token, run.started, float(n), None if n % 3 else {"n": n})
        assert stories == ([] if n == 7 else [told])


def test_two_runs_of_a_visit_in_one_batch_are_settled_once(visits: Visits, me) -> None:
    visits.offer("a", "b")
    runs = [visits.start("a"), visits.start("a"), visits.start("b")]

    answers = settle_short(visits, me, *runs)

    assert sorted(answers[:2]) == ["changed", "settled"]
    assert answers[2] == "settled"
    assert len(visits.history("a")) == 1


@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize("what", ["held", "held there", "offered", "another", "nothing", "settled"])
def test_the_short_form_touches_nothing_but_the_visit_that_was_read(
    visits: Visits, me, what, bundled
) -> None:
    visits.offer("a", "b")
    run = visits.start("a")
    match what:
        case "held":
            visits.hold(me, visits.start("a"))
        case "held there":  # as a settle sees it that waited for the hold's commit
            visits.hold(me, visits.start("a"))
            run.visit = replace(run.visit, address=visits.visit("a").address)
        case "offered":
            visits.offer("a")
        case "another":
            run.visit = replace(run.visit, address=visits.visit("b").address)
        case "nothing":
            run.visit = replace(run.visit, address="(4000000,7)")
        case "settled":
            assert settle_short(visits, me, run, bundled=bundled) == ["settled"]
    before = visits.query("select * from mainspring.visit order by key")
    stories = visits.history("a")

    assert settle_short(visits, me, run, bundled=bundled) == ["changed"]

    assert run.strayed
    assert not is_plain(run)
    assert visits.query("select * from mainspring.visit order by key") == before
    assert visits.history("a") == stories


def wait_for_lock(connection: psycopg.Connection) -> None:
    """Until somebody waits for a lock in this database."""
    for _ in range(1000):
        row = connection.execute("select count(*) from pg_locks where not granted").fetchone()
        if row and row[0]:
            return
        time.sleep(0.002)
    raise TimeoutError("nobody waits for a lock")


def test_a_deleted_visit_is_answered_gone(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    visits.query("delete from mainspring.visit")

    assert visits.settle(me, (run, Done())) == ["gone"]
    assert visits.settle(me, (run, FAILED)) == ["gone"]

    assert visits.row("a") is None
    assert visits.history("a") == []


def test_one_batch_settles_every_kind_of_outcome(visits: Visits, me) -> None:
    visits.offer("a", "b", "c", "d")
    results = zip("abcd", (Done(), Again(after=9), FAILED, PARKED), strict=True)

    answers = visits.settle(me, *((visits.start(key), outcome) for key, outcome in results))

    assert answers == ["settled"] * 4
    assert [len(visits.history(key)) for key in "abcd"] == [1, 1, 1, 1]


def test_again_forgets_the_crashes_before_it(visits: Visits, me) -> None:
    visits.offer("a")
    visits.change("a", crashes=2)

    visits.settle(me, (visits.start("a"), Again(after=0)))

    assert visits.row("a")["crashes"] == 0


def test_a_run_is_in_history_under_the_day_it_began(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")
    run.started -= 86_400
    run.seconds = 86_500

    visits.settle(me, (run, Done()))

    [story] = visits.history("a")
    assert story["day"] == story["started_at"].date()
    assert story["duration_ms"] == 86_500_000


@pytest.mark.parametrize("result", ['"\\u0000"', '{"a": "\\ud800"}', "not json"])
def test_a_result_that_cannot_be_stored_fails_its_statement_alone(
    visits: Visits, me, result: str
) -> None:
    visits.offer("a", "b")
    bad, good = visits.start("a"), visits.start("b")

    with pytest.raises(psycopg.DataError):
        visits.settle(me, (bad, Done(result=result)), (good, Done()))

    assert visits.row("b") is not None
    assert visits.settle(me, (good, Done())) == ["settled"]


def test_a_quiet_queue_leaves_history_only_when_a_run_fails(visits: Visits, me: UUID) -> None:
    """A scheduler's own steps: thousands a second, of which only the failed ones are worth a row."""
    visits.offer("a", "b", queue="still")
    runs = [visits.start(visits.visit(key, "still")) for key in "ab"]
    outcomes = [Done(), Retry(after=60, error_type="E", error="no")]
    for run, outcome in zip(runs, outcomes, strict=True):
        run.outcome, run.settings = outcome, queue("still", quiet=True)
    runs.sort(key=lambda run: (run.visit.shard, run.visit.key))
    values = settle_arguments(runs, me)

    visits.call("settle", **dict(zip(SQL["settle"].names, values, strict=True)))

    assert visits.row("a", "still") is None
    assert visits.history("a") == []
    assert len(visits.history("b")) == 1


@pytest.mark.parametrize("what", ["held", "offered", "another", "nothing"])
def test_a_visit_that_lies_elsewhere_by_now_is_settled_all_the_same(
    visits: Visits, me, what
) -> None:
    """The address is a hint: the row may have moved, and another's may lie there."""
    visits.offer("a", "b")
    run = visits.start("a")
    answer = "settled"
    match what:
        case "held":
            visits.hold(me, run)
        case "offered":
            visits.offer("a")
            answer = "superseded"
        case "another":
            run.visit = replace(run.visit, address=visits.visit("b").address)
        case "nothing":
            run.visit = replace(run.visit, address="(4000000,7)")

    assert visits.settle(me, (run, Done())) == [answer]

    assert (visits.row("a") is None) == (answer == "settled")
    assert visits.row("b") is not None
    assert len(visits.history("a")) == 1


def test_a_detail_is_parsed_once(visits: Visits, me) -> None:
    """It has the error with its traceback, and a dozen things are read from it."""
    visits.offer("a")
    run = visits.start("a")
    run.outcome = FAILED
    values = dict(zip(SQL["settle"].names, settle_arguments([run], me), strict=True))

    text = f"explain (verbose, costs off) {SQL['settle'].text}"
    plan = visits.connection.execute(text, values).fetchall()

    read_from = str(plan)
    assert "((i.detail)::jsonb) ->> " in read_from  # what a node below has made
    assert "(i.detail)::jsonb ->> " not in read_from
