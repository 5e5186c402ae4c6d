"""Every statement of a decision commit touches its own rows, whatever the statistics say.

So does every statement of a mass restart. They are walked on an engine's connection among many other
processes. Each statement is explained first and undone, then sent; what its plan has looked at must not
grow with the tables.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from process_scene import Scene, call, value
from walk import decided, settle

from mainspring.ids import new_id
from mainspring.kernel.settle.batches import settle_arguments
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.visit import Run
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.task_input import read_values
from mainspring.processes.record.decision import ChildTask, Decision
from mainspring.processes.statements import SQL
from mainspring.processes.structural.parked import ParkedTask, unpark_steps

OTHERS = 5_000
TABLES = ("process", "task_other", "edge_other", "wait", "visit", "parked_task")
# Rows that one statement may look at for each decision of the batch, those thrown away included.
ROWS_A_DECISION = 40
# Other processes that are under way: three tasks each, one of which waits for the other two.
FILL = """
with one as (
  select mainspring.uuid7() as process_id, mainspring.uuid7() as a, mainspring.uuid7() as b,
    mainspring.uuid7() as c, n
  from generate_series(1, %(others)s) n
),
processes as (
  insert into mainspring.process (id, type, key, root, start)
  select process_id, 'other', 'k' || n, c, '{}' from one
),
tasks as (
  insert into mainspring.task (process_id, id, promise, actor, args, edges, waits)
  select process_id, x.id, x.id, 'work', '{}', x.edges, x.edges
  from one, lateral (values (a, 0), (b, 0), (c, 2)) as x(id, edges)
),
edges as (
  insert into mainspring.edge (process_id, promise, task, kind, pos)
  select process_id, x.promise, c, 'value', x.pos
  from one, lateral (values (a, 0), (b, 1)) as x(promise, pos)
),
waits as (
  insert into mainspring.wait (task, process_id, n) select c, process_id, 2 from one
)
insert into mainspring.visit (shard, key, queue, id, version, payload)
select n %% 1024, x.id::text, 'work', x.id, n, jsonb_build_object('@', process_id)
from one, lateral (values (a), (b)) as x(id)
"""
# The first task of each of them is parked.
PARK = """
with parked as (
  update mainspring.visit v set parked_at = mainspring.now()
  from mainspring.task t
  where t.id = v.id and t.waits = 0 and v.version > 0 and t.id < (
    select o.id from mainspring.task o
    where o.process_id = t.process_id and o.waits = 0 and o.id <> t.id)
  returning t.process_id, t.id
),
states as (
  update mainspring.task t set state = 'parked'
  from parked p
  where t.process_id = p.process_id and t.id = p.id
)
insert into mainspring.parked_task (task, process_id, type, actor, fingerprint)
select id, process_id, 'other', 'work', 'f' from parked
"""


def looked_at(node: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The rows of our tables that each scan of a plan has looked at."""
    if node.get("Relation Name") in TABLES and "Scan" in node["Node Type"]:
        dropped = node.get("Rows Removed by Filter", 0)
        dropped += node.get("Rows Removed by Index Recheck", 0)
        name = f"{node['Node Type']} on {node['Relation Name']}"
        yield name, (node["Actual Rows"] + dropped) * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from looked_at(child)


