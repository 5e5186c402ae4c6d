"""The graph of a process, drawn as a tree, for Graphviz and for Mermaid."""

from __future__ import annotations

from mainspring import Mainspring, RetryPolicy
from mainspring.processes.graph import dot, mermaid, tree
from mainspring.tasks.promise import Promise
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
