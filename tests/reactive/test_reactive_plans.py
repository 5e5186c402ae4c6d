"""The hot statements ride their indexes: the cost of an advance depends on the affected tasks only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.db.connect import Database
from mainspring.reactive.store import SQL
from mainspring.testing import TestServer

FILL = """
insert into mainspring.param (name, kind, num) select 'd.p' || n, 'integer', 0
  from generate_series(1, {params}) n;
insert into mainspring.definition (fingerprint, format, tree, options) values ('f', 1, '{{}}', '{{}}');
insert into mainspring.reactive_task (task, pool, release, fingerprint, declared, turn, seen)
  select 'task' || n, 'default', 1, 'f', 'd', n, '{{}}' from generate_series(1, {tasks}) n;
insert into mainspring.uses (param, task)
  select 'd.p' || (n % {params} + 1), 'task' || n from generate_series(1, {tasks}) n;
analyze;
"""


def fill(url: str, tasks: int) -> Any:
    connection = Database(url).connect_sync("test")
    connection.execute(FILL.format(tasks=tasks, params=tasks // 2))
    return connection


@pytest.fixture(scope="module")
def large(mainspring_server: TestServer) -> Iterator[Any]:
    with mainspring_server.database() as url, fill(url, 10_000) as connection:
        yield connection


@pytest.fixture(scope="module")
def small(mainspring_server: TestServer) -> Iterator[Any]:
    with mainspring_server.database() as url, fill(url, 100) as connection:
        yield connection


def plan_of(connection: Any, name: str, values: dict[str, Any]) -> dict[str, Any]:
    with connection.transaction(force_rollback=True):
        text = f"explain (analyze, buffers, format json) {SQL[name.split()[0]].text}"
        found = connection.execute(text, values).fetchone()[0]
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


CASES: dict[str, dict[str, Any]] = {
    "advance": {
        "names": ["d.p7"],
        "kinds": ["integer"],
        "given": ["1"],
        "only_greater": False,
        "changed_by": None,
        "why": None,
    },
    "spread": {"params": ["d.p7"], "after": "", "most": 1000, "token": 1},
    "read_checks": {"tasks": ["task6"], "params": [], "most": None},
    "read_checks of a change": {"tasks": [], "params": ["d.p7"], "most": 501},
    "start_runs": {
        "tasks": ["task6"],
        "firings": [1],
        "runs": [1],
        "needs": ["[]"],
        "release": 1,
    },
    "lock_firings": {"tasks": ["task6"], "firings": [1], "runs": [1]},
}


@pytest.mark.parametrize("name", CASES)
def test_an_advance_costs_the_same_whatever_the_number_of_tasks(
    small: Any, large: Any, name: str
) -> None:
    """R7: 10,000 against 100 tasks: the same statements, at most 20 % more buffers."""
    few, many = (plan_of(connection, name, CASES[name]) for connection in (small, large))

    def touched(plan: dict[str, Any]) -> int:
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    scanned = {
        node["Relation Name"]
        for node in walk(many)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] != "install"
    }
    assert scanned == set()
    assert touched(many) <= 1.2 * touched(few) + 12  # an index may be one level deeper
