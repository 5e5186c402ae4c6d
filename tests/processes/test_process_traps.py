"""Traps of the protocol that are not met elsewhere; see docs/design/processes.md for the list."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
from process_scene import Scene, call, given, outcome, value
from walk import Walk, decided, settle, take

from mainspring.db.shared import SharedConnections
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.processes.commit.change import NewTask, TaskChange
from mainspring.processes.commit.commit import WIDE, WIDEST
from mainspring.processes.commit.visits import engine_visit, insert_values
from mainspring.processes.record.decision import Decision, Undo
from mainspring.processes.record.decision import Scope as NewScope
from mainspring.processes.runtime import Processes
from mainspring.processes.statements import SQL
from mainspring.processes.structural.cone import TaskGraph, TaskNode
from mainspring.processes.structural.prune import prunable
from mainspring.processes.structural.request import ProcessRestart, request_cancel, request_restart
from mainspring.testing import Clock


async def why_refused(scene: Scene, process: str, task: str) -> str:
    await scene.request(request_restart(process, ProcessRestart(task)))
    await scene.run()
    rows = scene.query(
        "select result ->> 'why' from mainspring.history where key like 'restart/%%' order by ended_at"
    )
    return str(rows[-1][0])


async def test_a_cancel_waits_for_a_decision_in_flight_and_takes_its_child_along(
    scene: Scene,
) -> None:
    """Trap: computed while a decision is in flight, a cancel misses its child, which runs."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    decision = Decision((call("child"),), returned=0)
    flying = Walk(scene, [decided(scene, root, decision)]).after("insert_tasks")

    await scene.request(request_cancel(process))
    async with scene.worker() as worker, asyncio.timeout(20):
        await scene.waits_for_a_lock()
        flying.finish()
        await worker.drained()

    assert scene.state(process) == "cancelled"
    assert scene.tasks(process) == {"order": ["done"], "child": ["cancelled"]}
    assert scene.query("select 1 from mainspring.visit where queue = 'child'") == []


