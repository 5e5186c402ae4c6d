"""What the server's tests serve and run: tasks that note their runs in a table of their own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring import Context, Mainspring, Outcome, Promise, RetryPolicy, Untouched

app = Mainspring()


@app.task(name="mail.send")
async def send(ctx: Context, to: str, copies: int = 1) -> str:
    async with ctx.transaction() as connection:
        await connection.execute("insert into sent (id, receiver) values (%s, %s)", (ctx.id, to))
        ctx.set_result(f"sent to {to} {copies} times")
    return ""


@app.task(name="mail.note")
async def note(text: str) -> str:
    return text


@app.task(name="mail.broken", retry=RetryPolicy(attempts=1))
async def broken() -> None:
    raise ValueError("the letter has no stamp")


@app.task(name="bill.pay")
async def pay(amount: int) -> int:
    gate = Path(os.environ["SERVER_FOLDER"]) / "gate"
    while not gate.exists():
        await asyncio.sleep(0.02)
    return amount


@app.task(name="card.charge", remote=True, retry=RetryPolicy(attempts=3, first=0.0, most=0.0))
def charge(order: int) -> str:
    raise AssertionError("it is run elsewhere")


@app.task(name="card.refund", remote=True, work_timeout=2.0)
def refund(order: int) -> str:
    raise AssertionError("it is run elsewhere")


@app.task(name="card.print", remote=True, retry=RetryPolicy(attempts=1))
def print_card(text: str) -> str:
    raise AssertionError("it is run elsewhere")


@app.process
def shop(order: int) -> Promise[str]:
    return charge(order)


approved = app.signal("approved", bool)


@app.process
def publish(page: int) -> Promise[str]:
    return printed(page, approved.wait())


@app.process
def printed(page: int, answer: Outcome[bool]) -> str:
    return f"page {page} is {'out' if answer.or_else(False) else 'dropped'}"


@app.process
def fails(page: int) -> str:
    raise ValueError(f"page {page} is torn")


listing = app.documents("listing")


@listing.stage(name="price")
class Price:
    """Looks and changes nothing."""

    async def process(self, entity: dict[str, object], state: dict[str, int] | None) -> Untouched:
        return Untouched()


orders = app.data("dwh.orders")
loaded_to = orders.param("loaded_to", external=True)
rows_loaded = orders.param("rows", kind="integer", external=True)
model = app.data("ml.price").param("model", kind="version", external=True)
