# mypy: no-warn-unreachable
"""What a type checker knows of processes; read by mypy in test_typing.py, never run."""

from __future__ import annotations

from typing import assert_type

from mainspring import Handle, Mainspring
from mainspring.processes.handle import ProcessHandle
from mainspring.processes.verbs import gather, sleep
from mainspring.tasks.promise import Outcome, Promise

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
    assert_type(receipt.compensate(charge, 1), Promise[str])
    return finish(receipt, amount)


@app.process(idle_timeout=60)
async def slow(number: int) -> Promise[str]:
    return order(number)


@app.process
async def plain(number: int) -> int:
    return number


async def main() -> None:
    assert_type(await price.enqueue("tea"), Handle[int])
    assert_type(await charge.enqueue(1, 2), Handle[str])
    handle = await order.start(7)
    assert_type(handle, ProcessHandle[str])
    assert_type(await handle.result(), str)
    assert_type(slow.start_sync(1).result_sync(), str)
    assert_type(await (await plain.start(1)).result(), int)


def wrong() -> None:
    amount = price("tea")
    print(amount.real)  # error: attr-defined
    print(1 + amount)  # error: operator
    print(amount < 3)  # error: operator
    print(amount[0])  # error: index
    print(list(amount))  # error: call-overload
