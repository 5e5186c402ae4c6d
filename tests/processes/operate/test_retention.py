"""Processes that ended long ago are thinned."""

from __future__ import annotations

from datetime import timedelta

import pytest
from process_scene import Scene, call, value

from mainspring import Mainspring
from mainspring.errors import IdInUse, NotFound
from mainspring.processes.operate.retention import thin
from mainspring.processes.record.decision import Decision
from mainspring.testing import Clock, run_until_idle


def rows(scene: Scene) -> dict[str, int]:
    names = ("process", "task", "edge", "scope", "signal", "external", "wait")
    return {n: scene.query(f"select count(*) from mainspring.{n}")[0][0] for n in names}


async def thinned(scene: Scene, days: int = 30) -> int:
    connection = await scene.database.connect("test")
    try:
        return await thin(scene.database, connection, days=days)
    finally:
        await connection.close()


async def test_ended_processes_are_thinned_when_they_are_old(scene: Scene, clock: Clock) -> None:
    """P12: their graphs go; an id that a user chose stays taken; open ones stay as they are."""
    scene.actor(lambda h: Decision((call("a"), call("b", value(0))), returned=1), "order")
    scene.actor(lambda h: Decision((call("@signal", name="go", timeout=None),), returned=0), "open")
    for name in ("a", "b"):
        scene.actor(lambda h: 1, name)
    await scene.start("order")
    named = await scene.start("order", key="order-7")
    waiting = await scene.start("open")
    await scene.run()
    await clock.advance(timedelta(days=20))
    assert await thinned(scene) == 0

    await clock.advance(timedelta(days=11))
    assert await thinned(scene) == 2

    assert rows(scene) == {
        "process": 2, "task": 2, "edge": 0, "scope": 0, "signal": 0, "external": 1, "wait": 0,
    }  # fmt: skip
    assert scene.state(waiting) == "open"
    again = await scene.start_full("order", key="order-7")
    assert (again.id, again.is_new) == (named, False)
    with pytest.raises(IdInUse, match="with other arguments"):
        await scene.start("order", {"n": 2}, key="order-7")
    assert await thinned(scene) == 0


async def test_a_child_that_its_parent_was_not_told_of_is_kept(scene: Scene, clock: Clock) -> None:
    """P15: a worker that was off for long still brings the result."""
    child = call("@process", type="child", args={}, key=None)
    scene.actor(lambda h: Decision((child,), returned=0), "order")
    scene.actor(lambda h: 7, "child")
    await scene.start("order")
    await scene.run()
    scene.query(
        "insert into mainspring.external (task, process_id, kind, child)"
        " select parent_task, parent_process, 'child', id from mainspring.process"
        " where parent_task is not null"
    )
    await clock.advance(timedelta(days=40))

    assert await thinned(scene) == 1
    assert scene.query("select type from mainspring.process") == [("child",)]
    scene.query("delete from mainspring.external")
    assert await thinned(scene) == 1
    assert rows(scene)["process"] == 0


async def test_the_result_of_a_thinned_process_is_gone_and_says_so(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P12, bad input"""

    @app.process
    def order() -> int:
        return 1

    handle = await order.options(id="o").start()
    await run_until_idle(app)
    assert await handle.result(5) == 1
    await clock.advance(timedelta(days=40))
    database = await app.database()
    connection = await database.connect("test")
    try:
        assert await thin(database, connection, days=30) == 1
    finally:
        await connection.close()

    with pytest.raises(NotFound, match="its result was dropped by age"):
        await handle.result(5)
