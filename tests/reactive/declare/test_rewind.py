"""A param that is moved back: reported, repaired, done again or held (R13)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from gates import Gate, declare, working_until_started
from tables import Base, day, history, working

from mainspring import Mainspring
from mainspring.errors import UnknownReactiveTask
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import ChunkDelta, Delay, Delta
from mainspring.reactive.model.values import Param, micros
from mainspring.testing import wait_until


def raw(moment: Any, rewinds: int = 0) -> list[int]:
    return [micros(moment), rewinds]


async def test_a_rewind_lists_the_affected_tasks_and_their_repairs(
    app: Mainspring, orders: Param
) -> None:
    """R13: affected = names the param and its last recorded check is older than the rewind."""
    for policy in ("report", "rerun", "hold"):
        app.task(name=policy, when=Delta(orders), on_rewind=policy)(lambda: None)
    app.task(name="late", when=Delay(orders, timedelta(days=300_000)), min_interval="9000d")(
        lambda: None
    )
    await app.advance(orders, day(5))
    async with working(app) as worker:
        affected = await app.rewind(orders, day(3), why="late rides")
        await app.advance(orders, day(4))
        await worker.idle()

    assert {a.task: a.repair for a in affected} == {
        "report": "move or delete",
        "rerun": "rerun",
        "hold": "held",
        "late": "run and record",
    }
    assert {a.seen for a in affected} == {day(5)}
    # The one that did its data again is affected no more.
    assert {a.task for a in await app.reactive.affected(orders.key)} == {"report", "hold", "late"}


async def test_by_default_a_rewound_param_fires_only_above_what_was_seen(
    app: Mainspring, orders: Param, gate: Gate
) -> None:
    """R13: "report": nothing runs until the value passes what was seen, or somebody repairs."""
    gate.open.set()
    declare(app, gate, when=Delta(orders))
    await app.advance(orders, day(5))
    async with working(app) as worker:
        await app.rewind(orders, day(3))
        await worker.idle()
        await app.advance(orders, day(5))
        await worker.idle()
        assert len(gate.runs) == 1
        await app.advance(orders, day(6))
        await worker.idle()

    assert len(gate.runs) == 2


async def test_a_task_that_reruns_does_the_data_again(
    app: Mainspring, base: Base, orders: Param
) -> None:
    """R13, I9: Delta uses the lesser of last seen and the rewind's target; the chunks follow."""
    told = []

    @app.task(when=ChunkDelta(orders, "day"), on_rewind="rerun")
    async def daily(run: ReactiveRun) -> None:
        told.append(run.chunks(orders))

    await app.advance(orders, day(5))
    async with working(app) as worker:
        await app.rewind(orders, day(3))
        await worker.idle()
        assert told == [[day(5)]]
        await app.advance(orders, day(5))
        await worker.idle()
        assert told[1:] == [[day(4), day(5)]]
        await app.advance(orders, day(6))
        await worker.idle()

    assert told[2:] == [[day(6)]]
    assert base.state("daily")["seen"] == {orders.key: raw(day(6), 1)}


async def test_restated_chunks_are_done_again_without_moving_the_value(
    app: Mainspring, orders: Param
) -> None:
    """R13: rewind(to=current, chunks=...): late data, the most asked feature of all."""
    told = []

    @app.task(when=ChunkDelta(orders, "day"), on_rewind="rerun")
    async def daily(run: ReactiveRun) -> None:
        told.append(run.chunks(orders))

    await app.advance(orders, day(5))
    async with working(app) as worker:
        await app.rewind(orders, day(5), chunks=[day(2), day(4)], why="late rides")
        await worker.idle()

    assert told[1:] == [[day(2), day(4)]]


async def test_a_rewind_during_a_run_is_not_hidden_by_its_success(
    app: Mainspring, base: Base, orders: Param, gate: Gate
) -> None:
    """R13, trap: the success records the higher old value, with the old count of rewinds."""
    declare(app, gate, when=Delta(orders), on_rewind="rerun")
    await app.advance(orders, day(5))
    async with working_until_started(app, gate) as worker:
        await app.rewind(orders, day(3))
        gate.open.set()
        await worker.idle()
        assert base.state("daily")["seen"] == {orders.key: raw(day(5), 0)}
        await app.advance(orders, day(4))
        await worker.idle()

    assert [r[orders] for r in gate.runs] == [day(5), day(4)]


