"""Order fulfilment: stock, a human approval for large orders, payment, shipping; undone if it fails.

Run it with `mainspring worker examples.orders`, start an order with `mainspring processes start
order '{"number": 7, "item": "tea", "amount": 900}' --id order-7 --app examples.orders`, approve it with
`mainspring processes signal order-7 approved true --app examples.orders`, and look at it with
`mainspring processes show order-7`.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring import (
    Context,
    Failure,
    Mainspring,
    Outcome,
    Promise,
    RetryPolicy,
    scope,
    set_attrs,
)

app = Mainspring()
approved = app.signal("approved", bool)
LARGE = 500
NO_MORE_THAN = 5_000  # what the bank of this example pays


@app.task
def reserve(ctx: Context, item: str) -> str:
    """Take the item from stock; the key makes a second run find the first one's reservation."""
    return f"{item} under {ctx.idempotency_key[:8]}"


@app.task
def put_back(item: str, reserved: Outcome[str]) -> None:
    """Undo `reserve`, also when it never came to an end."""


@app.task(retry=RetryPolicy(attempts=3, first=0.1, give_up_on=(ValueError,)))
def charge(number: int, amount: int) -> str:
    if amount > NO_MORE_THAN:
        raise ValueError(f"the bank refused {amount}")
    return f"receipt {number}"


@app.task
def refund(number: int, receipt: Outcome[str]) -> None:
    """Undo `charge`, if there was one."""


@app.task
def ship(number: int, reserved: str, receipt: str) -> str:
    return f"order {number} shipped"


@app.task
def apologise(failure: Failure, number: int) -> str:
    return f"order {number} was called off: {failure.message}"


@app.process(idle_timeout=600)
def order(number: int, item: str, amount: int) -> Promise[str]:
    set_attrs(amount=amount)
    if amount > LARGE:
        return judge(number, item, amount, approved.wait(timeout=timedelta(days=3)))
    return fulfil(number, item, amount)


@app.process
def judge(number: int, item: str, amount: int, answer: Outcome[bool]) -> Promise[str] | str:
    if not answer.or_else(False):
        return f"order {number} was not approved"
    return fulfil(number, item, amount)


@app.process
def fulfil(number: int, item: str, amount: int) -> Promise[str]:
    with scope(timeout=timedelta(hours=2)) as s:
        s.on_error(apologise, number=number)
        stock = reserve(item)
        stock.compensate(put_back, item, stock)
        receipt = charge(number, amount, after=[stock])
        receipt.compensate(refund, number, receipt)
        s.returns(ship(number, stock, receipt))
    return s.promise
