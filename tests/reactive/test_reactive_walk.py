"""One reactive task from end to end: advance, change, check, run, last seen."""

from __future__ import annotations

from tables import Base, day

from mainspring import Mainspring
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.model.values import Param
from mainspring.testing import run_until_idle


async def test_a_task_runs_when_its_param_moves_and_has_seen_it_then(
    app: Mainspring, base: Base, orders: Param, built: Param
) -> None:
    """R2, R10: seen := what the check saw, the product and the completion in one transaction."""
    runs = []

    @app.task(when=Delta(orders), produces=[built])
    async def daily(run: ReactiveRun) -> None:
        runs.append((run.seen[orders], run.current[orders]))
        value = run.current[orders]
        run.advance(built, value)

    await run_until_idle(app)
    assert runs == []

    assert await app.advance(orders, day(1))
    await run_until_idle(app)
    assert not await app.advance(orders, day(1))
    await app.advance(orders, day(2))
    await run_until_idle(app)

    assert runs == [(None, day(1)), (day(1), day(2))]
    assert base.state("daily")["firing"] is None
    assert base.state("daily")["seen"] == {"dwh.orders.loaded_to": [1772409600000000, 0]}
    assert (await app.reactive.params(name=built.key))[0].value == day(2)
    assert base.visits() == []
