"""The runner: slots that execute visits, as many as there are runs under way."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainspring.kernel import moment
from mainspring.kernel.buffer import Buffer
from mainspring.kernel.config import QueueSettings
from mainspring.kernel.hand import Hand
from mainspring.kernel.limits import Bucket
from mainspring.kernel.outcome import Done, Outcome, Retry
from mainspring.kernel.queue_state import QueueState
from mainspring.kernel.runner import BESIDE, Runner
from mainspring.kernel.visit import Run
from mainspring.testing import wait_until
from visits import visit

mood: contextvars.ContextVar[str] = contextvars.ContextVar("mood", default="none")


class Bench:
    """A runner over a buffer, without a database."""

    def __init__(
        self, handler: Callable[[Run], Awaitable[Outcome]], *, slots: int = 10, **settings: Any
    ) -> None:
        self.hand = Hand()
        self.hand.shards = frozenset(range(1024))
        self.hand.good_until = moment.local() + 3600
        self.buffer = Buffer([QueueSettings("ring", handler, **settings)], threading.Lock())
        self.ended: list[Run] = []
        self.left: list[str] = []
        self.runner = Runner(
            self.hand,
            self.buffer,
            concurrency=slots,
            hold=self._hold,
            finished=self.ended.append,
            wants_more=lambda: None,
            left=lambda visit: self.left.append(visit.key),
        )

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.runner.close()
        assert await self.runner.ended(5)

    async def _hold(self, run: Run, timeout: float | None) -> bool:
        return True

    def also(
        self, name: str, handler: Callable[[Run], Awaitable[Outcome]], **settings: Any
    ) -> None:
        """One more queue."""
        self.buffer.queues[name] = QueueState(QueueSettings(name, handler, **settings))

    def give(self, *keys: str) -> None:
        self.buffer.add([visit(key) for key in keys])
        self.runner.fill()

    async def rest(self, count: int) -> None:
        await wait_until(lambda: len(self.ended) == count)


async def done(run: Run) -> Outcome:
    return Done()


async def test_runs_that_never_suspend_share_one_slot() -> None:
    async with Bench(done, slots=100) as bench:
        bench.give(*(f"key {n}" for n in range(300)))
        await bench.rest(300)

        assert len(bench.runner._slots) == 1


async def test_runs_that_suspend_get_a_slot_each_up_to_the_concurrency() -> None:
    gate = asyncio.Event()
    running = 0

    async def wait(run: Run) -> Outcome:
        nonlocal running
        running += 1
        await gate.wait()
        return Done()

    async with Bench(wait, slots=5) as bench:
        bench.give(*(f"key {n}" for n in range(8)))
        await wait_until(lambda: running == 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert running == 5

        gate.set()
        await bench.rest(8)


async def test_bookkeeping_runs_beside_slots_that_are_all_taken_within_its_own_bound() -> None:
    gate = asyncio.Event()
    running: Counter[str] = Counter()

    async def wait(run: Run) -> Outcome:
        running[run.visit.queue] += 1
        await gate.wait()
        return Done()

    async with Bench(wait, slots=2) as bench:
        bench.also("mainspring.ledger", wait, beside=True)
        bench.give(*(f"key {n}" for n in range(5)))
        await wait_until(lambda: running["ring"] == 2)
        bench.buffer.add([visit(f"{n}", queue="mainspring.ledger") for n in range(BESIDE + 5)])
        bench.runner.fill()
        await wait_until(lambda: running["mainspring.ledger"] == BESIDE)
        for _ in range(20):
            await asyncio.sleep(0)
        assert running == {"ring": 2, "mainspring.ledger": BESIDE}

        gate.set()
        await bench.rest(5 + BESIDE + 5)
        assert len(bench.runner._slots) == 2
        assert not bench.runner._beside


async def test_bookkeeping_takes_a_slot_while_one_is_free() -> None:
    async with Bench(done, slots=2) as bench:
        bench.also("mainspring.ledger", done, beside=True)
        bench.buffer.add([visit("a", queue="mainspring.ledger")])
        bench.give("b")
        await bench.rest(2)

        assert not bench.runner._beside


async def test_a_run_has_a_context_of_its_own_before_and_after_it_suspends() -> None:
    seen: list[str] = []

    async def handler(run: Run) -> Outcome:
        seen.append(mood.get())
        mood.set(run.visit.key)
        if run.visit.key != "a quick":
            await asyncio.sleep(0)
        seen.append(mood.get())
        return Done()

    mood.set("outside")
    async with Bench(handler, slots=1) as bench:
        bench.give("a quick", "b slow", "c last")
        await bench.rest(3)

        assert seen == ["none", "a quick", "none", "b slow", "none", "c last"]
        assert mood.get() == "outside"


@pytest.mark.parametrize("suspends", [False, True], ids=["at once", "later"])
async def test_whatever_a_handler_raises_ends_its_run_only(suspends: bool) -> None:
    class Odd(BaseException):
        pass

    async def handler(run: Run) -> Outcome:
        if suspends:
            await asyncio.sleep(0)
        if run.visit.key == "odd":
            raise Odd("strange")
        if run.visit.key == "cancelled":
            raise asyncio.CancelledError
        return Done()

    async with Bench(handler, slots=1) as bench:
        bench.give("odd", "cancelled", "good")
        await bench.rest(3)

        outcomes = {run.visit.key: run.outcome for run in bench.ended}
        assert isinstance(outcomes["odd"], Retry)
        assert "strange" in outcomes["odd"].error
        assert isinstance(outcomes["cancelled"], Retry)
        assert outcomes["good"] == Done()


async def test_the_timeout_counts_from_the_start_not_from_the_first_suspension() -> None:
    """T5: what a handler did before it first waited is part of its time."""
    local, moved = moment.local, 0.0

    async def handler(run: Run) -> Outcome:
        nonlocal moved
        moved = 30.0  # half a minute of work that never let the loop go on
        await asyncio.Event().wait()
        return Done()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moment, "local", lambda: local() + moved)
        async with Bench(handler, timeout=20.0) as bench:
            bench.give("slow")
            await bench.rest(1)

    assert "ran longer than its timeout of 20 s" in bench.ended[0].outcome.error


async def test_a_visit_that_its_rate_keeps_back_starts_when_the_rate_allows() -> None:
    """T13: not only when something else happens to wake a slot."""
    async with Bench(done) as bench:
        ring = bench.buffer.queues["ring"]
        ring.limit(paused=False, concurrency=None, rate=50.0)
        ring.bucket = Bucket(50.0, moment.local())
        while ring.bucket.ready_at(moment.local()) <= moment.local():
            ring.bucket.take(moment.local())

        bench.give("a")
        assert bench.ended == []
        await bench.rest(1)


async def test_a_visit_that_is_left_is_said_to_be_so_at_once() -> None:
    """Sweeps are rare where they are dear: after a stall the next one may be minutes away."""
    gate = asyncio.Event()

    async def wait(run: Run) -> Outcome:
        await gate.wait()
        return Done()

    async with Bench(wait, slots=2) as bench:
        bench.give("a", "b")
        await wait_until(lambda: len(bench.hand.runs) == 2)
        bench.runner.stop_all("fenced")
        await wait_until(lambda: sorted(bench.left) == ["a", "b"])
        assert not bench.buffer.in_hand

        bench.hand.good_until = 0.0  # the lease has ended: nothing starts
        bench.give("c")
        await wait_until(lambda: bench.left[-1] == "c")
        assert not bench.ended
