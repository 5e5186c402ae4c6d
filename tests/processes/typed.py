# mypy: no-warn-unreachable
"""What a type checker knows of processes; read by mypy in test_typing.py, never run."""

from __future__ import annotations

from typing import assert_type

from mainspring import Context, Handle, Mainspring
from mainspring.processes.declare.decider_api import gather, sleep
from mainspring.processes.declare.flow import choose, every, repeat_until
from mainspring.processes.declare.handle import ProcessHandle
from mainspring.processes.declare.races import First, first_of, first_success, some_of
from mainspring.tasks.declare.promise import Outcome, Promise

app = Mainspring()
approved = app.signal("approved", bool)


@app.task
def price(item: str) -> int:
    return len(item)


@app.task(timeout=3.0)
async def charge(order: int, amount: int) -> str:
    return f"{order}: {amount}"


@app.process
def finish(receipt: Outcome[str], amount: Promise[int]) -> str:
    assert_type(receipt.value, str)
    assert_type(receipt.or_else("none"), str)
    return "done"


@app.process
def order(number: int) -> Promise[str]:
    amount = price("tea")
    assert_type(amount, Promise[int])
    receipt = charge(number, amount, after=[sleep(3)])
    assert_type(receipt, Promise[str])
    assert_type(gather(amount, receipt), Promise[tuple[int, str]])
    assert_type(gather([amount, amount]), Promise[list[int]])
    assert_type(price.map(["a", "b"]), Promise[list[int]])
    assert_type(approved.wait(), Promise[bool])
    assert_type(first_of(amount, receipt), Promise[First[int | str]])
    assert_type(first_success([amount, amount], others="go_on"), Promise[First[int]])
    assert_type(some_of(2, amount, amount), Promise[list[First[int]]])
    assert_type(receipt.compensate(charge, 1), Promise[str])
    branches = {True: lambda: charge(1, 2), False: lambda: finish(receipt, amount)}
    assert_type(choose(approved.wait(), branches), Promise[str])
    assert_type(choose(approved.wait(), {True: lambda: price("a")}, failed=lambda: 3), Promise[int])
    assert_type(repeat_until(lambda: price("tea"), every=3), Promise[int])
    assert_type(every(3, lambda: price("tea"), until=amount), Promise[None])
    return finish(receipt, amount)


@app.process(idle_timeout=60)
async def slow(number: int) -> Promise[str]:
    return order(number)


@app.process
async def plain(number: int) -> int:
    return number


@app.task
def poll(number: int, times: int) -> bool:
    return times >= 3


@app.process
def watch(number: int, times: int = 0) -> Promise[int]:
    return go_on(number, times, poll(number, times))


@app.process
def go_on(number: int, times: int, arrived: bool) -> Promise[int] | int:
    again = watch(number, times + 1)
    assert_type(again, Promise[int])
    return times if arrived else again


@app.process
async def maybe(ctx: Context, number: int, parts: list[int]) -> Promise[int] | None:
    return None


@app.task
async def counted(ctx: Context, number: int) -> int:
    return number


@app.process(crash_limit=5)
def parent() -> Promise[str]:
    assert_type(go_on(1, 2, poll(1, 2)), Promise[int])
    assert_type(maybe(1, [price("tea"), price("milk")]), Promise[int | None])
    assert_type(maybe.child(price("tea"), [2]), Promise[int | None])
    assert_type(order.child(7), Promise[str])
    assert_type(counted(7), Promise[int])
    return order.options(id="order-7").child(7, after=[sleep(3)])


async def main() -> None:
    assert_type(await (await maybe.start(1, [2])).result(), int | None)
    assert_type(await (await go_on.start(1, 2, arrived=True)).result(), int)
    assert_type(await price.enqueue("tea"), Handle[int])
    assert_type(await charge.enqueue(1, 2), Handle[str])
    handle = await order.start(7)
    assert_type(handle, ProcessHandle[str])
    assert_type(await handle.result(), str)
    assert_type(slow.start_sync(1).result_sync(), str)
    assert_type(await (await plain.start(1)).result(), int)


def wrong_bodies() -> None:
    choose(approved.wait(), {"yes": lambda: price("a")})  # error: dict-item
    repeat_until(price("tea"))  # error: arg-type
    every(3, price("tea"), until=price("tea"))  # error: arg-type


def wrong() -> None:
    amount = price("tea")
    print(amount.real)  # error: attr-defined
    print(1 + amount)  # error: operator
    print(amount < 3)  # error: operator
    print(amount[0])  # error: index
    print(list(amount))  # error: call-overload


async def wrong_arguments() -> None:
    await order.start("seven")  # error: arg-type
    await order.start()  # error: call-arg
    await order.start(7, 8)  # error: call-arg
    await order.start(numbr=7)  # error: call-arg
    order.start_sync(price("tea"))  # error: arg-type
    await maybe.start(1, ["2"])  # error: list-item
    price(3)  # error: call-overload
    charge(1)  # error: call-overload
    counted("seven")  # error: call-overload
    order.child("seven")  # error: call-overload
    watch(1, times="2")  # error: call-overload
