"""Where time alone can change a verdict, a durable visit waits for the moment (R7)."""

from __future__ import annotations

from datetime import timedelta

from gates import Gate, declare
from tables import Base, day, working

from mainspring import Mainspring
from mainspring.reactive.model.triggers import ChunkDelay, Delta, all_of
from mainspring.reactive.model.values import Param
from mainspring.testing import Clock, wait_until


async def test_a_value_of_a_later_chunk_fires_when_its_chunk_begins(
    app: Mainspring, base: Base, clock: Clock, orders: Param, gate: Gate
) -> None:
    """R4, R7: the only leaf that turns true by time: a future value under a same-chunk ChunkDelay."""
    gate.open.set()
    when = all_of(Delta(orders), ChunkDelay(orders, "hour"))
    declare(app, gate, when=when, expect_within="1d")
    async with working(app) as worker:
        await app.advance(orders, await clock.now() + timedelta(hours=3))
        await worker.idle()
        assert gate.runs == []
        assert base.visits("mainspring.check") == [("mainspring.check", "daily")]
        await clock.advance(timedelta(hours=3))
        await wait_until(lambda: len(gate.runs) == 1)
        await worker.idle()


async def test_a_burst_is_waited_out_by_debounce(
    app: Mainspring, clock: Clock, orders: Param, gate: Gate
) -> None:
    """R7: fires once, when no param has changed for that long."""
    gate.open.set()
    declare(app, gate, when=Delta(orders), debounce="10m")
    async with working(app) as worker:
        for n in range(1, 4):
            await app.advance(orders, day(n))
            await worker.idle()
            await clock.advance(timedelta(minutes=5))
            await worker.idle()
        assert gate.runs == []
        await clock.advance(timedelta(minutes=6))
        await wait_until(lambda: len(gate.runs) == 1)
        await worker.idle()

    assert [r[orders] for r in gate.runs] == [day(3)]


async def test_firings_keep_their_distance(
    app: Mainspring, clock: Clock, orders: Param, gate: Gate
) -> None:
    """R7: min_interval holds a true trigger back until its moment, and forgets nothing."""
    gate.open.set()
    declare(app, gate, when=Delta(orders), min_interval="1h")
    async with working(app) as worker:
        await app.advance(orders, day(1))
        await worker.idle()
        await app.advance(orders, day(2))
        await worker.idle()
        assert len(gate.runs) == 1
        await clock.advance(timedelta(hours=2))
        await wait_until(lambda: len(gate.runs) == 2)
        await worker.idle()