class Explaining:
    """Sends statements on a connection, and looks at the plan of each."""

    def __init__(self, connection: Any, decisions: int) -> None:
        self.connection = connection
        self.most = ROWS_A_DECISION * decisions
        self.names: list[str] = []

    async def send(self, statement: Any, values: dict[str, Any]) -> list[Any]:
        arguments = statement.arguments(values)
        attempt = self.connection.transaction()
        await attempt.start()
        text = f"explain (analyze, format json) {statement.numbered}"
        plan = json.loads(await self.connection.fetchval(text, *arguments))
        await attempt.rollback()
        for scan, rows in looked_at(plan[0]["Plan"]):
            assert rows <= self.most, f"{statement.name} looks at {rows:g} rows: {scan}"
        self.names.append(statement.name)
        return list(await self.connection.fetch(statement.numbered, *arguments))

    async def walk(self, steps: Generator[Any, list[Any], Any]) -> Any:
        """Send every step; answers what they come to."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self.send(*step))
        except StopIteration as end:
            return end.value

    async def commit(self, scene: Scene, runs: list[Run]) -> None:
        """A batch of decisions and the settle of their runs, rolled back at the end."""
        transaction = self.connection.transaction()
        await transaction.start()
        commit = Commit([run.change for run in runs], scene.database.shard_count, runs=runs)
        await self.walk(commit.steps())
        assert commit.verdicts == [None] * len(runs)
        settling = KERNEL_SQL["settle"]
        arguments = settle_arguments(runs, new_id())
        await self.send(settling, dict(zip(settling.names, arguments, strict=True)))
        await transaction.rollback()


@pytest.fixture(params=["as empty", "fresh"])
async def crowd(scene: Scene, request: pytest.FixtureRequest) -> None:
    """Many processes, with statistics of empty tables, as they are at first, and with fresh ones."""
    names = (
        "mainspring.process, mainspring.task, mainspring.edge, mainspring.wait, mainspring.visit"
    )
    names += ", mainspring.parked_task"
    if request.param == "as empty":
        scene.query(f"analyze {names}")
    scene.query(FILL.replace("%(others)s", str(OTHERS)))
    if request.param == "fresh":
        scene.query(f"analyze {names}")


@pytest.fixture(params=["generic", "custom"])
async def engine(scene: Scene, request: pytest.FixtureRequest) -> Any:
    """A connection as the settler has; prepared statements get a generic plan sooner or later."""
    connection = await scene.database.connect("plans")
    await connection.execute(f"set plan_cache_mode = force_{request.param}_plan")
    yield connection
    await connection.close()


async def started(scene: Scene, count: int) -> list[tuple[str, str]]:
    ids = [await scene.start("order") for _ in range(count)]
    rows = scene.query(
        "select process_id::text, id::text from mainspring.task where process_id = any(%s)", ids
    )
    return [(process, root) for process, root in rows]


@pytest.mark.usefixtures("crowd")
async def test_a_decision_that_makes_tasks_touches_its_own_rows(scene: Scene, engine: Any) -> None:
    """P15: no statement of a commit grows with the number of processes."""
    decision = Decision((call("a"), call("b"), call("c", value(0), value(1))), returned=2)
    roots = [root for _, root in await started(scene, 5)]
    explaining = Explaining(engine, len(roots))

    await explaining.commit(scene, [decided(scene, root, decision) for root in roots])

    assert {"lock_processes", "lock_visits", "lock_tasks", "insert_tasks", "add_visits"} <= set(
        explaining.names
    )


@pytest.mark.usefixtures("crowd")
async def test_a_result_that_ends_its_process_touches_its_own_rows(
    scene: Scene, engine: Any
) -> None:
    """P15: neither does the end of a process."""
    roots = [root for _, root in await started(scene, 5)]
    explaining = Explaining(engine, len(roots))

    await explaining.commit(scene, [decided(scene, r, Decision(result="1")) for r in roots])

    assert {"end_tasks", "find_released", "finish_processes", "delete_visits", "settle"} <= set(
        explaining.names
    )


@pytest.mark.usefixtures("crowd")
async def test_a_result_in_a_wide_process_touches_its_own_edges(scene: Scene, engine: Any) -> None:
    """P15: a step of a fan-out of a thousand looks at its edges, not at all of the graph."""
    [(process, root)] = await started(scene, 1)
    width = 1_000
    wide = Decision(
        (
            *(ChildTask("part") for _ in range(width)),
            call("join", *(value(n) for n in range(width))),
        ),
        returned=width,
    )
    settle(scene, root, wide)
    rows = scene.query(
        "select id::text from mainspring.task where process_id = %s and actor = 'part' limit 5",
        process,
    )
    explaining = Explaining(engine, len(rows))

    await explaining.commit(scene, [decided(scene, id, Decision(result="1")) for (id,) in rows])

    assert {"find_released", "count_down"} <= set(explaining.names)


@pytest.mark.usefixtures("crowd")
async def test_what_tasks_are_handed_out_with_is_read_by_their_keys(
    scene: Scene, engine: Any
) -> None:
    """P15: so is the page of tasks that are handed out."""
    wanted = await started(scene, 5)
    explaining = Explaining(engine, len(wanted))

    assert len(await explaining.send(SQL["read_tasks"], read_values(wanted))) == len(wanted)


@pytest.mark.usefixtures("crowd")
async def test_the_last_result_of_a_fan_in_touches_its_own_edges(scene: Scene, engine: Any) -> None:
    """P15: and what waited for all of them is handed out by its own edges."""
    [(process, root)] = await started(scene, 1)
    width = 30
    parts = (*(ChildTask("part") for _ in range(width)),)
    settle(
        scene,
        root,
        Decision((*parts, call("join", *(value(n) for n in range(width)))), returned=width),
    )
    rows = scene.query(
        "select id::text from mainspring.task where process_id = %s and actor = 'part'", process
    )
    *others, last = (id for (id,) in rows)
    for id in others:
        settle(scene, id, Decision(result="1"))
    explaining = Explaining(engine, 1)

    await explaining.commit(scene, [decided(scene, last, Decision(result="1"))])
    join = scene.query(
        "select id::text from mainspring.task where process_id = %s and actor = 'join'", process
    )
    await explaining.send(SQL["read_tasks"], read_values([(process, join[0][0])]))

    assert {"find_released", "count_down", "add_visits", "read_tasks"} <= set(explaining.names)


@pytest.mark.usefixtures("crowd")
async def test_a_page_of_a_mass_restart_touches_its_own_rows(scene: Scene, engine: Any) -> None:
    """P10: wherever in the mass it lies."""
    scene.query(PARK)
    rows = scene.query(
        "select process_id::text, task::text, actor from mainspring.parked_task "
        "order by task offset 4000 limit 20"
    )
    page = [ParkedTask(*row) for row in rows]
    explaining = Explaining(engine, 1)

    going = await explaining.walk(unpark_steps(page, priority=3))

    assert going == {item.task for item in page}
    assert {"lock_processes", "restart_parked", "reopen_parked", "unpark_tasks"} <= set(
        explaining.names
    )