async def test_a_waiting_run_whose_param_was_rewound_does_not_start(
    app: Mainspring, base: Base, orders: Param, rates: Param, gate: Gate
) -> None:
    """R10: it is void and checked afresh."""
    other = Gate()
    app.reactive_pool(cap=1)
    declare(app, gate, when=Delta(rates), name="first", priority=9)
    declare(app, other, when=Delta(orders), name="daily", on_rewind="rerun")
    other.open.set()
    await app.advance(rates, day(5))
    async with working_until_started(app, gate) as worker:  # the only run that the pool may have
        await app.advance(orders, day(5))
        await wait_until(lambda: base.state("daily")["firing"] is not None)
        await app.rewind(orders, day(3))
        gate.open.set()
        await worker.idle()

    assert [r[orders] for r in other.runs] == [day(3)]
    outcome, error = history(base, "daily")[0]
    assert (outcome, error) == (
        "cancelled",
        "void: a param that its check looked at was moved back since",
    )


async def test_a_held_task_waits_for_a_repair(app: Mainspring, orders: Param, gate: Gate) -> None:
    """R13: "hold": nothing runs, whatever comes, until it is repaired or run with record."""
    gate.open.set()
    declare(app, gate, when=Delta(orders), on_rewind="hold")
    await app.advance(orders, day(5))
    async with working(app) as worker:
        await app.rewind(orders, day(3))
        await app.advance(orders, day(7))
        await worker.idle()
        assert len(gate.runs) == 1
        await app.reactive.seen_move("daily", orders.key, day(3))
        await worker.idle()

    assert [r[orders] for r in gate.runs] == [day(5), day(7)]


class TestRepairs:
    """R13: one command each."""

    async def test_seen_is_moved(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate
    ) -> None:
        gate.open.set()
        declare(app, gate, when=Delta(orders))
        await app.advance(orders, day(5))
        async with working(app) as worker:
            await app.rewind(orders, day(4))
            await app.reactive.seen_move("daily", orders.key, day(3))
            await worker.idle()

        assert [r[orders] for r in gate.runs] == [day(5), day(4)]
        assert base.state("daily")["seen"] == {orders.key: raw(day(4), 1)}

    async def test_seen_is_deleted(self, app: Mainspring, orders: Param, gate: Gate) -> None:
        gate.open.set()
        declare(app, gate, when=Delta(orders))
        await app.advance(orders, day(5))
        async with working(app) as worker:
            await app.reactive.seen_delete("daily", orders.key)
            await worker.idle()

        assert [r[orders] for r in gate.runs] == [day(5), day(5)]

    @pytest.mark.parametrize("repair", ["delete", "move"])
    async def test_a_repair_made_while_the_task_runs_outlives_its_success(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate, repair: str
    ) -> None:
        """R10: trap: undone by the success of the running firing."""
        declare(app, gate, when=Delta(orders))
        await app.advance(orders, day(5))
        async with working_until_started(app, gate) as worker:
            if repair == "delete":
                await app.reactive.seen_delete("daily", orders.key)
            else:
                await app.reactive.seen_move("daily", orders.key, day(2))
            gate.open.set()
            await worker.idle()

        assert len(gate.runs) == 2
        assert base.state("daily")["seen"] == {orders.key: raw(day(5))}

    async def test_for_delay_a_manual_run_records_the_state(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate
    ) -> None:
        gate.open.set()
        declare(app, gate, when=Delay(orders, timedelta(days=1)), expect_within="1d")
        await app.advance(orders, day(5))
        async with working(app) as worker:
            await app.reactive.run("daily", record=True)
            await worker.idle()
            await app.rewind(orders, day(3))
            await app.reactive.run("daily", record=True, by="ann")
            await worker.idle()

        assert base.state("daily")["seen"] == {orders.key: raw(day(3), 1)}
        assert await app.reactive.affected(orders.key) == []

    async def test_an_unknown_task_is_named_with_the_nearest(
        self, app: Mainspring, orders: Param, gate: Gate
    ) -> None:
        gate.open.set()
        declare(app, gate, when=Delta(orders))
        async with working(app):
            with pytest.raises(UnknownReactiveTask, match="'dayly'; did you mean 'daily'"):
                await app.reactive.run("dayly")
