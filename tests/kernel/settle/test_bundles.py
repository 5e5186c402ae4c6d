"""Bundles: many runs that were simply done in one row of history, found like any other (T7)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.db.database import Database
from mainspring.ids import new_ids
from mainspring.jobs import upkeep
from mainspring.kernel.outcome import Done, Parked, Retry
from mainspring.kernel.settle import batches as settling
from mainspring.kernel.settle.batches import OTHER, PLAIN, by_kind, kind_of
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.tuning import DEFAULT
from mainspring.kernel.visit import Run
from mainspring.operate.history import HistoryFilter, PastRun, count_history
from mainspring.operate.statements import SQL
from mainspring.tasks.declare.task import Task
from mainspring.testing import wait_until
from visits import QUEUE, Visits, queue, visit

A_KEY = "0190a5d0-0000-7000-8000-00000000000a"
BASE = 1_900_000_000.0


def ended(**fields: Any) -> Run:
    """A run of a task that is done, but for what is said."""
    values = {"address": "(0,1)", "id": UUID(A_KEY), **fields}
    outcome = values.pop("outcome", Done())
    settings = queue(**values.pop("settings", {}))
    held = values.pop("held", False)
    read = visit(values.pop("key", A_KEY), **values)
    return Run(read, 1, 0.0, 0.0, outcome=outcome, settings=settings, held=held)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ({"group": "acme"}, PLAIN),
        ({"attempt": 1}, PLAIN),
        ({"outcome": Done(result="7")}, PLAIN),
        ({"held": True}, OTHER),
        ({"address": None}, OTHER),
        ({"settings": {"searchable": ("order",)}}, OTHER),
        ({"outcome": Parked("E", "no")}, OTHER),
    ],
)
def test_only_what_was_simply_done_is_settled_by_the_short_form(what, kind) -> None:
    assert kind_of(ended()) == PLAIN
    assert kind_of(ended(**what)) == kind
    both = [ended(), ended(**what)]
    assert [k for k, _ in by_kind(both)] == list(dict.fromkeys([PLAIN, kind]))


@pytest.mark.parametrize(
    "what",
    [
        {"keys": ["invoice 7"]},
        {"group": "acme"},
        {"attempt": 1},
        {"result": "7"},
        {"payload": {"text": random.Random(7).randbytes(3000).hex()}},
    ],
)
def test_only_the_first_quiet_success_of_a_task_is_in_a_bundle(visits: Visits, me, what) -> None:
    changes = {name: what[name] for name in ("attempt",) if name in what}
    keys = what.get("keys", new_ids(1))
    visits.offer(*keys, payload=what.get("payload", {}), group=what.get("group"))
    for key in keys:
        visits.change(key, **changes) if changes else None
    runs = [visits.start(key) for key in keys]
    for run in runs:
        run.outcome = Done(result=what.get("result"))

    assert visits.settle_short(me, runs, bundled=True) == ["settled"] * len(runs)

    assert visits.value("select count(*) from mainspring.history_bundle") == 0
    assert visits.value("select count(*) from mainspring.history_run") == len(keys)


def test_runs_of_one_bundle_share_queue_priority_and_the_minute_of_their_ids(
    visits: Visits, me
) -> None:
    """And where there are too few of them they have a row each."""
    later = "0190a5d1" + A_KEY[8:]
    alike = new_ids(3)
    visits.offer(*alike, A_KEY, later)
    visits.change(A_KEY, id=UUID(A_KEY))
    visits.change(later, id=UUID(later))
    urgent = new_ids(2)
    visits.offer(*urgent, priority=7)
    runs = [visits.start(key) for key in (*alike, A_KEY, later, *urgent)]
    for run in runs:
        run.outcome = Done()

    [found] = visits.call("settle_done", **settling.done_values(runs, me, 2))

    assert found["settled"] == 7
    sizes = visits.query("select size, priority from mainspring.history_bundle order by size")
    assert [(row["size"], row["priority"]) for row in sizes] == [(2, 7), (3, 5)]
    rows = visits.query("select key from mainspring.history_run order by key")
    assert [row["key"] for row in rows] == [A_KEY, later]
    assert visits.value("select count(*) from mainspring.history") == 7


def bundled(visits: Visits, me: UUID, keys: Sequence[str], *, at: float = BASE) -> list[Run]:
    """Runs of these keys, settled as one bundle; each a tenth of a second after the one before."""
    runs = []
    for n, key in enumerate(keys):
        run = visits.start(key)
        run.started, run.seconds, run.outcome = at + n / 10, 0.000_25, Done()
        run.settings = queue()
        runs.append(run)
    assert visits.settle_short(me, runs, bundled=True) == ["settled"] * len(runs)
    return runs


def test_a_bundle_is_one_row_and_history_shows_its_runs_as_rows_would(visits: Visits, me) -> None:
    """T7"""
    one, other = new_ids(2)
    visits.offer(one, other, priority=7, payload={"n": [1, "two"]})
    by_row = visits.start(other)
    by_row.started, by_row.seconds, by_row.outcome = BASE, 0.000_25, Done()
    visits.settle_short(me, [by_row])

    bundled(visits, me, [one])

    [bundle] = visits.query("select * from mainspring.history_bundle")
    assert (bundle["size"], bundle["took_us"], bundle["first_key"]) == (1, 250, one)
    [shown], [row] = visits.history(one), visits.history(other)
    assert visits.row(one) is None
    own = {"run", "id", "key", "created_at", "due_at"}
    assert {k: v for k, v in shown.items() if k not in own} == {
        k: v for k, v in row.items() if k not in own
    }
    assert (shown["id"], shown["key"]) == (UUID(one), one)


def test_what_is_not_settled_is_in_no_bundle(visits: Visits, me) -> None:
    """S23: it was offered again meanwhile."""
    keys = new_ids(5)
    visits.offer(*keys)
    runs = [visits.start(key) for key in keys]
    for run in runs:
        run.outcome = Done()
    visits.offer(keys[2])

    answers = visits.settle_short(me, runs, bundled=True)

    assert answers == ["settled", "settled", "changed", "settled", "settled"]
    shown = {row["key"] for row in visits.query("select key from mainspring.history")}
    assert shown == {*keys} - {keys[2]}
    assert visits.row(keys[2]) is not None


def test_a_bundle_of_nothing_is_not_written(visits: Visits, me) -> None:
    key = new_ids(1)[0]
    visits.offer(key)
    run = visits.start(key)
    run.outcome = Done()
    visits.offer(key)

    assert visits.settle_short(me, [run], bundled=True) == ["changed"]

    assert visits.query("select * from mainspring.history_bundle") == []


def test_a_settle_that_is_sent_again_writes_no_second_story(visits: Visits, me) -> None:
    """T6: the answer was lost, and the task is put back under its id before it is asked for again."""
    key = new_ids(1)[0]
    visits.offer(key)
    [run] = bundled(visits, me, [key])
    visits.offer(key)

    assert visits.settle(me, (run, Done())) == ["superseded"]

    assert len(visits.history(key)) == 1
    assert visits.query("select * from mainspring.violation") == []


@pytest.fixture
def mixed(visits: Visits, me: UUID) -> list[dict[str, Any]]:
    """Bundles that overlap in time and keys, beside runs that have rows; the runs as history shows them."""
    chance = random.Random(7)
    for n in range(12):
        keys = new_ids(chance.randint(1, 9))
        name = "paid" if n % 3 == 0 else QUEUE
        visits.offer(*keys, queue=name, payload={"city": f"c{n % 4}"})
        runs = []
        for key in keys:
            run = visits.start(visits.visit(key, name))
            run.started = BASE + chance.randint(0, 40) / 10
            run.seconds, run.settings = 0.5, queue(name)
            run.outcome = Done()
            runs.append(run)
        visits.settle_short(me, runs, bundled=n % 4 != 1)
    for n in range(6):
        key = f"failing {n}"
        visits.offer(key, group="acme" if n % 2 else None)
        run = visits.start(key)
        run.started, run.seconds = BASE + n / 2, 0.5
        visits.settle(me, (run, Retry(after=9, error_type="OSError", error="OSError: x")))
    visits.register(queue(), queue("paid"))
    return visits.query("select * from mainspring.history order by ended_at desc, run desc")


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"queue": QUEUE},
        {"outcomes": ["done"]},
        {"outcomes": ["retry"]},
        {"group": "acme"},
        {"error": "oserror"},
        {"queue": QUEUE, "fields": {"city": "c2"}, "since": 0},
        {"since": 1.1, "until": 3.2},
        {"queue": QUEUE, "since": 2},
        {"until": 2.5},
    ],
)
async def test_a_search_shows_all_that_fits_page_by_page(visits, mixed, app, wanted, limit):
    """T7: whatever is in bundles, in the order of a plain sort, without gap or repeat."""
    start = visits.query("select to_timestamp(%s) as at", BASE)[0]["at"]
    given = {**wanted}
    for bound in ("since", "until"):
        if bound in wanted:
            given[bound] = start + timedelta(seconds=wanted[bound])

    found: list[PastRun] = []
    before = None
    while page := await app.operator.history(HistoryFilter(**given), limit=limit, before=before):
        found += page
        before = page[-1].position

    expected = [row for row in mixed if fits(row, given)]
    assert [(run.run, run.key) for run in found] == [(row["run"], row["key"]) for row in expected]
    assert expected or wanted.get("group")
    for run, row in zip(found, expected, strict=True):
        assert (run.payload, run.outcome, run.ended_at) == (
            *(row["payload"], row["outcome"]),
            row["ended_at"],
        )


def fits(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return (
        wanted.get("queue") in (None, row["queue"])
        and ("outcomes" not in wanted or row["outcome"] in wanted["outcomes"])
        and wanted.get("group") in (None, row["grp"])
        and ("error" not in wanted or wanted["error"] in (row["error"] or "").lower())
        and ("since" not in wanted or row["ended_at"] >= wanted["since"])
        and ("until" not in wanted or row["ended_at"] <= wanted["until"])
        and all((row["payload"].get(k)) == v for k, v in wanted.get("fields", {}).items())
    )


async def test_a_key_is_found_in_its_bundle(mixed, app) -> None:
    for row in mixed:
        if row["outcome"] == "done":
            [run] = await app.operator.history(HistoryFilter(key=row["key"]))
            assert (run.run, run.queue, run.id) == (row["run"], row["queue"], row["id"])
    assert await app.operator.history(HistoryFilter(key="0190a5d0 is no id")) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"queue": QUEUE},
        {"outcomes": ["done"]},
        {"outcomes": ["retry"]},
        {"since": 1.1, "until": 3},
    ],
)
async def test_runs_in_bundles_are_counted(visits, mixed, database_url, wanted) -> None:
    start = visits.query("select to_timestamp(%s) as at", BASE)[0]["at"]
    given = {
        k: start + timedelta(seconds=v) if k in ("since", "until") else v for k, v in wanted.items()
    }
    database = Database(database_url)
    connection = await database.connect("test")
    try:
        count = await count_history(database, connection, HistoryFilter(**given))
        key = next(row["key"] for row in mixed if row["outcome"] == "done")
        one = await count_history(database, connection, HistoryFilter(key=key))
    finally:
        await connection.close()

    assert count == sum(fits(row, given) for row in mixed) > 0
    assert one == 1


def test_throughput_counts_bundles_that_began_before_its_span(visits: Visits, me) -> None:
    now = visits.now().timestamp()
    keys = new_ids(20)
    visits.offer(*keys)
    visits.register(queue())
    bundled(visits, me, keys, at=now - 1.0)  # ten of them within the last second

    def counted(seconds: float) -> list[tuple[Any, ...]]:
        later = visits.now().timestamp() - now
        rows = visits.call("read_throughput", seconds=seconds + later)
        return [(row["outcome"], row["count"], round(row["mean_ms"], 3)) for row in rows]

    assert counted(60) == [("done", 20, 0.25)]
    [(outcome, count, mean)] = counted(0.55)
    assert (outcome, mean) == ("done", 0.25)
    assert 14 <= count < 20


async def test_what_is_in_bundles_is_put_back_once(visits: Visits, me, mixed, app) -> None:
    """T6"""
    keys = [row["key"] for row in mixed if row["queue"] == QUEUE and row["outcome"] == "done"]
    again = keys[3]
    visits.offer(again, payload={"city": "again"})
    bundled(visits, me, [again], at=BASE + 60)  # this one ran once more
    live = keys[0]
    visits.offer(live)
    start = visits.query("select to_timestamp(%s) as at", BASE)[0]["at"]
    past = await app.operator.history(
        HistoryFilter(queue=QUEUE, outcomes=["done"], since=start), limit=500
    )
    assert len(past) == len(keys) + 1

    rows = visits.call(
        "put_back",
        keys=[run.key for run in past],
        runs=[run.run for run in past],
        days=[run.day for run in past],
        fresh_ids=False,
        until=start + timedelta(hours=1),
    )

    answers = {(row["key"], row["run"]): row["answer"] for row in rows}
    assert len(answers) == len(past)
    latest = next(run for run in past if run.key == again)
    assert answers[again, latest.run] == "put back"
    assert [answers[again, run.run] for run in past if run.key == again][1:] == ["repeated"]
    assert [a for (key, _), a in answers.items() if key == live] == ["live"]
    assert visits.row(again)["payload"] == {"city": "again"}
    assert {a for (key, _), a in answers.items() if key not in (again, live)} == {"put back"}


_BUNDLES = """
insert into mainspring.history_bundle (day, queue, priority, worker_id, kin, first_key, last_key, first_end,
  last_end, size, took_us, runs, ids, due_at, created_at, started_us, took, payloads)
