"""What operators ask for, at a hundredth of the size that it must stand: plans, bounds, answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from benchmarks.size import load

from mainspring import Mainspring
from mainspring.operate import invariants, queues
from mainspring.operate.history import HistoryFilter
from mainspring.operate.parked import ParkedFilter
from mainspring.operate.statements import SQL
from mainspring.testing import TestServer

VISITS, RUNS = 10_000, 50_000


@pytest.fixture(scope="module")
def url(mainspring_server: TestServer) -> Iterator[str]:
    with mainspring_server.database() as url:
        load(url, VISITS, RUNS)
        yield url


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mainspring]:
    async with Mainspring(url) as app:
        yield app


async def test_counts_stop_and_say_so(
    app: Mainspring, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A glance reads a bounded number of visits; what it counts is a lower bound, marked as one."""
    exact = {q.name: q for q in await app.operator.queues(exact=True)}
    assert sum(q.waiting + q.scheduled + q.parked for q in exact.values()) == VISITS
    assert not any(q.capped for q in exact.values())
    monkeypatch.setattr(queues, "COUNT_MOST", 1)  # then a hundred of each level, at least
    busy = "q0002"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into mainspring.visit (shard, key, queue, id, version, payload)"
            " select 1, 'more ' || n, %s, gen_random_uuid(), n, '{}' from generate_series(1, 300) n",
            (busy,),
        )
        try:
            found = {q.name: q for q in await app.operator.queues()}
        finally:
            connection.execute("delete from mainspring.visit where key ^@ 'more '")
    assert found.keys() == exact.keys()
    assert found[busy].capped == ["waiting"]
    assert found[busy].count("waiting") == f"{found[busy].waiting}+"
    assert found[busy].waits.startswith("at least ")
    assert 100 <= found[busy].waiting < exact[busy].waiting + 300
    others = found.keys() - {busy}
    assert all(found[name].waiting == exact[name].waiting for name in others)


async def test_counts_are_those_of_a_full_scan(app: Mainspring, url: str) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select queue, count(*) filter (where state = 'waiting'),"
            " count(*) filter (where state = 'scheduled'), count(*) filter (where state = 'parked')"
            " from mainspring.visit_status group by queue"
        ).fetchall()
    found = {
        q.name: (q.waiting, q.scheduled, q.parked)
        for q in await app.operator.queues(exact=True)
        if q.waiting + q.scheduled + q.parked
    }
    assert found == {queue: (waiting, later, parked) for queue, waiting, later, parked in rows}


async def test_one_queue_is_asked_for_alone(app: Mainspring) -> None:
    """The same row as among all; a name that nobody has gives none."""
    among = {q.name: q for q in await app.operator.queues()}
    (alone,) = await app.operator.queues(name="q0007")
    assert (alone.waiting, alone.scheduled) == (among["q0007"].waiting, among["q0007"].scheduled)
    assert await app.operator.queues(name="q0007x") == []


@pytest.mark.parametrize("limit", [1, 7, 50, 500])
@pytest.mark.parametrize("days", [None, 0.01, 3.0])
async def test_history_of_all_queues_is_the_newest_of_the_view(
    app: Mainspring, url: str, limit: int, days: float | None
) -> None:
    """T7: growing spans bring what one look at everything would, page after page."""
    now = await app.operator.now()
    wanted = HistoryFilter(since=None if days is None else now - timedelta(days=days))
    first = await app.operator.history(wanted, limit=limit)
    second = await app.operator.history(wanted, limit=limit, before=first[-1].position)
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select run from mainspring.history where ended_at >= coalesce(%s, '-infinity'::timestamptz)"
            " order by ended_at desc, run desc limit %s",
            (wanted.since, 2 * limit),
        ).fetchall()
    assert [past.run for past in first + second] == [run for (run,) in rows]


async def test_errors_of_all_queues_are_found_however_old(app: Mainspring, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "update mainspring.history_run set error_type = 'RareError', error = 'RareError: once'"
            " where run = (select max(run) from mainspring.history_run where outcome = 'retry')"
        )
    (found,) = await app.operator.history(HistoryFilter(error_type="RareError"), limit=50)
    assert found.error == "RareError: once"


