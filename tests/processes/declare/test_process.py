"""Processes as users write them, end to end on a worker."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.errors import (
    DuplicateTask,
    IdInUse,
    InvalidArguments,
    InvalidSetting,
    NotFound,
    ResultTimeout,
    UnknownProcess,
)
from mainspring.processes.declare.decider_api import gather
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.tasks.declare.promise import Failure, Outcome, Promise
from mainspring.testing import Clock, run_until_idle

ONCE = RetryPolicy(attempts=1)


def nothing() -> None: ...


class Receipt(msgspec.Struct):
    order: int
    total: int


@pytest.fixture
def shop(app: Mainspring) -> Mainspring:
    @app.task
    def price(item: str) -> int:
        return len(item)

    @app.task
    async def charge(order: int, prices: list[int]) -> Receipt:
        return Receipt(order, sum(prices))

    @app.process
    def order(number: int, items: list[str]) -> Promise[Receipt]:
        return charge(number, [price(item) for item in items])

    return app


async def test_a_process_runs_its_tasks_in_their_order_and_has_a_result(shop: Mainspring) -> None:
    """P1: a decider adds tasks and depends on their results through promises."""
    handle = await shop.find_process("order").start(7, ["tea", "coffee"])
    assert await handle.status() == "open"

    await run_until_idle(shop)

    assert await handle.result(timeout=5) == Receipt(7, 9)
    assert await handle.status() == "finished"


def test_a_process_can_be_started_and_read_by_plain_code(shop: Mainspring) -> None:
    """P6: the row is stored, the caller is answered."""
    handle = shop.find_process("order").start_sync(7, ["tea"])

    assert handle.status_sync() == "open"
    assert shop.find_process("order").options(id="x").start_sync(7, ["tea"]).is_new
    with pytest.raises(ResultTimeout, match=f"processes why {handle.id}"):
        handle.result_sync(timeout=0)
    shop.close_sync()


async def test_who_waits_in_vain_is_told_which_task_is_parked_and_why(app: Mainspring) -> None:
    """P8, P9: by async and plain code; not once it goes on."""
    is_mended = False

    @app.task(retry=ONCE)
    def charge() -> str:
        if not is_mended:
            raise ValueError("no such card")
        return "paid"

    @app.process
    def order() -> Promise[str]:
        return charge()

    handle = await order.start()
    await run_until_idle(app)
    text = "has no result after 0 s: 'charge' is parked: ValueError: no such card; ask `mainspring"
    with pytest.raises(ResultTimeout, match=text):
        await handle.result(0)
    with pytest.raises(ResultTimeout, match=text):
        await asyncio.to_thread(handle.result_sync, 0)

    is_mended = True
    await app.operator.processes.restart_tasks(TaskFilter(actor="charge"))
    await run_until_idle(app)
    assert await handle.result(5) == "paid"


async def test_the_process_of_an_id_is_answered_or_refused_as_asked(shop: Mainspring) -> None:
    """P6, bad input: start with an id that is in use."""
    order = shop.find_process("order").options(id="order-7")
    first = await order.start(7, ["tea"])

    again = await order.start(7, ["tea"])

    assert (again.id, first.is_new, again.is_new) == (first.id, True, False)
    with pytest.raises(IdInUse, match=r"'order-7' was started before and is open.*another id"):
        await order.options(if_taken="refuse").start(7, ["tea"])
    with pytest.raises(IdInUse, match="started before with other arguments"):
        await order.start(8, ["tea"])


async def test_a_start_is_part_of_the_caller_s_transaction(
    shop: Mainspring, database_url: str
) -> None:
    """P6, P13: a start that is rolled back was never made."""
    order = shop.find_process("order")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        handle = await order.options(on=connection).start(7, ["tea"])
        await connection.rollback()

    with pytest.raises(NotFound, match="its start was not committed"):
        await handle.result(timeout=1)


async def test_arguments_are_checked_at_the_start(shop: Mainspring) -> None:
    with pytest.raises(InvalidArguments, match="arguments of process 'order' do not fit"):
        await shop.find_process("order").start("seven", [])


def test_names_of_processes(shop: Mainspring) -> None:
    with pytest.raises(
        UnknownProcess, match=r"no process type is named 'oder'; did you mean 'order'\?"
    ):
        shop.find_process("oder")
    with pytest.raises(DuplicateTask, match="'price' is declared twice"):
        shop.process(name="price")(nothing)
    with pytest.raises(InvalidSetting, match="idle_timeout must be 1 or more seconds, got 0"):
        shop.process(name="other", idle_timeout=0)(nothing)


async def test_deciders_call_deciders_as_steps_of_one_process(app: Mainspring) -> None:
    """P1: a continuation is a decider that takes promises; its parameters get the values."""

    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.process
    def pick(n: int) -> Promise[int] | str:
        return double(n) if n < 100 else f"reached {n}"

    @app.process
    async def start(n: int) -> Promise[Any]:
        return pick(double(n))

    small, large = await start.start(3), await start.start(60)
    await run_until_idle(app)

    assert (await small.result(5), await large.result(5)) == (12, "reached 120")


async def test_a_failure_that_is_caught_arrives_as_an_outcome(app: Mainspring) -> None:
    """P9: an Outcome catches; what it was is told."""

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        raise ValueError("the card was refused")

    @app.process
    def finish(order: int, payment: Outcome[int]) -> str:
        assert isinstance(payment.failure, Failure)
        return f"order {order}: {payment.failure}"

    @app.process
    def order(number: int) -> Promise[str]:
        return finish(number, charge(number))

    handle = await order.start(7)
    await run_until_idle(app)

    assert await handle.result(5) == "order 7: ValueError: the card was refused"


async def test_a_failure_that_nobody_catches_parks_its_task_and_other_branches_go_on(
    app: Mainspring,
) -> None:
    """P9: broken tasks, not broken processes."""
    done: list[str] = []

    @app.task(retry=ONCE)
    def charge(order: int) -> int:
        raise ValueError("the card was refused")

    @app.task
    def report(order: int) -> None:
        done.append("reported")

    @app.task
    def ship(order: int, payment: int) -> None:
        done.append("shipped")

    @app.process
    def order(number: int) -> None:
        report(number)
        ship(number, charge(number))

    handle = await order.start(7)
    await run_until_idle(app)

    assert done == ["reported"]
    assert await handle.status() == "open"


async def test_a_failed_attempt_of_a_decider_leaves_no_children(app: Mainspring) -> None:
    """P1: the children of a failed attempt never exist."""
    ran: list[int] = []
    attempts: list[int] = []

    @app.task
    def work(n: int) -> int:
        ran.append(n)
        return n

    @app.process(retry=RetryPolicy(attempts=3, first=0.0))
    def order() -> Promise[Any]:
        attempts.append(1)
        made = [work(n) for n in range(len(attempts))]
        if len(attempts) < 3:
            raise ConnectionError("not now")
        return gather(made)

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == [0, 1, 2]
    assert sorted(ran) == [0, 1, 2]


async def test_a_handle_travels_unopened_and_is_opened_later(app: Mainspring) -> None:
    """P1: Promise[T] passes the promise itself; returning it is a tail call."""

    @app.task
    def slow() -> str:
        return "late"

    @app.process
    def keep(found: Promise[str], n: int) -> Promise[str]:
        return keep(found, n - 1) if n else found

    @app.process
    def order() -> Promise[str]:
        return keep(slow(), 3)

    handle = await order.start()
    await run_until_idle(app)

    assert await handle.result(5) == "late"


async def test_map_calls_a_task_for_each_item(app: Mainspring) -> None:
    """P15: wide fan-out, in chunks."""

    @app.task
    async def square(n: int, plus: int = 0) -> int:
        return n * n + plus

    @app.process
    def squares(count: int) -> Promise[list[int]]:
        return square.map(range(count), window=4, plus=1)

    handle, none = await squares.start(11), await squares.start(0)
    await run_until_idle(app)

    assert await handle.result(5) == [n * n + 1 for n in range(11)]
    assert await none.result(5) == []


async def test_a_step_has_a_context_with_a_stable_key(app: Mainspring) -> None:
    """P12: the idempotency key is the task's id and generation; T6 for steps."""
    keys: list[str] = []

    @app.task(retry=RetryPolicy(attempts=2, first=0.0))
    def charge(ctx: Context, order: int) -> int:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise ConnectionError("again")
        return order

    @app.process
    def order(number: int) -> Promise[int]:
        return charge(number)

    handle = await order.start(7)
    await run_until_idle(app)

    assert await handle.result(5) == 7
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_misused_promise_parks_the_decider_with_the_lesson(
    app: Mainspring, database_url: str, clock: Clock
) -> None:
    """P1, P9: the top error of beginners is shown at once where the operator looks; no retry helps, and
    nobody catches it: the code is wrong."""

    @app.task
    def price(item: str) -> int:
        return len(item)

    @app.process
    def order(item: str) -> int:
        if price(item) > 3:
            return 1
        return 0

    @app.task
    def note(total: Outcome[int]) -> None:
        pass

    @app.process
    def caught(item: str) -> None:
        return note(order(item))

    await caught.start("tea")
    await run_until_idle(app)
    await clock.advance(2 * 3600)  # past the next look
    await run_until_idle(app)

    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select actor, error from mainspring.parked_task").fetchall()
    assert rows[0][0] == "order"
    assert "a promise cannot be compared" in rows[0][1]
    assert "pass the promise to it" in rows[0][1]


async def test_a_task_called_in_a_plain_task_is_a_plain_call(app: Mainspring) -> None:
    """P1: only deciders record."""

    @app.task
    def inner(n: int) -> int:
        return n + 1

    @app.task
    def outer(n: int) -> int:
        return inner(n) + 10  # type: ignore[operator, no-any-return]

    @app.process
    def order(n: int) -> Promise[int]:
        return outer(n)

    handle = await order.start(1)
    await run_until_idle(app)

    assert await handle.result(5) == 12
