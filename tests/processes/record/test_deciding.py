"""`mainspring.testing.decide`: what a decider decides, without a database."""

from __future__ import annotations

import pytest
from deciders import application

from mainspring import Failure, Outcome, Promise, RetryPolicy, set_attrs, sleep
from mainspring.errors import NoDecider, PromiseMisused
from mainspring.testing import decide, given

app = application()
approved = app.signal("approved", bool)


@app.task
def price(item: str) -> int:
    return len(item)


@app.task
def refund(order: int, paid: Outcome[int]) -> None: ...


@app.task(retry=RetryPolicy(attempts=1))
def charge(order: int, prices: list[int]) -> int:
    return sum(prices)


@app.process
def order(number: int, items: list[str]) -> Promise[int]:
    set_attrs(items=len(items))
    paid = charge(number, [price(item) for item in items], after=[approved.wait()])
    paid.compensate(refund, number, paid)
    return paid


@app.process
async def conclude(paid: Outcome[int], later: Promise[str]) -> Promise[str] | str:
    return later if paid.failed else f"paid {paid.value}"


@app.process
def careless(number: int) -> int:
    if price("tea"):
        return 1
    return 2


@app.process
def parent(number: int) -> Promise[int]:
    return order.options(id="order-7").child(number, [], after=[sleep(5)])


def test_the_calls_of_a_decider_are_shown_with_what_they_wait_for() -> None:
    decided = decide(order, 7, ["tea", "milk"])

    tea, milk, wait, paid = decided.calls
    assert [call.actor for call in decided.calls] == ["price", "price", "@signal", "charge"]
    assert (tea.args, milk.args) == ({"item": "tea"}, {"item": "milk"})
    assert paid.args == {"order": 7, "prices": [tea, milk]}
    assert paid.after == [wait]
    assert paid.undo is not None
    assert (paid.undo.actor, paid.undo.args) == ("refund", {"order": 7, "paid": paid})
    assert (decided.returned, decided.value, decided.attrs) == (paid, None, {"items": 2})


async def test_an_async_decider_is_decided_also_where_a_loop_runs() -> None:
    later = given("a promise of the caller's")
    assert decide(conclude, Outcome(5), later).value == "paid 5"
    failed = decide(conclude, Outcome(failure=Failure("OSError", "no")), later)
    assert failed.returned is later
    assert failed.calls == []


def test_a_child_shows_its_type_and_what_it_is_started_with() -> None:
    [pause, child] = decide(parent, 3).calls
    assert child.args["type"] == "order"
    assert child.args["args"] == {"number": 3, "items": []}
    assert child.after == [pause]


def test_what_a_decider_does_wrong_is_raised() -> None:
    with pytest.raises(PromiseMisused, match="a promise is neither true nor false"):
        decide(careless, 3)
    with pytest.raises(NoDecider, match=r"use mainspring\.testing\.decide"):
        sleep(5)
