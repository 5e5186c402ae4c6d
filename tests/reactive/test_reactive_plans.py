"""The hot statements ride their indexes: the cost of an advance depends on the affected tasks only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring.db.database import Database
from mainspring.reactive.statements import SQL
from mainspring.testing import TestServer

FILL = """
insert into mainspring.param (name, kind, num) select 'd.p' || n, 'integer', 0
  from generate_series(1, {params}) n;
insert into mainspring.param (name, kind, num) select 'made.p' || n, 'integer', 0
  from generate_series(1, {tasks}) n;
insert into mainspring.definition (fingerprint, format, tree, options) values ('f', 1, '{{}}', '{{}}');
insert into mainspring.reactive_task (task, pool, release, fingerprint, declared, turn, seen)
  select 'task' || n, 'default', 1, 'f', 'd', n, '{{}}' from generate_series(1, {tasks}) n;
insert into mainspring.uses (param, task)
  select 'd.p' || (n % {params} + 1), 'task' || n from generate_series(1, {tasks}) n;
insert into mainspring.produces (param, task)
  select 'made.p' || n, 'task' || n from generate_series(1, {tasks}) n;
"""
FIRED = """
update mainspring.reactive_task
set firing = 1, captured = '{"d.p7": [0, 0]}', admitted_at = now(), kind = 'regular', record = true
where task = 'task6'
"""
STARTED = "update mainspring.reactive_task set run = 1, started_at = now() where task = 'task6'"


def fill(url: str, tasks: int) -> Any:
    connection = Database(url).connect_sync("test")
    connection.autocommit = True
    connection.execute(FILL.format(tasks=tasks, params=tasks // 2))
    connection.execute("vacuum (analyze)")
    return connection


@pytest.fixture(scope="module")
def large(mainspring_server: TestServer) -> Iterator[Any]:
    with mainspring_server.database() as url, fill(url, 10_000) as connection:
        yield connection


@pytest.fixture(scope="module")
def small(mainspring_server: TestServer) -> Iterator[Any]:
    with mainspring_server.database() as url, fill(url, 100) as connection:
        yield connection


@dataclass(frozen=True)
class Case:
    """A statement of the path of an advance, with what comes before it."""

    statement: str
    values: dict[str, Any]
    before: tuple[str, ...] = ()
    by_address: bool = False  # it finds the task's row by the address that was read


CASES = {
    "advance": Case(
        "advance",
        {
            "names": ["d.p7"],
            "kinds": ["integer"],
            "given": ["1"],
            "only_greater": False,
            "changed_by": None,
            "why": None,
        },
    ),
    "the consumers of a change": Case(
        "read_checks", {"tasks": [], "params": ["d.p7"], "most": 501}
    ),
    "a check": Case("read_checks", {"tasks": ["task6"], "params": [], "most": None}),
    "a spread": Case("spread", {"params": ["d.p7"], "after": "", "most": 1000, "token": 1}),
    "a firing": Case(
        "write_checks",
        {
            "tasks": ["task6"],
            "turns": [6],
            "fires": [True],
            "firings": [1],
            "new_turns": [2],
            "kinds": ["regular"],
            "records": [True],
            "captured": ['{"d.p7": [0, 0]}'],
            "verdicts": [True],
            "leaves": ["[]"],
            "causes": ["it is time"],
            "noted": [True],
            "ids": ["00000000-0000-0000-0000-000000000001"],
            "token": 1,
        },
        by_address=True,
    ),
    "a start": Case(
        "start_runs",
        {"tasks": ["task6"], "firings": [1], "runs": [1], "needs": ["[]"], "release": 1},
        before=(FIRED,),
    ),
    "the lock of a product": Case("lock_products", {"names": ["made.p6"]}),
    "the lock of an end": Case(
        "lock_firings",
        {"tasks": ["task6"], "firings": [1], "runs": [1]},
        before=(FIRED, STARTED),
    ),
    "an end": Case(
        "end_runs",
        {
            "tasks": ["task6"],
            "succeeded": [True],
            "failed": [False],
            "void": [False],
            "backoffs": [1.0],
            "errors": [None],
            "turns": [2],
        },
        before=(FIRED, STARTED),
        by_address=True,
    ),
}


def plan_of(connection: Any, case: Case) -> dict[str, Any]:
    """The cheapest of three: at first the server reads its catalogue too, later it may tidy a page."""
    return min((explained(connection, case) for _ in range(3)), key=touched)


def explained(connection: Any, case: Case) -> dict[str, Any]:
    with connection.transaction(force_rollback=True):
        for statement in case.before:
            connection.execute(statement)
        values = dict(case.values)
        if case.by_address:
            look = "select ctid::text from mainspring.reactive_task where task = 'task6'"
            values["addresses"] = [connection.execute(look).fetchone()[0]]
        text = f"explain (analyze, buffers, format json) {SQL[case.statement].text}"
        found = connection.execute(text, values).fetchone()[0]
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def touched(plan: dict[str, Any]) -> int:
    # What nobody reads from runs after the plan, and is not counted in it.
    unread = [part for part in plan.get("Plans", ()) if part.get("Subplan Name") == "CTE story"]
    return sum(part["Shared Hit Blocks"] + part["Shared Read Blocks"] for part in (plan, *unread))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_advance_costs_the_same_whatever_the_number_of_tasks(
    small: Any, large: Any, case: Case
) -> None:
    """R7: 10,000 against 100 tasks: the same statements, at most 20 % more buffers."""
    few, many = (plan_of(connection, case) for connection in (small, large))

    scanned = {
        node["Relation Name"]
        for node in walk(many)
        if node["Node Type"] == "Seq Scan"
        and node["Relation Name"] not in ("install", "reactive_pool", "worker", "queue")
    }
    assert scanned == set()
    assert touched(few) > 0
    assert touched(many) <= 1.2 * touched(few)
