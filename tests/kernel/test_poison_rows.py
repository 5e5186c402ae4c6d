"""Rows that only a stranger's SQL can have made: none of them stops anybody else (promise 5)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working

POISON = """
insert into mainspring.visit (shard, key, queue, id, priority, due_at, version, attempt, payload,
  expires_at, created_at)
values (%(shard)s, 'poison', 'ring', gen_random_uuid(), %(priority)s, %(due_at)s, 1, %(attempt)s,
  %(payload)s, %(expires_at)s, %(created_at)s)
"""
SOUND = {
    "shard": 1,
    "priority": 5,
    "due_at": "now",
    "attempt": 0,
    "payload": "{}",
    "expires_at": None,
    "created_at": "now",
}


def left(visits: Visits) -> int:
    return visits.value("select count(*) from mainspring.visit where key <> 'poison'")


@pytest.mark.parametrize(
    "bad",
    [
        {"shard": -1},
        {"shard": 5000},
        {"shard": 70_000},
        {"attempt": 2**31 - 1},
        {"attempt": -(2**31)},
        {"priority": -5},
        {"priority": 99},
        {"due_at": "infinity"},
        {"due_at": "-infinity"},
        {"due_at": "4000-01-01 BC"},
        {"due_at": "20000-01-01"},
        {"expires_at": "infinity"},
        {"expires_at": "-infinity"},
        {"expires_at": "20000-01-01"},
        {"expires_at": "4000-01-01 BC"},
        {"created_at": "20000-01-01"},
        {"created_at": "infinity"},
        {"payload": "[1, 2]"},
        {"payload": '"text"'},
        {"payload": "null"},
    ],
    ids=str,
)
async def test_a_poison_row_stops_nobody_else(
    visits: Visits, database_url: str, bad: dict[str, object]
) -> None:
    """With two workers, so that each reads by the mask of its shards; the views can still be read."""
    gauge = Gauge(seconds=0)
    ring = queue(handler=gauge)
    visits.register(ring)
    owners = "select count(distinct worker_id) from mainspring.lease"

    async with working(database_url, ring), working(database_url, ring):
        await wait_until(lambda: visits.value(owners) == 2, 20)
        visits.connection.execute(POISON, {**SOUND, **bad})
        visits.offer(*(f"key {n:03}" for n in range(100)))
        await wait_until(lambda: left(visits) == 0, 20)

        assert visits.value("select count(attempt) from mainspring.visit_status") <= 1
        if "attempt" in bad or "payload" in bad:  # it can be run itself, and settled
            await wait_until(lambda: visits.value("select count(*) from mainspring.visit") == 0, 20)

    # What nobody can ever read is named for an operator.
    stuck = visits.value("select count(*) from mainspring.visit")
    assert visits.value("select count(*) from mainspring.violation") == stuck
    visits.query("delete from mainspring.visit")


@pytest.mark.parametrize("due_at", ["4000-01-01 BC", "-infinity"])
async def test_pages_that_are_due_before_the_first_year_are_passed_over(
    visits: Visits, database_url: str, due_at: str
) -> None:
    """X3: a full page of them was the end of all reading; a draining worker does not wait for them."""
    ring, other = queue(handler=Gauge(seconds=0)), queue("other", handler=Gauge(seconds=0))
    visits.register(ring, other)
    visits.query(
        "insert into mainspring.visit (shard, key, queue, id, due_at, version, payload)"
        " select 1, 'old ' || n, 'ring', gen_random_uuid(), %s, n, '{}' from generate_series(1, 30) n",
        due_at,
    )
    visits.offer("a")
    visits.offer("b", queue="other")

    async with working(database_url, ring, other, page=10) as worker:
        async with asyncio.timeout(20):
            await worker.drained()
        assert visits.value("select count(*) from mainspring.visit") == 30

    assert visits.value("select count(*) from mainspring.violation") == 30
    visits.query("delete from mainspring.visit")


async def test_a_payload_of_60_mb_fails_its_own_run_only(database_url: str) -> None:
    """It is not read at all: the page that it is in would take minutes of everybody's."""
    app = Mainspring(database_url)

    @app.task
    async def note(text: str) -> str:
        return text

    async with app:
        handles = [await note.enqueue(str(n)) for n in range(20)]
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("alter table mainspring.visit alter payload set storage external")
            connection.execute(
                "insert into mainspring.visit (shard, key, queue, id, due_at, version, payload)"
                " values (1, 'poison', 'note', gen_random_uuid(), '2020-01-01Z', 1,"
                " jsonb_build_object('text', repeat('x', 60000000)))"
            )
        async with app.worker():
            for n, handle in enumerate(handles):
                assert await handle.result(timeout=30) == str(n)
            await wait_until(lambda: _error(database_url) is not None, 20)
    assert "the stored arguments of task 'note' do not fit" in (_error(database_url) or "")


def test_a_role_that_only_enqueues_cannot_make_a_time_that_nobody_reads(
    visits: Visits, database_url: str
) -> None:
    """X3: one such call stopped every queue of its pool."""
    visits.register(queue())
    call = (
        "select * from mainspring.enqueue_many(array['ring'], array['{}'], array[null::timestamptz],"
        " array[null::interval], array[%s::timestamptz], array[null::integer], array[null], array[null])"
    )
    with psycopg.connect(database_url, autocommit=True) as connection:
        for at in ("20000-01-01", "infinity"):
            with pytest.raises(psycopg.DataError, match="expires_at must be before the year 9999"):
                connection.execute(call, (at,))
        connection.execute(call, ("9998-12-31",))

    assert visits.value("select count(*) from mainspring.visit") == 1


def _error(url: str) -> str | None:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select error from mainspring.visit where key = 'poison'"
        ).fetchone()
    return row[0] if row else None
