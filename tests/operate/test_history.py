"""History: searched by everything T7 names, riding an index each time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedConnections
from mainspring.errors import InvalidSetting, MissingRights
from mainspring.jobs import upkeep
from mainspring.jobs.chores import run_chores
from mainspring.jobs.statements import SQL as JOBS_SQL
from mainspring.kernel.outcome import Done, Parked, Retry
from mainspring.operate.history import HistoryFilter
from mainspring.operate.statements import SQL
from visits import QUEUE, Visits, queue


@pytest.fixture
def past(visits: Visits, me: UUID) -> Visits:
    """A few runs of different ends."""
    visits.register(queue("paid", searchable=("order",)))
    visits.offer("a", payload={"order": 7, "city": "Rome"})
    visits.settle(me, (visits.start("a"), Done(result='"fine"')))
    visits.offer("b", group="acme")
    visits.settle(me, (visits.start("b"), Retry(after=9, error_type="OSError", error="OSError: x")))
    visits.offer("c", queue="paid", payload={"order": 7})
    run = visits.start(visits.visit("c", "paid"))
    visits.settle(me, (run, Done()), searchable=("order",))
    visits.offer("d", queue="paid", payload={"order": 8})
    run = visits.start(visits.visit("d", "paid"))
    visits.settle(me, (run, Parked("OSError", "OSError: Disk full")), searchable=("order",))
    return visits


async def keys(app: Mainspring, **wanted: object) -> set[str]:
    found = await app.operator.history(HistoryFilter(**wanted))  # type: ignore[arg-type]
    return {run.key for run in found}


async def test_history_is_found_by_queue_key_outcome_error_and_group(past, app):
    """T7"""
    assert {"a", "b", "c", "d"} == await keys(app)
    assert {"c", "d"} == await keys(app, queue="paid")
    assert {"a"} == await keys(app, key="a")
    assert {"a", "c"} == await keys(app, outcomes=["done"])
    assert {"b", "d"} == await keys(app, error_type="OSError")
    assert {"d"} == await keys(app, error_type="OSError", outcomes=["parked"])
    assert {"d"} == await keys(app, error="disk FULL")
    assert {"b"} == await keys(app, group="acme")


async def test_history_is_found_by_time(past, app):
    """T7"""
    now = past.now()

    assert set() == await keys(app, since=now + timedelta(minutes=1))
    assert {"a", "b", "c", "d"} == await keys(app, since=now - timedelta(hours=1))
    assert set() == await keys(app, until=now - timedelta(hours=1))


async def test_a_declared_field_is_searched_without_a_time_span(past, app):
    """T7: it rides history_searchable."""
    assert {"c"} == await keys(app, queue="paid", fields={"order": 7})
    assert {"d"} == await keys(app, queue="paid", fields={"order": 8})


async def test_another_field_is_searched_within_a_named_time_span_only(past, app):
    since = past.now() - timedelta(hours=1)

    assert {"a"} == await keys(app, queue=QUEUE, fields={"city": "Rome"}, since=since)
    with pytest.raises(InvalidSetting, match="does not declare 'city' searchable"):
        await keys(app, queue=QUEUE, fields={"city": "Rome"})
    with pytest.raises(InvalidSetting, match="needs the queue"):
        await keys(app, fields={"city": "Rome"})


async def test_a_past_run_has_everything_that_T7_names(past, app):
    (run,) = await app.operator.history(HistoryFilter(key="a"))

    assert run.result == "fine"
    assert run.payload == {"order": 7, "city": "Rome"}
    assert run.attempt == 1
    assert run.created_at <= run.due_at <= run.ended_at
    assert run.duration_ms >= 0


async def test_bundles_of_history_join_without_gap_or_repeat(past, app):
    past.query("update mainspring.history_run set ended_at = date_trunc('minute', ended_at)")

    seen = []
    before = None
    while page := await app.operator.history(HistoryFilter(), limit=3, before=before):
        seen += [run.run for run in page]
        before = page[-1].position

    assert 4 == len(seen) == len(set(seen))


async def test_a_page_is_bounded_and_an_unknown_outcome_refused(app):
    with pytest.raises(InvalidSetting, match="limit must be 1 to 500, got 501"):
        await app.operator.history(HistoryFilter(), limit=501)
    with pytest.raises(InvalidSetting, match="outcome must be one of done, again"):
        HistoryFilter(outcomes=["finished"])


_FILL = """
insert into mainspring.history_run (day, run, id, queue, key, priority, attempt, outcome, worker_id,
  created_at, due_at, started_at, ended_at, duration_ms, error_type, error, payload, searchable)