async def test_throughput_is_what_history_has(app: Mainspring, url: str) -> None:
    """Bundles that began before the minute count by their runs in it."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select queue, outcome::text, count(*) from mainspring.history"
            " where ended_at > now() - interval '1 hour' group by 1, 2 order by 1, 2"
        ).fetchall()
        text = SQL["read_throughput"].text
        found = connection.execute(text, {"seconds": 3600.0}).fetchall()
    assert rows
    assert [row[:3] for row in found] == rows


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("search_all", {"since": datetime.now(UTC)}, r"history_\d+_\d+_\d+_ended_at_idx"),
        ("page_visits", {"after": "v5", "most": 1000}, "visit_pkey"),
    ],
)
def test_a_look_rides_its_index(url: str, name: str, values: dict[str, object], index: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("set enable_seqscan = off")  # the table is small here
        given = dict.fromkeys(SQL[name].names) | {"most": 50} | values
        rows = connection.execute(f"explain {SQL[name].text}", given).fetchall()
    assert any(re.search(index, line) for (line,) in rows), rows


async def test_parked_visits_are_read_in_the_order_of_their_index(
    app: Mainspring, url: str
) -> None:
    """Of 5,000 in a queue a page is read, not all of them, and sorted."""
    found = await app.operator.parked(ParkedFilter(), limit=50)
    assert [v.parked_at for v in found] == sorted((v.parked_at for v in found), reverse=True)
    values = dict.fromkeys(SQL["list_parked"].names) | {"most": 5}
    with psycopg.connect(url) as connection:
        connection.execute(SQL["walk_in_order"].text)
        rows = connection.execute(f"explain {SQL['list_parked'].text}", values).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert "Index Scan Backward using visit_parked" in plan
    assert "Bitmap" not in plan


@pytest.mark.parametrize("name", ["group_parked", "count_parked"])
def test_parked_visits_are_counted_by_an_index_alone(url: str, name: str) -> None:
    """A hundred thousand rows would be read otherwise, errors and all."""
    values = dict.fromkeys(SQL[name].names) | {"most": 50}
    with psycopg.connect(url) as connection:
        connection.execute(SQL["ride_indexes"].text)
        rows = connection.execute(f"explain {SQL[name].text}", values).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert "Index Only Scan using visit_alike" in plan
    assert not re.search("Seq|Bitmap|visit_parked", plan)


async def test_doctor_says_how_much_it_looked_at(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large table a part; with exact all of it."""
    whole = {f.name: f for f in await app.operator.doctor()}["violations"]
    assert (whole.level, whole.text) == ("ok", "every invariant holds")
    monkeypatch.setattr(invariants, "HISTORY_BYTES", 0)
    monkeypatch.setattr(invariants, "PAGE", 100)
    monkeypatch.setattr(invariants, "LOOK_SECONDS", 0.0001)
    part = {f.name: f for f in await app.operator.doctor()}["violations"]
    assert part.level == "ok"
    assert "of about 10000; not looked at: some visits, history" in part.text
    assert "--exact" in part.remedy
    whole = {f.name: f for f in await app.operator.doctor(exact=True)}["violations"]
    assert (whole.level, whole.text) == ("ok", "every invariant holds")


async def test_doctor_finds_what_is_broken_wherever_it_lies(
    app: Mainspring, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages go once around: a visit that is out of the shards is met from any place, once."""
    monkeypatch.setattr(invariants, "PAGE", 700)
    monkeypatch.setattr(invariants, "LOOK_SECONDS", 60.0)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update mainspring.visit set shard = -1 where key = 'v5001'")
        try:
            found = [f for f in await app.operator.doctor() if f.name == "violations"]
        finally:
            connection.execute("update mainspring.visit set shard = 7 where key = 'v5001'")
    assert [f.text for f in found] == ["a visit lies outside the shards: q0002 v5001"]


async def test_many_unserved_queues_are_told_in_a_few_lines(app: Mainspring) -> None:
    found = [f for f in await app.operator.doctor() if f.name == "unserved"]
    assert len(found) == 21
    assert any("more queues" in f.text for f in found)


def test_a_status_of_2000_queues_fits_a_screen_or_two(url: str) -> None:
    ran = subprocess.run(
        [Path(sys.executable).parent / "mainspring", "status", "--url", url],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert len(ran.stdout.splitlines()) < 120
    assert "more queues; mainspring queues list --limit 2000 shows all" in " ".join(
        ran.stdout.split()
    )
