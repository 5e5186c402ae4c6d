"""Instances that are added while others run: a map whose items come one by one."""

from __future__ import annotations

from typing import Any

import pytest
from breaking import break_at, run_on
from deciders import application, record
from process_scene import Scene, call, handle

from mainspring import (
    Context,
    Mainspring,
    MainspringError,
    Promise,
    RetryPolicy,
    for_each,
)
from mainspring.processes.record.decision import Decision
from mainspring.processes.structural.request import ProcessRestart, request_restart
from mainspring.testing import run_until_idle


async def test_items_are_taken_as_they_come_and_those_before_the_end_all(app: Mainspring) -> None:
    """P15: while others run; what was sent before the end is taken, what comes after is not."""
    added, closed = app.signal("added", int), app.signal("closed", bool)

    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.process
    def order() -> Promise[list[int]]:
        return for_each(added, lambda n: double(n), until=closed.wait())

    async with app:
        handle = await order.start()
        await handle.signal(added, 1)
        await run_until_idle(app)
        view = await app.operator.processes.graph(handle.id)
        assert [t.status for t in view.tasks if t.actor == "double"] == ["done"]
        for n in (2, 3, 4):
            await handle.signal(added, n)
        await handle.signal(closed, True)
        await run_until_idle(app)

        assert sorted(await handle.result()) == [2, 4, 6, 8]
        assert (await handle.result())[0] == 2
        assert await handle.status() == "finished"


async def test_no_item_at_all_is_an_empty_list(app: Mainspring) -> None:
    added, closed = app.signal("added", int), app.signal("closed", bool)

    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.process
    def order() -> Promise[list[int]]:
        return for_each(added, lambda n: double(n), until=closed.wait())

    async with app:
        handle = await order.start()
        await handle.signal(closed, True)
        await run_until_idle(app)
        assert (await handle.result(), await handle.status()) == ([], "finished")


async def test_a_running_step_adds_items_each_once(app: Mainspring) -> None:
    """P15, T6: a step that is tried again sends the same signals again, which are the same."""
    found = app.signal("found", str)
    tries: list[int] = []

    @app.task(retry=RetryPolicy(attempts=3, first=0))
    async def crawl(ctx: Context, pages: list[str]) -> int:
        me = app.process_handle("site", ctx.process)
        for page in pages:
            await me.signal(found, page, id=f"{ctx.idempotency_key} {page}")
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("once")
        return len(pages)

    @app.task
    def scan(page: str) -> str:
        return page.upper()

    @app.process
    def site(pages: list[str]) -> Promise[list[str]]:
        return for_each(found, lambda page: scan(page), until=crawl(pages))

    async with app:
        handle = await site.start(["a", "b", "c"])
        await run_until_idle(app)
        assert sorted(await handle.result()) == ["A", "B", "C"]


@pytest.mark.parametrize("at", ["insert_tasks", "take_signals", "insert_externals"])
async def test_a_connection_that_breaks_takes_each_item_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """P7: at each statement that writes, while an item comes."""
    process = await looping(scene)
    broken = break_at(monkeypatch, scene, at, after=at)

    for n in (1, 2):
        await scene.signal(process, "added", n)
        await run_on(scene)
    await scene.signal(process, "closed", True)
    await run_on(scene)
    await run_on(scene)

    assert (broken, scene.result(process)) == ([at], [2, 4])


async def test_a_restart_takes_the_items_again(scene: Scene) -> None:
    """P12: in the order in which they were sent; fresh signals would wait for new ones."""
    process = await looping(scene)
    for n in (1, 2):
        await scene.signal(process, "added", n)
    await scene.signal(process, "closed", True)
    await scene.run()
    assert sorted(scene.result(process)) == [2, 4]

    await scene.request(request_restart(process, ProcessRestart()))
    await scene.run()

    assert (scene.state(process), sorted(scene.result(process))) == ("finished", [2, 4])


async def looping(scene: Scene) -> str:
    block: Any = {
        "children": [{"actor": "double", "args": {}, "edges": [{"promise": "1", "kind": "value"}]}],
        "returned": 0,
    }
    loop = call("@each", handle(0), block=block, held=1, signal="added")
    scene.actor(lambda h: Decision((call("@signal", name="closed"), loop), returned=1), "order")
    scene.actor(lambda h: 2 * int(h.inputs[0].result), "double")
    process = await scene.start("order")
    await scene.run()
    return process


def test_a_body_that_comes_to_nothing_is_refused() -> None:
    app = application()
    added = app.signal("added", int)

    with pytest.raises(MainspringError, match="returns the promise of a call that it makes"):
        record(lambda: for_each(added, lambda n: None, until=added.wait()))  # type: ignore[arg-type,return-value]