async def test_a_result_from_before_a_restart_is_refused(scene: Scene) -> None:
    """Trap: without a new token the old run's decision would count in the new generation."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    old = decided(scene, root, Decision(result='"old"'))
    await scene.request(request_restart(process, ProcessRestart()))
    await scene.run()

    late = Walk(scene, [old])
    late.finish()

    assert late.commit.verdicts == ["gone"]
    assert scene.result(process) == "open"


async def test_a_restart_in_a_scope_that_was_undone_is_refused(scene: Scene) -> None:
    """P12, trap: kept results whose effects are undone."""

    def broken(h: Any) -> None:
        raise ValueError("no")

    leave = msgspec.structs.replace(call("@leave", value(0), value(1), of=[0]), scope=0)
    undo = Undo("undo", json.dumps({}))
    children = (
        msgspec.structs.replace(call("book"), scope=0, undo=undo),
        msgspec.structs.replace(call("broken", value(0)), scope=0),
        leave,
        call("last", outcome(2)),
    )
    scope = NewScope(result=2, on_error=None, timeout=None)
    scene.actor(lambda h: Decision(children, (scope,), returned=3), "order")
    scene.actor(broken)
    for name in ("book", "undo", "last"):
        scene.actor(lambda h: 1, name)
    process = await scene.start("order")
    await scene.run()
    assert scene.state(process) == "finished"
    ids = scene.ids(process)

    why = await why_refused(scene, process, ids["book"])

    assert why == (
        f"task {ids['book']} lies in a scope that has failed and was undone: restart from the task "
        f"that opened it, {ids['order']}"
    )


async def test_a_restart_from_before_the_horizon_is_refused(scene: Scene) -> None:
    """P12, trap: what followed the task was pruned, so its cone would end early."""
    scene.actor(lambda h: Decision((call("a"), call("b", value(0))), returned=1), "order")
    scene.actor(lambda h: 1, "a")
    scene.actor(given, "b")
    process = await scene.start("order")
    await scene.run()
    task = scene.ids(process)["a"]
    scene.query(
        "update mainspring.process set horizon = (select max(done_no) from mainspring.task)"
    )

    why = await why_refused(scene, process, task)

    assert why == f"what followed task {task} was pruned: restart from a later task"


def test_a_loop_is_pruned_in_the_order_of_ends() -> None:
    """Trap: a task made early that waited long is downstream of one made later: it stays longer."""
    ended = {"early": 9, "t": 1, "u": 2, "v": 3}
    tasks = [TaskNode(id, None, id, "actor", "done", "ok", done_no=no) for id, no in ended.items()]
    root = TaskNode("root", None, "root", "actor", "open", None)

    leaving, horizon = prunable(TaskGraph([*tasks, root], []), "root", {}, keep=1)

    assert (leaving, horizon) == (["t", "u", "v"], 3)


async def test_a_signal_in_an_open_transaction_holds_nothing_of_its_process_up(
    scene: Scene,
) -> None:
    """Trap: a sender that offered a visit of the process would keep all its decisions waiting."""
    wait = call("@signal", name="go", timeout=None)
    scene.actor(
        lambda h: Decision((wait, call("side"), call("last", value(0), value(1))), returned=2),
        "order",
    )
    scene.actor(lambda h: 1, "side")
    scene.actor(given, "last")
    process = await scene.start("order")
    visit = engine_visit("signal", process, "s", id=process, engine="mainspring.process")
    values = {"process_id": process, "name": "go", "id": "s", "payload": "7", "sent_by": ""}
    with psycopg.connect(scene.url) as sender:
        sender.execute(SQL["insert_signal"].text, values)
        shards = scene.database.shard_count
        sender.execute(KERNEL_SQL["insert_new"].text, insert_values([visit], shards))
        await scene.run()
        assert scene.tasks(process)["side"] == ["done"]
        sender.commit()
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", [7, 1])


async def test_a_timer_that_its_signal_has_overtaken_just_ends(scene: Scene, clock: Clock) -> None:
    """Trap: handlers do not delete each other's visits; what is left over finds nothing to do."""
    wait = call("@signal", name="go", timeout=3600)
    side = (call("@sleep", seconds=90_000), call("side", value(1)))
    scene.actor(lambda h: Decision((wait, *side), returned=0), "order")
    scene.actor(lambda h: 1, "side")
    process = await scene.start("order")
    await scene.run()
    await scene.signal(process, "go", 7)
    await scene.run()

    await clock.advance(timedelta(hours=2))
    await scene.run()

    assert (scene.result(process), scene.state(process)) == (7, "open")
    await clock.advance(timedelta(hours=24))
    await scene.run()
    assert (scene.result(process), scene.state(process)) == (7, "finished")


async def test_a_mark_does_not_stop_the_other_branches(scene: Scene) -> None:
    """P7, trap: inconsistent is a mark beside the state, not a state that decisions check."""
    scene.actor(lambda h: Decision((call("a"), call("b", value(0))), returned=1), "order")
    scene.actor(lambda h: 1, "a")
    scene.actor(given, "b")
    process = await scene.start("order")
    scene.query("update mainspring.process set inconsistent_at = now(), inconsistent = 'a test'")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", [1])


async def test_ends_are_numbered_without_a_cache(scene: Scene) -> None:
    """Trap: numbers that a session keeps ahead would break the order of causes."""
    assert scene.query("select cache_size from pg_sequences where sequencename = 'done_no'") == [
        (1,)
    ]


async def test_a_wide_decision_is_committed_alone(scene: Scene) -> None:
    """Trap: the others of its batch would wait for ten thousand inserts."""
    layer = Processes(scene.database, WorkerPort(SharedConnections(scene.database, 1)))
    task = NewTask("c", "p", "t", 0, "c", "actor", "{}")
    await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    run = take(scene, root)

    def together(width: int) -> int:
        noted = layer._writers.settles(run, TaskChange("p", "t", "done", tasks=[task] * width))
        return noted.writer.most  # type: ignore[union-attr]

    assert (together(WIDEST + 1), together(WIDE + 1), together(1)) == (1, 4, 250)


async def test_a_branch_that_ends_after_the_root_finishes_the_process(scene: Scene) -> None:
    """P7: every end after the root's looks whether it was the last."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    settle(scene, root, Decision((call("one"), call("two")), result="1"))
    ids = scene.ids(process)
    settle(scene, ids["one"], Decision(result="1"))
    assert scene.state(process) == "open"

    settle(scene, ids["two"], Decision(result="1"))

    assert scene.state(process) == "finished"