select (now() at time zone 'UTC')::date, 'ring', 5, gen_random_uuid(), k.kin, k.kin || '-0', k.kin || '-9',
  e.ended, e.ended, 1, 1, array[n], array[gen_random_uuid()], array[now()], array[now()], array[0],
  array[1], array['{}'::jsonb]
from generate_series(1, 20000) n, lateral (select lpad(to_hex(n), 8, '0') as kin) k,
  lateral (select now() - make_interval(secs => n * 0.01) as ended) e
"""
_SPAN = {
    **dict.fromkeys(("queue", "keys", "grp", "since", "until", "before_at", "before_run")),
    **dict.fromkeys(("outcomes", "error", "error_type", "searchable")),
    "fields": [],
    "texts": [],
    "most": 50,
}


@pytest.mark.parametrize(
    ("statement", "values", "part"),
    [
        ("search_history", {"queue": QUEUE}, 5),  # a walk over an index would be a third
        (
            "search_history",
            {"queue": QUEUE, "until": datetime.now(UTC) - timedelta(seconds=100)},
            2,
        ),
        ("search_key", {"keys": ["00000077-1"]}, 2),
        ("count_key", {"keys": ["00000077-1"]}, 2),
    ],
)
def test_no_search_walks_over_a_day_of_bundles(visits: Visits, statement, values, part) -> None:
    """T7: each rides an index, with statistics and without."""
    visits.query(_BUNDLES)
    visits.register(queue())
    for name in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
        visits.query(f"set {name} = on")  # an operator's connection, not the engine's
    day = visits.value("select tableoid::regclass::text from mainspring.history_bundle limit 1")
    whole = visits.value("select pg_relation_size(%s::regclass) / 8192", day)
    for _ in range(2):
        visits.call(statement, **{**_SPAN, **values})  # planned, for that reads the catalogue
        cursor = visits.connection.execute(
            "explain (analyze, buffers, format json) " + SQL[statement].text, {**_SPAN, **values}
        )
        [plan] = cursor.fetchall()[0]["QUERY PLAN"]
        assert (
            0
            < plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
            < whole / part
        )
        visits.query("vacuum analyze mainspring.history_bundle")


def test_bundles_are_counted_only_in_queues_that_have_some(visits: Visits) -> None:
    """T7: of a thousand queues each look would take as long as all of the rest."""
    visits.query(_BUNDLES)
    visits.register(queue(), *(queue(f"q{n}") for n in range(50)))

    cursor = visits.connection.execute(
        "explain (analyze, format json) " + SQL["count_history"].text, _SPAN
    )

    [plan] = cursor.fetchall()[0]["QUERY PLAN"]
    assert looks(plan["Plan"]) == 1


def looks(node: dict[str, Any]) -> int:
    """How often bundles of a queue were asked for in a plan."""
    here = node["Actual Loops"] if node.get("Function Name") == "bundles_of" else 0
    return here + sum(looks(below) for below in node.get("Plans", ()))


def test_runs_of_opened_bundles_are_not_compared_with_each_that_is_put_back(visits: Visits) -> None:
    """T6: ids of one minute that ran in another order lie in every bundle of it, a million runs."""
    values = {"keys": [A_KEY], "runs": [1], "days": [datetime.now(UTC).date()]}
    values |= {"fresh_ids": False, "until": datetime.now(UTC)}

    plan = visits.connection.execute("explain " + KERNEL_SQL["put_back"].text, values).fetchall()

    text = "\n".join(line for row in plan for line in row.values())
    assert text.count("hashed SubPlan") == 2


async def test_tasks_that_end_by_the_hundred_become_bundles(
    app: Mainspring, visits: Visits
) -> None:
    """T7: and whoever waits for one of them is told."""
    many = 2 * DEFAULT.bundle_least
    beat = silent_task(app)
    handles = await beat.enqueue_many([{"n": n} for n in range(many)])
    async with app.worker(concurrency=many):
        await wait_until(lambda: visits.value(LEFT) == 0, 20)

    assert visits.value(BUNDLED) >= DEFAULT.bundle_least
    assert visits.value("select count(distinct id) from mainspring.history") == many
    assert [await handle.result(timeout=5) for handle in handles[:: many // 20]] == [None] * 20
    assert {await handle.status() for handle in handles[::50]} == {"done"}


async def test_a_pool_with_a_worker_of_the_release_before_has_none(
    app: Mainspring, visits: Visits
) -> None:
    """T11: that one would open all of them for each key that it looks for."""
    many = 4 * DEFAULT.bundle_least
    other = visits.join(queues=["beat"])
    visits.query("update mainspring.worker set bundles = false where id = %s", other)
    await silent_task(app).enqueue_many([{"n": n} for n in range(many)])
    async with app.worker(concurrency=many):  # the shards of the other are not its own
        done = "select count(*) from mainspring.history"
        await wait_until(lambda: visits.value(done) > 0.4 * many, 20)

    assert visits.value(BUNDLED) == 0


LEFT = "select count(*) from mainspring.visit where queue = 'beat'"
BUNDLED = "select coalesce(sum(size), 0) from mainspring.history_bundle"


def silent_task(app: Mainspring) -> Task[..., None]:
    @app.task(name="beat", retry=RetryPolicy(attempts=1))
    async def beat(n: int) -> None:
        pass

    return beat


async def test_days_of_bundles_are_made_ahead_and_dropped_by_age(database_url: str) -> None:
    """T7"""
    database = Database(database_url)
    connection = await database.connect("test")
    days = (
        "select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'mainspring.history_bundle'::regclass and c.relname !~ 'other'"
    )
    old = "mainspring.history_bundle_2001_02_03"
    try:
        await connection.execute(
            f"create table {old} partition of mainspring.history_bundle"
            " for values from ('2001-02-03') to ('2001-02-04')"
        )
        await upkeep.keep_up(database, connection, days=30)
        assert await connection.fetchval(days) == upkeep.DAYS_AHEAD + 2
        assert await connection.fetchval("select to_regclass($1)", old) is None
    finally:
        await connection.close()
