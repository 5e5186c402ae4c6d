"""Search rides indexes: no question of an operator reads all processes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from mainspring.db.sql import Record, Statement, Values
from mainspring.db.tx import Tx
from mainspring.processes.operate.search import ProcessFilter, search
from mainspring.processes.statements import SQL
from mainspring.testing import TestServer

FILL = """
insert into mainspring.process (id, type, key, state, root, start, attrs, created_at)
select i.id, 'type-' || n % 5, 'key-' || n,
  (case when n % 50 = 0 then 'open' else 'finished' end)::mainspring.process_state, i.id, '{}',
  jsonb_build_object('shop', n % 1000), now() - make_interval(secs => n)
from generate_series(1, 50000) n, lateral (select mainspring.uuid7() as id where n > 0) i
"""
PARKED = """
insert into mainspring.parked_task (task, process_id, type, actor, fingerprint, error_type, error)
select mainspring.uuid7(), id, type, 'charge', 'f' || (row_number() over ()) % 10, 'ValueError', 'refused'
from mainspring.process where state = 'open'
"""
TASKS = """
insert into mainspring.task (process_id, id, promise, actor, state, args)
select id, id, id, case when n % 5000 = 0 then 'rare' else 'step-' || n % 10 end, 'done', '{}'
from (select id, row_number() over () as n from mainspring.process) p
"""


@pytest.fixture(scope="module")
def connection(mainspring_server: TestServer) -> Iterator[psycopg.Connection[Any]]:
    with mainspring_server.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute(PARKED)
        connection.execute(TASKS)
        connection.execute("analyze mainspring.process, mainspring.parked_task, mainspring.task")
        connection.execute("set plan_cache_mode = force_custom_plan")
        yield connection


def rows_read(node: dict[str, Any]) -> float:
    """Rows that the plan looked at on process and task, those thrown away included."""
    loops = node["Actual Loops"]
    own = 0.0
    if re.match("process$|task", node.get("Relation Name", "")):
        dropped = node.get("Rows Removed by Filter", 0) + node.get(
            "Rows Removed by Index Recheck", 0
        )
        own = (node["Actual Rows"] + dropped) * loops
    return own + sum(rows_read(child) for child in node.get("Plans", ()))


QUESTIONS = {
    "newest": (ProcessFilter(), 200),
    "type and state": (ProcessFilter(type="type-0", state="open"), 200),
    "type": (ProcessFilter(type="type-3"), 1000),
    "attributes": (ProcessFilter(attrs={"shop": 7}), 200),
    "a common state": (ProcessFilter(type="type-1", state="finished"), 600),
    "cancelled, of which there are none": (ProcessFilter(state="cancelled"), 20),
    "an id": (ProcessFilter(id="key-777"), 20),
    "a common task": (ProcessFilter(task="step-3"), 4500),
    "a rare task": (ProcessFilter(task="rare"), 60),
    "a rare task of a type": (ProcessFilter(type="type-0", task="rare"), 60),
    "a task that nobody has": (ProcessFilter(task="nothing"), 5),
    "a common task of a type": (ProcessFilter(type="type-3", task="step-3"), 6500),
    "parked by fingerprint": (ProcessFilter(fingerprint="f3", parked=True), 400),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_search_reads_about_what_it_answers(
    connection: psycopg.Connection[Any], name: str
) -> None:
    """P12: plans over many processes."""
    wanted, most = QUESTIONS[name]
    asked = Asked(connection)

    asyncio.run(search(asked, wanted))

    assert asked.read <= most


class Asked(Tx):
    """Runs the statements of a search, and counts what they read."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.read = 0.0

    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        explained = f"explain (analyze, format json) {statement.text}"
        row = self.connection.execute(explained.encode(), values).fetchone()
        assert row is not None
        plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
        self.read += rows_read(plan[0]["Plan"])
        found = self.connection.execute(statement.text.encode(), values).fetchall()
        return [] if statement is SQL["search_processes"] else found
