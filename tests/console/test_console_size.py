"""The console at a hundredth of the size that it must stand: no page reads without a bound.

Each statement that a page sends is explained with its values. What it touches does not grow with the
tables: at a hundred times the size a page of fifty is still a page of fifty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from benchmarks.console import load_all
from console_plant import Visit

from mainspring import Mainspring
from mainspring.console.pages import PAGES
from mainspring.db.database import Connection
from mainspring.db.sql import Statement
from mainspring.testing import TestServer

VISITS, RUNS, PROCESSES = 10_000, 100_000, 1_000
# Pages of 8 kB that a statement may touch. All of the visits here are some 700, all of the history 900.
MOST_BLOCKS = 450
# The doctor's, once in 15 s for all who look, page by page until its time is over; and some pages for each
# of the 200 queues that have anything, which stops at 10,001 of each.
BOUNDED_OTHERWISE = re.compile(r".*_violations|pick_visit|list_queues")
PLANNED_SO = ("walk_in_order", "ride_indexes")
ONE = {
    "/queues/one": "name=q0004",
    "/tasks/one": "queue=q0004&key=v3",
    "/tasks": "queue=q0004",
    "/parked/group": "queue=q0004&error_type=ValueError",
    "/history": "queue=q0004&error_type=ValueError",
    "/jump": "q=q0004",
    "/processes": "state=open",
    "/processes/one": "id=o-50",
}
ABSENT = {"/entities/kind", "/entities/one", "/reactive/one", "/params/one"}
LISTS = sorted(PAGES.keys() - ABSENT - {"/operations/one", "/jump"})


@pytest.fixture(scope="module")
def full(mainspring_server: TestServer) -> Iterator[str]:
    with mainspring_server.database() as url:
        load_all(url, VISITS, RUNS, PROCESSES)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")
        yield url


Sent = list[tuple[Statement, dict[str, Any]]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What is sent to the database, with its values."""
    found: Sent = []
    send = Connection.send

    async def noted(self: Connection, statement: Statement, values: Any) -> Sequence[Any]:
        found.append((statement, dict(values)))
        return await send(self, statement, values)

    monkeypatch.setattr(Connection, "send", noted)
    return found


def _blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.parametrize("path", LISTS)
async def test_no_page_reads_without_a_bound(
    full: str, visit: Visit, sent: Sent, path: str
) -> None:
    async with Mainspring(full) as app, visit(app) as client:
        answer = await client.get(f"{path}?{ONE.get(path, '')}")
        assert answer.status_code == 200, answer.text
    touched = {}
    with psycopg.connect(full, autocommit=True) as connection:
        connection.execute("set enable_seqscan = off")
        for statement, values in sent:
            if statement.name in PLANNED_SO:  # of its transaction, which begins with it
                for setting in re.findall("enable_[a-z]+", statement.text):
                    connection.execute(f"set {setting} = off")
                continue
            if BOUNDED_OTHERWISE.fullmatch(statement.name):
                continue
            if not any(word in statement.text for word in ("select", "with")):
                continue
            explain = f"explain (analyze, buffers, format json) {statement.text}"
            ((found,),) = connection.execute(explain, values).fetchall()
            touched[statement.name] = _blocks(found[0]["Plan"])
            connection.execute("reset enable_bitmapscan; reset enable_sort")
    assert {name: blocks for name, blocks in touched.items() if blocks > MOST_BLOCKS} == {}
