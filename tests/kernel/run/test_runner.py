"""The runner: slots that execute visits, as many as there are runs under way."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring import clock
from mainspring.kernel.outcome import Done, Expired, Outcome, Retry
from mainspring.kernel.owned import Owned
from mainspring.kernel.retry import CANCELLED
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.tuning import DEFAULT
from mainspring.kernel.visit import Run
from mainspring.limits import Bucket
from mainspring.testing import wait_until
from visits import NOON, known_keys, visit

mood: contextvars.ContextVar[str] = contextvars.ContextVar("mood", default="none")


class Bench:
    """A runner over a buffer, without a database."""

    def __init__(
        self, handler: Callable[[Run], Awaitable[Outcome]], *, slots: int = 10, **settings: Any
    ) -> None:
        self.owned = Owned()
        self.owned.shards = frozenset(range(1024))
        self.owned.good_until = clock.local() + 3600
        self.buffer = Buffer([QueueSettings("ring", handler, **settings)], threading.Lock())
        self.ended: list[Run] = []
        self.left: list[str] = []
        self.holds: list[str] = []
        self.runner = Runner(
            self.owned,
            self.buffer,
            concurrency=slots,
            hold=self._hold,
            finished=self.ended.extend,
            wants_more=lambda: None,
            left=lambda visit: self.left.append(visit.key),
        )

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.runner.close()
        assert await self.runner.ended(5)

    async def _hold(self, run: Run, timeout: float | None) -> bool:
        self.holds.append(run.visit.key)
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
        bench.buffer.add(
            [visit(f"{n}", queue="mainspring.ledger") for n in range(DEFAULT.beside + 5)]
        )
        bench.runner.fill()
        await wait_until(lambda: running["mainspring.ledger"] == DEFAULT.beside)
        for _ in range(20):
            await asyncio.sleep(0)
        assert running == {"ring": 2, "mainspring.ledger": DEFAULT.beside}

        gate.set()
        await bench.rest(5 + DEFAULT.beside + 5)
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
    local, moved = clock.local, 0.0

    async def handler(run: Run) -> Outcome:
        nonlocal moved
        moved = 30.0  # half a minute of work that never let the loop go on
        await asyncio.Event().wait()
        return Done()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "local", lambda: local() + moved)
        async with Bench(handler, timeout=20.0) as bench:
            bench.give("slow")
            await bench.rest(1)

    assert "ran longer than its timeout of 20 s" in bench.ended[0].outcome.error


async def test_a_visit_that_its_rate_keeps_back_starts_when_the_rate_allows() -> None:
    """T13: not only when something else happens to wake a slot."""
    async with Bench(done) as bench:
        ring = bench.buffer.queues["ring"]
        ring.limit(paused=False, concurrency=None, rate=50.0)
        ring.bucket = Bucket(50.0, clock.local())
        while ring.bucket.ready_at(clock.local()) <= clock.local():
            ring.bucket.take(clock.local())

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
        await wait_until(lambda: len(bench.owned.runs) == 2)
        bench.runner.stop_all("fenced")
        await wait_until(lambda: sorted(bench.left) == ["a", "b"])
        assert not known_keys(bench.buffer)

        bench.owned.good_until = 0.0  # the lease has ended: nothing starts
        bench.give("c")
        await wait_until(lambda: bench.left[-1] == "c")
        assert not bench.ended


# -- runs that end at once are followed in their place


async def followed(bench: Bench, count: int) -> list[str]:
    """The keys of so many runs, in the order in which they ended."""
    bench.runner._yielded_at = clock.local()  # else the first one is alone
    bench.runner.fill()
    await bench.rest(count)
    return [run.visit.key for run in bench.ended]


async def test_what_follows_in_a_place_keeps_the_order_of_priorities_and_ages() -> None:
    """T4: one choice is made for many starts, and none of them comes before an older one."""
    async with Bench(done, slots=1) as bench:
        bench.also("other", done)
        bench.buffer.add([visit(f"{n}", at=n) for n in (1, 2, 5, 6, 9)])
        bench.buffer.add([visit(f"{n}", at=n, name="other") for n in (3, 4, 7, 8)])
        bench.buffer.add([visit("urgent", at=20, priority=8), visit("low", at=0, priority=1)])

        assert await followed(bench, 11) == ["urgent", *"123456789", "low"]


async def test_one_that_came_back_and_is_older_is_not_passed_by_those_that_follow() -> None:
    async with Bench(done, slots=1) as bench:
        bench.buffer.add([visit("5", at=5), visit("6", at=6)])
        bench.buffer.place(visit("4", at=4))

        assert await followed(bench, 3) == ["4", "5", "6"]


async def test_a_run_that_suspends_leaves_those_that_would_follow_to_other_slots() -> None:
    gate = asyncio.Event()
    begun: list[str] = []

    async def handler(run: Run) -> Outcome:
        begun.append(run.visit.key)
        if run.visit.key.startswith("slow"):
            await gate.wait()
        return Done()

    async with Bench(handler, slots=3) as bench:
        bench.give("a", "slow 1", "b", "slow 2", "c")
        await wait_until(lambda: len(begun) == 5)
        assert {run.visit.key for run in bench.ended} == {"a", "b", "c"}
        assert bench.buffer.queues["ring"].running == 2

        gate.set()
        await bench.rest(5)
    assert bench.buffer.queues["ring"].running == 0


async def test_a_failure_or_an_expired_visit_among_those_that_follow_is_its_own() -> None:
    async def handler(run: Run) -> Outcome:
        if run.visit.key == "bad":
            raise ValueError("this one")
        return Done()

    async with Bench(handler, slots=1) as bench:
        late = visit("late", at=2, expires_at=NOON - timedelta(days=10_000))
        bench.buffer.add([visit("a", at=0), visit("bad", at=1), late, visit("z", at=3)])

        assert await followed(bench, 4) == ["a", "bad", "late", "z"]
    outcomes = {run.visit.key: type(run.outcome) for run in bench.ended}
    assert outcomes == {"a": Done, "bad": Retry, "late": Expired, "z": Done}


async def test_groups_are_counted_although_others_follow_in_a_place() -> None:
    gate = asyncio.Event()
    running: Counter[str | None] = Counter()

    async def handler(run: Run) -> Outcome:
        running[run.visit.group] += 1
        if run.visit.group:
            await gate.wait()
        running[run.visit.group] -= 1
        return Done()

    async with Bench(handler, slots=20) as bench:
        bench.buffer.queues["ring"].groups.limit(1, None, 0.0)
        groups = [None, "g", None, "g", "g", None]
        bench.buffer.add([visit(f"{n}", at=n, group=g) for n, g in enumerate(groups)])
        bench.runner.fill()
        await bench.rest(3)
        assert running["g"] == 1

        gate.set()
        await bench.rest(6)


async def test_a_run_of_a_group_is_not_followed_before_its_place_in_the_group_is_free() -> None:
    async with Bench(done) as bench:
        bench.buffer.queues["ring"].groups.limit(1, None, 0.0)
        groups = ["g", None, None, "g"]
        bench.buffer.add([visit(f"{n}", at=n, group=g) for n, g in enumerate(groups)])

        assert await followed(bench, 4) == ["0", "1", "2", "3"]


async def test_nothing_follows_when_the_lease_has_ended_meanwhile() -> None:
    async def handler(run: Run) -> Outcome:
        bench.owned.good_until = 0.0
        return Done()

    async with Bench(handler) as bench:
        bench.give("a", "b")
        await wait_until(lambda: bench.left == ["b"])

        assert [run.visit.key for run in bench.ended] == ["a"]
        assert bench.buffer.queues["ring"].running == 0


async def test_nothing_follows_in_a_shard_that_was_given_away_meanwhile() -> None:
    async def handler(run: Run) -> Outcome:
        bench.owned.let_go([3])
        return Done()

    async with Bench(handler) as bench:
        bench.buffer.add([visit("a", at=0), visit("b", at=1, shard=3), visit("c", at=2)])
        assert await followed(bench, 2) == ["a", "c"]
        assert bench.left == ["b"]
        assert bench.buffer.queues["ring"].running == 0


async def test_nothing_follows_once_a_worker_s_death_has_left_suspects() -> None:
    """Each visit must then be looked at: it may be one of them."""

    async def handler(run: Run) -> Outcome:
        bench.owned.suspects = {7: {("ring", 5): (NOON.timestamp() + 3600, "")}}
        return Done()

    async with Bench(handler) as bench:
        bench.buffer.add([visit("a", at=0), visit("b", at=1, shard=7)])
        assert await followed(bench, 2) == ["a", "b"]
        assert bench.holds == ["b"]


async def test_runs_that_block_let_the_other_loops_run_between_them() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def handler(run: Run) -> Outcome:
        seen.append(turns)
        until = clock.local() + 2 * DEFAULT.yield_every
        while clock.local() < until:
            pass
        return Done()

    seen: list[int] = []
    async with Bench(handler, slots=1) as bench:
        turning = asyncio.create_task(turn())
        bench.give("a", "b", "c")
        await bench.rest(3)
        turning.cancel()
    assert seen[0] < seen[1] < seen[2]


async def test_a_handler_that_cancels_its_own_task_stops_no_other_run() -> None:
    async def handler(run: Run) -> Outcome:
        if run.visit.key == "a":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        else:
            await asyncio.sleep(0)
        return Done()

    async with Bench(handler, slots=1) as bench:
        bench.give("a", "b", "c")
        await bench.rest(3)
    assert [type(run.outcome) for run in bench.ended] == [Done, Done, Done]


async def test_background_queues_have_their_starts_although_others_follow_in_a_place() -> None:
    bench = Bench(done, slots=4)
    settings = [QueueSettings("ring", done), QueueSettings("crawl", done, share=0.25)]
    bench.buffer = bench.runner.buffer = Buffer(settings, threading.Lock(), slots=4)
    async with bench:
        bench.buffer.add([visit(f"{n:03}", at=n) for n in range(40)])
        bench.buffer.add([visit(f"c{n}", at=n, name="crawl", priority=1) for n in range(8)])
        order = await followed(bench, 48)
    assert [key for key in order[:20] if key.startswith("c")] == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize(("why", "outcomes"), [("cancelled", [CANCELLED]), ("fenced", [])])
async def test_a_run_that_is_stopped_before_its_own_slot_begins_has_its_end(
    why: str, outcomes: list[Outcome]
) -> None:
    """Its place in its queue is free again, though its handler was never called."""
    called: list[str] = []

    async def handle(run: Run) -> Outcome:
        called.append(run.visit.key)
        return Done()

    async with Bench(done) as bench:
        bench.also("apart", handle, slots=1)
        bench.buffer.add([visit("first", queue="apart"), visit("second", queue="apart")])
        bench.runner.fill()
        while not (runs := bench.owned.snapshot()):
            await asyncio.sleep(0)
        bench.runner.hanging.stop(runs[0], why)
        await wait_until(lambda: called == ["second"], 5)

        assert [run.outcome for run in bench.ended][:-1] == outcomes