select (now() at time zone 'UTC')::date, n, gen_random_uuid(), 'ring', 'k' || n, 5, 1,
  case when n %% 20 = 0 then 'retry' else 'done' end::mainspring.outcome, gen_random_uuid(),
  now(), now(), now(), now() - make_interval(secs => n * 0.01), 1,
  case when n %% 20 = 0 then 'E' || n %% 7 end, null, '{}',
  array['order=' || n]
from generate_series(1, 20000) n
"""
_PLAIN = {
    "queue": None,
    "keys": None,
    "grp": None,
    "since": None,
    "until": None,
    "before_at": None,
    "before_run": None,
    "outcomes": None,
    "error": None,
    "error_type": None,
    "fields": [],
    "texts": [],
    "most": 100,
}


_SEARCHES = [
    ("search_history", {"queue": QUEUE}, "queue_ended_at_idx"),
    ("search_failed", {"queue": QUEUE, "error_type": "E3"}, "queue_error_type_ended_at_idx"),
    ("search_key", {"keys": ["k77"]}, "_pkey"),
    ("search_field", {"queue": QUEUE, "searchable": ["order=77"]}, "searchable_idx"),
]


def test_each_search_rides_its_index(visits):
    """T7: none reads a day's whole table."""
    visits.query(_FILL)
    visits.query("vacuum analyze mainspring.history_run")
    for name in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
        visits.query(f"set {name} = on")  # an operator's connection, not the engine's
    day = visits.value("select tableoid::regclass::text from mainspring.history_run limit 1")

    for statement, values, index in _SEARCHES:
        cursor = visits.connection.execute("explain " + SQL[statement].text, {**_PLAIN, **values})
        plan = [row["QUERY PLAN"] for row in cursor.fetchall()]

        assert any(index in line for line in plan), (statement, plan)
        table = day.removeprefix("mainspring.")
        assert not any(f"Seq Scan on {table}" in line for line in plan), (statement, plan)


async def test_history_has_its_days_a_week_ahead(database_url: str) -> None:
    """T7: a day that is not there at midnight cannot be made once it has rows, nor be dropped whole."""
    database = Database(database_url)
    connection = await database.connect("test")
    try:
        await upkeep.keep_up(database, connection, days=30)
    finally:
        await connection.close()

    ahead = (
        "select count(*) from generate_series(-1, 7) n where to_regclass("
        "to_char((now() at time zone 'UTC')::date + n, '\"mainspring.history_\"YYYY_MM_DD')) is null"
    )
    with psycopg.connect(database_url) as other:
        assert other.execute(ahead).fetchone() == (0,)


async def test_upkeep_that_fails_keeps_no_other_from_being_done(database_url: str) -> None:
    """T5: a role that may not make days still finds what was lost, and old rows still go."""
    done = asyncio.Event()

    async def forbidden(*args: object, **how: object) -> None:
        raise MissingRights("this role may not make or drop history's days")

    async def broken(database: Database, connection: Connection, *, days: int) -> None:
        await connection.run(JOBS_SQL["old_days"], keep="no number")

    async def last(database: Database, connection: Connection, *, days: int) -> None:
        await connection.run(JOBS_SQL["old_days"], keep=days)
        done.set()

    chores = [forbidden, broken, last]
    database = Database(database_url)
    connections = SharedConnections(database, 1)
    running = asyncio.create_task(run_chores(database, connections.line(), chores, days=30))
    try:
        await asyncio.wait_for(done.wait(), 20)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connections.close()
