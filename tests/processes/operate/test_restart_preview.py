"""What a restart would redo is said before it is ordered, and it is what the restart then does."""

from __future__ import annotations

import psycopg
import pytest

from mainspring import Mainspring, Promise
from mainspring.errors import NotFound
from mainspring.processes.operate.graph import find_task
from mainspring.testing import run_until_idle

STORY = "select id, state, generation, outcome, changed_at from mainspring.task order by id"


@pytest.fixture
async def order(app: Mainspring) -> str:
    """A process of two branches, one with a decider in its middle, that has ended."""

    @app.task
    def price(what: str) -> int:
        return len(what)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def pack(what: str) -> str:
        return f"box of {what}"

    @app.process
    def both(a: int) -> Promise[int]:
        return add(a, price("bow"))

    @app.process
    def gift(what: str) -> Promise[int]:
        pack(what)
        return both(price(what))

    handle = await gift.options(id="g-1").start("pen")
    await run_until_idle(app)
    assert await handle.result(timeout=10) == 6
    return handle.id


@pytest.mark.parametrize("start", [None, "both", "pack"])
async def test_what_is_said_is_what_is_done(
    app: Mainspring, mainspring_url: str, order: str, start: str | None
) -> None:
    """P12: a restart from a task redoes what that task created and what depends on it; preview first."""
    processes = app.operator.processes
    before = await processes.graph(order)
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        story = connection.execute(STORY).fetchall()
        plan = await processes.preview_restart("g-1", start)
        assert connection.execute(STORY).fetchall() == story
    assert await app.operator.orders() == []
    assert plan.why == ""
    expected = {
        None: (["gift"], ["add", "both", "pack", "price", "price"]),
        "both": (["both"], ["add", "price"]),
        "pack": (["pack"], []),
    }[start]
    names = {task.id: task.actor for task in before.tasks}
    assert [names[id] for id in plan.redone] == expected[0]
    assert sorted(names[id] for id in plan.superseded) == expected[1]
    assert (plan.stopped, plan.children) == ([], 0)
    assert plan.kept == len(before.tasks) - len(plan.redone) - len(plan.superseded)

    answer = await processes.restart("g-1", start)
    assert answer.tasks == len(plan.redone) + len(plan.superseded)
    left = {task.id for task in (await processes.graph(order)).tasks}
    assert left.isdisjoint(plan.superseded)


async def test_what_has_not_ended_is_named_as_stopped(app: Mainspring) -> None:
    @app.task
    def wrap(what: str) -> str:
        return what

    @app.process
    def gift(what: str) -> Promise[str]:
        return wrap.options(delay=3600)(what)

    handle = await gift.start("pen")
    await run_until_idle(app)
    plan = await app.operator.processes.preview_restart(handle.id)
    graph = await app.operator.processes.graph(handle.id)
    assert plan.stopped == [find_task(graph, "wrap")]
    assert "1 of them have not ended" in str(plan)
    refused = await app.operator.processes.preview_restart(handle.id, plan.stopped[0])
    assert "cannot be restarted from there: " in str(refused)
    assert "is open and has not ended" in refused.why


async def test_what_is_not_there_is_not_found(app: Mainspring, order: str) -> None:
    processes = app.operator.processes
    with pytest.raises(NotFound, match="no task of 'nobody' that has ended"):
        await processes.preview_restart("g-1", "nobody")
    with pytest.raises(NotFound, match="has no task"):
        await processes.preview_restart("g-1", "01a1f443-5211-7ea1-b3c4-cbc2c702ae8c")
    with pytest.raises(NotFound):
        await processes.preview_restart("g-2")
