"""The graph of a process, drawn as a tree, for Graphviz and for Mermaid."""

from __future__ import annotations

import msgspec
import pytest

from mainspring import (
    First,
    Mainspring,
    MainspringError,
    RetryPolicy,
    first_of,
    first_success,
    sleep,
    some_of,
)
from mainspring.errors import InvalidSetting, NotFound
from mainspring.processes.operate.graph import Graph, dot, find_task, mermaid, tree
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle


async def test_a_graph_is_drawn_with_states_and_who_waits_for_whom(app: Mainspring) -> None:
    """P2, P12: finished, unfinished, who waits for whom."""

    @app.task
    def reserve(n: int) -> int:
        return n

    @app.task(retry=RetryPolicy(attempts=1))
    def charge(n: int) -> int:
        raise ValueError('the "card" was refused')

    @app.task
    def ship(n: int, receipt: int) -> str:
        return "shipped"

    @app.process
    def order(n: int) -> Promise[str]:
        return ship(n, charge(reserve(n)))

    await order.options(id="order-7").start(7)
    await run_until_idle(app)
    graph = await app.operator.processes.graph("order-7")

    assert tree(graph) == [
        "order order-7 [open]",
        "└─ ✓ #1 order [done]",
        "   ├─ ✓ #2 reserve [done]",
        '   ├─ ■ #3 charge [parked] ValueError: the "card" was refused after #2',
        "   └─ … #4 ship [waiting] after #3",
    ]
    drawn = dot(graph)
    assert (
        't3 [label="charge [parked] ValueError: the \\"card\\" was refused", fillcolor=orange];'
        in drawn
    )
    assert "t2 -> t3 [style=solid];" in drawn
    assert "t1 -> t2 [style=dashed];" in drawn
    flow = mermaid(graph)
    assert flow.startswith("flowchart LR")
    assert "&quot;card&quot;" in flow
    assert "t3 --> t4" in flow


async def test_a_decider_that_is_tried_again_shows_its_last_error(app: Mainspring) -> None:
    """P12"""

    @app.process(retry=RetryPolicy(attempts=5, first=3600.0))
    def order(n: int) -> int:
        raise ValueError("no such tariff")

    await order.options(id="order-7").start(7)
    await run_until_idle(app)
    lines = tree(await app.operator.processes.graph("order-7"))

    assert lines[1] == "└─ ● #1 order [queued] failed 1 time: ValueError: no such tariff"


async def loop_of(app: Mainspring, steps: int) -> Graph:
    """The graph of a loop that went round so many times."""

    @app.task
    def poll(n: int) -> int:
        return n

    @app.process
    def watch(n: int) -> Promise[int] | int:
        return n if n == 0 else again(poll(n - 1))

    @app.process
    def again(n: int) -> Promise[int]:
        return watch(n)

    await watch.options(id="loop").start(steps)
    await run_until_idle(app)
    return await app.operator.processes.graph("loop")


async def test_a_loop_is_drawn_however_deep_it_is(app: Mainspring) -> None:
    """P15: unbounded loops can be looked at; past some levels their steps stand below each other."""
    graph = await loop_of(app, 15)
    lines = tree(graph)
    assert len(lines) == len(graph.tasks) + 1 == 47
    assert lines[:4] == [
        "watch loop [finished]",
        "└─ ✓ #1 watch [done]",
        "   ├─ ✓ #2 poll [done]",
        "   └─ ✓ #3 again [done] after #2",
    ]
    assert lines[-1].lstrip() == "└─ ✓ #46 watch [done] by #45"

    last = graph.tasks[-1]
    more = [
        msgspec.structs.replace(last, id=f"{n}", created_by=f"{n - 1}" if n else last.id)
        for n in range(1500)
    ]
    deep = tree(msgspec.structs.replace(graph, tasks=[*graph.tasks, *more]))
    assert len(deep) == 1547
    assert max(map(len, deep)) < 120


async def test_a_task_is_named_by_its_number_its_actor_or_its_id(app: Mainspring) -> None:
    """P12: as `show` draws it."""
    graph = await loop_of(app, 1)
    ids = [task.id for task in graph.tasks]

    assert [find_task(graph, f"#{n}") for n in (1, 2, 3, 4)] == ids
    assert find_task(graph, "3") == find_task(graph, "again") == find_task(graph, ids[2])
    with pytest.raises(NotFound, match="process loop has no task #5: `show` numbers them from #1"):
        find_task(graph, "#5")
    with pytest.raises(InvalidSetting, match=r"loop has 2 tasks of 'watch': name one .*#1, #4"):
        find_task(graph, "watch")
    assert find_task(graph, "bogus") == "bogus"  # refused where the process is locked


async def test_a_race_says_how_many_ends_it_waits_for(app: Mainspring) -> None:
    """P2, P8: `show` reads who waits for whom, and for how many of them."""
    go = app.signal("go", int)

    @app.process
    def order() -> Promise[list[First[int]]]:
        return some_of(2, [go.wait() for _ in range(3)])

    async with app:
        handle = await order.start()
        await run_until_idle(app)
        lines = tree(await app.operator.processes.graph(handle.id))

    assert lines[-1].strip() == "└─ … #5 @some_of [waiting] for 2 of 3 after #2, #3, #4"


async def test_a_race_that_could_never_be_won_is_refused_where_it_is_written(
    app: Mainspring,
) -> None:
    """P15: with what is wrong and what to give."""
    errors = []

    @app.process
    def order() -> None:
        one = sleep(1)
        for wrong in (
            lambda: some_of(2, one, one),
            lambda: first_success(),
            lambda: some_of(0, one),
            lambda: first_of(one, others="stay"),  # type: ignore[arg-type]
        ):
            try:
                wrong()
            except MainspringError as error:
                errors.append(str(error))

    async with app:
        await order.start()
        await run_until_idle(app)

    assert errors == [
        "some_of needs 2 of 1 promises, and can never have so many",
        "first_success() of nothing would never end; give it promises",
        "some_of takes how many of the promises are needed, got 0",
        "others of first_of is 'cancel' or 'go_on', got 'stay'",
    ]
