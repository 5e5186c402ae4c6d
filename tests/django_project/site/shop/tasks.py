"""Tasks of Django's, of both sorts, and one of Mainspring's own."""

import threading
import time

from django.db import connection, transaction
from django_tasks import task

from mainspring_django import app, current_context
from shop.models import Order


@task
def pay(number: int) -> str:
    Order.objects.filter(number=number).update(paid=True)
    return f"paid {number}"


@task(queue_name="mails", priority=7)
def mail(to: str, words: list[str] | None = None) -> dict[str, object]:
    return {"to": to, "words": words}


@task
async def apay(number: int) -> str:
    order = await Order.objects.aget(number=number)
    order.paid = True
    await order.asave()
    return f"paid {number}"


@task(takes_context=True)
def fail_once(context, number: int) -> str:
    if context.attempt == 1:
        raise LookupError("the first time")
    return f"{context.task_result.id} {context.attempt} {number}"


@task
def fail() -> None:
    raise ValueError("not today")


@task
def unsayable() -> object:
    return object()


@task
def key() -> str:
    return current_context().idempotency_key


@task
def backend() -> list[int]:
    """The server's process of this thread's connection, and the thread."""
    with connection.cursor() as cursor:
        pid = cursor.execute("select pg_backend_pid()").fetchone()[0]
    return [pid, threading.get_ident()]


@task
def leave_open() -> None:
    """What ends in the middle of a block, as an interrupted task can."""
    transaction.atomic().__enter__()
    Order.objects.create(number=-1)


@task
def hang() -> None:
    while True:
        time.sleep(0.01)


@app.task
def own(number: int) -> int:
    return Order.objects.get(number=number).pk
