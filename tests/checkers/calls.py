# mypy: no-warn-unreachable
# pyright: strict, reportUnusedCoroutine=false, reportUnusedExpression=false, reportPrivateUsage=false
"""Right and wrong calls, as checkers see them: a line marked as an error is refused. Never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_type
from uuid import UUID

from mainspring import Context, Handle, Mainspring, Outcome, ProcessHandle, Promise, Signal
from mainspring.testing import run_until_idle

app = Mainspring()
approved = app.signal("approved", bool)
nudged = app.signal("nudged", str)


@dataclass
class Receipt:
    number: str


@app.task
async def send_email(ctx: Context, to: str, template: str = "plain", *, order: UUID) -> Receipt:
    return Receipt(to)


@app.task(timeout=3)
def price(item: str) -> int:
    return len(item)


@app.task
def charge(to: str, amount: int, note: str = "") -> Receipt:
    return Receipt(f"{to} {amount} {note}")


@app.task
def total(amounts: Sequence[int], paid: Outcome[Receipt], later: Promise[int] | None = None) -> int:
    return sum(amounts)


@app.process
def order(item: str, count: int = 1) -> Promise[int]:
    amount = price(item)
    assert_type(amount, Promise[int])
    receipt = charge(item, amount)
    charge(item, 3, note="plain values")
    charge(item, price("tea"), note="a promise and values")
    charge(to=item, amount=3)
    charge(item, price("tea"), after=[receipt])
    assert_type(approved.wait(), Promise[bool])
    assert_type(price.map(["a", "b"]), Promise[list[int]])
    assert_type(order.child(item), Promise[int])
    return total([amount, price("b")], receipt, amount)


@app.process
def refused(item: str) -> Promise[int]:
    price(3)  # error
    price()  # error
    price(item, 2)  # error
    price(itme=item)  # error
    charge("x", price("z"), nonsense=1)  # error
    charge("x", price("z"), 3)  # error
    charge(price("x"), 3)  # error
    charge("x", charge("y", 2))  # error
    charge("x")  # error
    total([1], price("x"))  # error
    price.map([1, 2])  # error
    order.child(3)  # error
    return price(item)


async def outside(id: UUID) -> None:
    assert_type(await send_email.enqueue("a@b", order=id), Handle[Receipt])
    assert_type(send_email.enqueue_sync(to="a@b", order=id), Handle[Receipt])
    assert_type((await price.options(delay=3).enqueue("tea")).result_sync(), int)
    await app.enqueue_many([price.bind("tea"), charge.bind("x", 3)])
    handle = await order.start("tea", 2)
    assert_type(handle, ProcessHandle[int])
    await handle.signal(approved, True)
    handle.signal_sync("approved", 1)
    async with app.worker(concurrency=3, pool="default"):
        await run_until_idle(app, lease=1)


async def refused_outside(id: UUID, handle: ProcessHandle[int], mine: Signal[int]) -> None:
    await send_email.enqueue(3, "no-such-template", oder=id)  # error
    await send_email.enqueue()  # error
    await send_email.enqueue("a@b")  # error
    send_email.enqueue_sync(tto="x", order=id)  # error
    await send_email.enqueue(None, "a@b", order=id)  # error
    price.bind(1, 2, 3, 4, 5)  # error
    price.bind(b"x")  # error
    price.options(delay=3).enqueue_sync(3)  # error
    price.options(dely=3)  # error
    await order.start("x", 3, 4, 5)  # error
    await order.start(price("x"))  # error
    await handle.signal(approved, "no bool")  # error
    await handle.signal(mine, "no int")  # error
    handle.signal_sync(nudged)  # error
    app.worker(concurency=3)  # error
    app.worker(concurrency="3")  # error
    app.run(drian=True)  # error
    await run_until_idle(app, timeot=3)  # error
