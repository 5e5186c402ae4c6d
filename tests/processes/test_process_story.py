"""Timers, signals, children, races, scopes, cancel and restart, as users meet them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import InvalidArguments, NotFound, ProcessFailed, Refused, UnknownSignal
from mainspring.processes.declare.decider_api import scope, set_attrs, sleep
from mainspring.processes.declare.races import First, first_of
from mainspring.processes.operate.graph import label
from mainspring.tasks.declare.promise import Failure, Outcome, Promise
from mainspring.testing import Clock, run_until_idle

ONCE = RetryPolicy(attempts=1)


async def causes(app: Mainspring, id: str) -> list[str]:
    return [cause.name for cause in (await app.operator.processes.why(id)).causes]


async def test_a_timer_holds_no_worker_and_is_kept_over_time(app: Mainspring, clock: Clock) -> None:
    """P15, P5: durable timers; a process that waits for one has that cause."""

    @app.task
    def wake() -> str:
        return "awake"

    @app.process
    def order() -> Promise[str]:
        return wake(after=[sleep(timedelta(hours=3))])

    handle = await order.options(id="o").start()
    await run_until_idle(app)
    assert await handle.status() == "open"
    assert "waiting_for_timer" in await causes(app, "o")

    await clock.advance(timedelta(hours=3, seconds=1))
    await run_until_idle(app)

    assert await handle.result(5) == "awake"


@pytest.fixture
def review(app: Mainspring) -> Mainspring:
    approved = app.signal("approved", bool)

    @app.process
    def conclude(page: int, answer: Outcome[bool]) -> str:
        if answer.failure is not None:
            return f"page {page}: {answer.failure.type.rsplit('.', 1)[-1]}"
        return f"page {page}: {'yes' if answer.value else 'no'}"

    @app.process
    def publish(page: int) -> Promise[str]:
        return conclude(page, approved.wait(timeout=timedelta(days=7)))

    return app


async def test_a_signal_is_kept_when_early_and_taken_once(review: Mainspring) -> None:
    """P15: signals and human steps; the same id is the same signal."""
    publish = review.find_process("publish")
    early, late = await publish.start(1), await publish.options(id="late").start(2)

    assert await early.signal("approved", True, id="click-1", sent_by="ann")
    assert not await early.signal("approved", True, id="click-1", sent_by="ann")
    await run_until_idle(review)
    assert await early.result(5) == "page 1: yes"
    assert "waiting_for_signal" in await causes(review, "late")
    await late.signal("approved", False)
    await run_until_idle(review)

    assert await late.result(5) == "page 2: no"
    [taken] = [t for t in (await review.operator.processes.graph(early.id)).tasks if t.signal]
    assert (taken.signal, taken.sent_by) == ("approved", "ann")  # audited
    assert "@signal [done] 'approved' sent by ann at 20" in label(taken)


def test_plain_code_signals_and_cancels_in_its_own_transaction(
    review: Mainspring, database_url: str
) -> None:
    """P15, T8: the same for code that is not async; what is rolled back was never sent."""
    publish = review.find_process("publish")
    signalled, cancelled = publish.start_sync(1), publish.start_sync(2)

    with psycopg.connect(database_url) as connection:
        assert signalled.signal_sync("approved", True, on=connection)
        cancelled.cancel_sync(on=connection)
        connection.rollback()
        assert signalled.signal_sync("approved", False, id="click-1", on=connection)
        connection.commit()
        assert not signalled.signal_sync("approved", True, id="click-1")
    review.run(drain=True, lease=1.0, poll=0.05)
    assert cancelled.status_sync() == "open"
    cancelled.cancel_sync()
    review.run(drain=True, lease=1.0, poll=0.05)

    assert signalled.result_sync(5) == "page 1: no"
    assert cancelled.status_sync() == "cancelled"
    review.close_sync()


async def test_a_signal_that_does_not_come_is_a_failure_that_can_be_caught(
    review: Mainspring, clock: Clock
) -> None:
    """P15: a signal with a timeout."""
    handle = await review.find_process("publish").start(3)
    await run_until_idle(review)

    await clock.advance(timedelta(days=7, seconds=1))
    await run_until_idle(review)

    assert await handle.result(5) == "page 3: SignalTimeout"


async def test_signals_that_cannot_be_are_refused(review: Mainspring) -> None:
    """Bad input: unknown signal, wrong payload, a process that is not there or has ended."""
    handle = await review.find_process("publish").start(4)

    with pytest.raises(
        UnknownSignal, match="no signal is named 'aproved'; did you mean 'approved'"
    ):
        await handle.signal("aproved", True)
    with pytest.raises(
        InvalidArguments, match="payload of signal 'approved' does not fit its type"
    ):
        await handle.signal("approved", "yes")
    with pytest.raises(NotFound, match="there is no process"):
        await review.process_handle("publish", "01890000-0000-7000-8000-000000000000").signal(
            "approved", True
        )
    await review.operator.processes.cancel(handle.id)
    with pytest.raises(Refused, match="is cancelled: it takes no signal"):
        await handle.signal("approved", True)


async def test_a_child_process_has_a_life_of_its_own_and_its_result_comes_back(
    app: Mainspring,
) -> None:
    """P15: child processes."""

    @app.process
    def part(n: int) -> int:
        return n * n

    @app.process
    def whole(n: int) -> Promise[int]:
        return part.options(id=f"part-{n}").child(n)

    handle = await whole.start(6)
    await run_until_idle(app)

    assert await handle.result(5) == 36
    assert (await app.operator.processes.find("part-6")).state == "finished"


async def test_a_cancel_reaches_the_children_and_the_waiting(review: Mainspring) -> None:
    """P15: cancel with propagation."""

    @review.process
    def whole() -> Promise[Any]:
        return review.find_process("publish").options(id="child").child(9)

    handle = await whole.start()
    await run_until_idle(review)

    await handle.cancel()
    await run_until_idle(review)

    assert await handle.status() == "cancelled"
    assert (await review.operator.processes.find("child")).state == "cancelled"
    with pytest.raises(ProcessFailed, match="came to no result"):
        await handle.result(5)
    with pytest.raises(Refused, match="the process is cancelled"):
        await review.operator.processes.cancel(handle.id)


async def test_attributes_set_by_a_decider_can_be_searched(app: Mainspring) -> None:
    """P12, P15: search attributes."""
    from mainspring.processes.operate.search import ProcessFilter

    @app.process
    def order(n: int) -> None:
        set_attrs(size=n, rush=n > 3)

    await order.options(attrs={"shop": 7}).start(5)
    await run_until_idle(app)

    (found,) = await app.operator.processes.search(ProcessFilter(attrs={"rush": True, "shop": 7}))
    assert found.attrs == {"shop": 7, "size": 5, "rush": True}


async def test_a_restart_from_a_task_redoes_only_what_follows_from_it(app: Mainspring) -> None:
    """P12: causal restart; other branches keep their results, keys change with it."""
    runs: list[str] = []

    @app.task
    def left(n: int) -> int:
        runs.append("left")
        return n

    @app.task
    def right(n: int) -> int:
        runs.append("right")
        return n + len(runs)

    @app.task
    def join(a: int, b: int) -> list[int]:
        runs.append("join")
        return [a, b]

    @app.process
    def order(n: int) -> Promise[list[int]]:
        return join(left(n), right(n))

    handle = await order.options(id="o").start(1)
    await run_until_idle(app)
    graph = await app.operator.processes.graph("o")
    task = next(t.id for t in graph.tasks if t.actor == "right")
    runs.clear()

    answer = await app.operator.processes.restart("o", task)
    await run_until_idle(app)

    assert answer.tasks == 2
    assert sorted(runs) == ["join", "right"]
    assert await handle.result(5) == [1, 2]
    assert await handle.status() == "finished"


async def test_a_restart_from_scratch_redoes_everything(app: Mainspring) -> None:
    """P12"""
    runs: list[int] = []

    @app.process
    def order() -> int:
        runs.append(1)
        return len(runs)

    handle = await order.options(id="o").start()
    await run_until_idle(app)
    await app.operator.processes.restart("o")
    await run_until_idle(app)

    assert await handle.result(5) == 2
    with pytest.raises(NotFound, match="has no task"):
        await app.operator.processes.restart("o", "01890000-0000-7000-8000-000000000000")


async def test_the_first_of_several_wins(app: Mainspring) -> None:
    """P15: a race; the losers are called off."""

    @app.task
    def quick() -> str:
        return "quick"

    @app.process
    def order() -> Promise[First[Any]]:
        return first_of(sleep(3600), quick())

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == First(1, "quick")
    assert await handle.status() == "finished"


async def test_a_scope_undoes_what_was_done_in_reverse_order_and_has_a_handler(
    app: Mainspring,
) -> None:
    """P15: error scopes and compensation."""
    log: list[str] = []

    @app.task
    def reserve(item: str) -> str:
        log.append(f"reserve {item}")
        return item

    @app.task
    def release(item: str, reserved: Outcome[str]) -> None:
        log.append(f"release {item}")

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        raise ValueError("the card was refused")

    @app.task
    def apologise(failure: Failure, order: int) -> str:
        log.append("apologise")
        return f"order {order}: {failure.message}"

    @app.process
    def order(number: int) -> Promise[str]:
        with scope() as s:
            s.on_error(apologise, order=number)
            tea = reserve("tea")
            tea.compensate(release, "tea", tea)
            milk = reserve.options()("milk", after=[tea])
            milk.compensate(release, "milk", milk)
            s.returns(charge(number, after=[milk]))
        return s.promise

    handle = await order.start(7)
    await run_until_idle(app)

    assert await handle.result(5) == "order 7: the card was refused"
    assert log == ["reserve tea", "reserve milk", "release milk", "release tea", "apologise"]


async def test_a_scope_that_succeeds_undoes_nothing(app: Mainspring) -> None:
    """P15"""
    log: list[str] = []

    @app.task
    def reserve(item: str) -> str:
        log.append(item)
        return item

    @app.task
    def release(item: str) -> None:
        log.append(f"release {item}")

    @app.process
    def order() -> Promise[str]:
        with scope(timeout=3600) as s:
            s.returns(reserve("tea").compensate(release, "tea"))
        return s.promise

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == "tea"
    assert log == ["tea"]
    assert await handle.status() == "finished"


async def test_a_signal_is_part_of_the_sender_s_transaction(
    review: Mainspring, database_url: str
) -> None:
    """P13: rolled back, it was never sent."""
    handle = await review.find_process("publish").options(id="p").start(5)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await handle.signal("approved", True, on=connection)
        await connection.rollback()
    await run_until_idle(review)

    assert await handle.status() == "open"
