"""The writer of decisions: plain successes are settled where others are only locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from process_scene import Scene, call, handle, value
from walk import decided

from mainspring.db.sql import CopyStep, Record, Statement, Values
from mainspring.db.tx import Tx
from mainspring.kernel.outcome import Done
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.visit import Run
from mainspring.processes.commit.batch import NotSettled
from mainspring.processes.commit.commit import Commit, Decisions, settle_steps
from mainspring.processes.record.decision import Decision
from mainspring.processes.statements import SQL

NAMES = {statement.numbered: name for name, statement in {**KERNEL_SQL, **SQL}.items()}


class Noting(Tx):
    """A connection that notes the names of the statements sent on it."""

    def __init__(self, real: Tx) -> None:
        self.real = real
        self.names: list[str] = []

    async def send(self, statement: Statement, values: Values) -> Sequence[Record]:
        self.names.append(statement.name)
        return await self.real.send(statement, values)

    async def copy(self, step: CopyStep) -> None:
        await self.real.copy(step)


@pytest.fixture
async def engine(scene: Scene) -> Any:
    connection = await scene.database.connect("decisions")
    yield connection
    await connection.close()


ME = uuid4()


class Serving(WorkerPort):
    """A worker's port that serves whatever is asked for."""

    @property
    def worker_id(self) -> UUID:
        return ME

    def serves(self, queue: str, shard: int) -> bool:
        return True


def writer(scene: Scene) -> Decisions:
    def committed(commit: Commit) -> None: ...

    shard_count = scene.database.shard_count
    return Decisions(shard_count, 250, committed, Serving())


async def runs(scene: Scene, *decisions: Decision) -> list[Run]:
    """A run of the root of a new process for each decision."""
    found = []
    for decision in decisions:
        process = await scene.start("order")
        [(root,)] = scene.query("select root::text from mainspring.process where id = %s", process)
        found.append(decided(scene, root, decision))
    return sorted(found, key=lambda run: (run.visit.shard, run.visit.key))


async def test_plain_successes_are_settled_where_others_are_locked(
    scene: Scene, engine: Any
) -> None:
    """P1: the settle is the referee, before anything of the decision is written."""
    batch = await runs(scene, Decision(result="1"), Decision((call("next"),), returned=0))
    connection = Noting(engine)

    async with engine.transaction():
        verdicts = await writer(scene).write(connection, batch)

    assert verdicts == ["settled", "settled"]
    assert connection.names == [
        "lock_processes",
        "settle",
        "insert_tasks",
        "end_tasks",
        "find_released",
        "add_visits",
        "finish_processes",
        "delete_visits",
    ]
    assert scene.query(
        "select queue from mainspring.visit where queue <> 'mainspring.process'"
    ) == [("next",)]


async def test_a_plain_success_that_links_to_a_promise_locks_it_first(
    scene: Scene, engine: Any
) -> None:
    """P1: whether a promise is open is read under its lock."""
    [root] = await runs(scene, Decision((call("p"), call("d", handle(0))), returned=1))
    async with engine.transaction():
        await writer(scene).write(engine, [root])
    [(p,), (d,)] = scene.query(
        "select id::text from mainspring.task where actor in ('p', 'd') order by actor desc"
    )
    run = decided(scene, d, Decision((call("c", value(p)),), returned=0))
    connection = Noting(engine)

    async with engine.transaction():
        verdicts = await writer(scene).write(connection, [run])

    assert verdicts == ["settled"]
    assert connection.names[:4] == ["lock_processes", "settle", "lock_tasks", "insert_tasks"]


async def test_a_plain_success_whose_row_has_ended_is_found_in_the_next_try(
    scene: Scene, engine: Any
) -> None:
    """P13: the end checks the state that it changes; a visit that was left over just ends."""
    batch = await runs(scene, Decision(result="1"), Decision(result="2"))
    left, good = batch
    scene.query("update mainspring.task set state = 'cancelled' where id = %s", left.visit.key)
    decisions = writer(scene)

    with pytest.raises(NotSettled):
        async with engine.transaction():
            await decisions.write(engine, batch)
    async with engine.transaction():
        verdicts = await decisions.write(engine, batch)
        await engine.follow(settle_steps(good, Done(), ME))

    assert verdicts == [None, None]  # both are to be settled, one of them has written nothing
    scene.query("update mainspring.task set state = 'open' where id = %s", left.visit.key)
    done = scene.query("select id::text from mainspring.task where state = 'done'")
    assert done == [(good.visit.key,)]


async def test_one_that_no_longer_counts_is_found_in_the_next_try(
    scene: Scene, engine: Any
) -> None:
    """P13: all is rolled back, then each is looked at: one is dropped, the other stands."""
    batch = await runs(scene, Decision(result="1"), Decision(result="2"))
    gone, good = batch
    scene.query(
        "update mainspring.visit set id = mainspring.uuid7(), version = 1 where key = %s",
        gone.visit.key,
    )
    decisions = writer(scene)

    with pytest.raises(NotSettled):
        async with engine.transaction():
            await decisions.write(engine, batch)
    async with engine.transaction():
        verdicts = await decisions.write(engine, batch)
        await engine.follow(settle_steps(good, Done(), ME))  # as the settler does

    assert verdicts == ["gone", None]
    done = scene.query("select id::text from mainspring.task where state = 'done'")
    assert done == [(good.visit.key,)]


async def test_what_a_commit_hands_over_is_noted_as_reach(scene: Scene, engine: Any) -> None:
    """T1: if the worker dies of the next step at once, that step is among the suspects."""
    [run] = await runs(scene, Decision((call("next"),), returned=0))

    async with engine.transaction():
        await writer(scene).write(engine, [run])

    assert scene.query(
        "select r.worker_id, r.due_at = v.due_at from mainspring.reach r join mainspring.visit v"
        " on v.queue = r.queue and v.priority = r.priority where r.queue = 'next'"
    ) == [(ME, True)]
