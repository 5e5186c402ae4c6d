"""Promises are opaque in a decider, and their errors say what to write instead."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from deciders import application, record

from mainspring.errors import OutcomeFailed, PromiseMisused
from mainspring.tasks.declare.promise import Failure, Outcome, Promise

app = application()


@app.task
def charge(order: int) -> int:
    return order * 10


@app.task
async def ship(order: int) -> str:
    return f"shipped {order}"


MISUSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "truth": (bool, "neither true nor false"),
    "if": (lambda p: 1 if p else 2, "neither true nor false"),
    "not": (operator.not_, "neither true nor false"),
    "equal": (lambda p: p == 3, "cannot be compared"),
    "unequal": (lambda p: p != 3, "cannot be compared"),
    "less": (lambda p: p < 3, "cannot be compared"),
    "greater": (lambda p: p > 3, "cannot be compared"),
    "iterate": (list, "cannot be iterated"),
    "unpack": (lambda p: [*p], "cannot be iterated"),
    "length": (len, "no length"),
    "contains": (lambda p: 3 in p, "contains nothing"),
    "item": (lambda p: p["number"], "no items"),
    "attribute": (lambda p: p.total, "no attribute 'total'"),
    "call": (lambda p: p(), "cannot be called"),
    "text": (str, "written as text"),
    "f-string": (lambda p: f"paid {p}", "written as text"),
    "format": (lambda p: f"{p:>10}", "written as text"),
    "add": (lambda p: p + 1, "calculated with"),
    "radd": (lambda p: 1 + p, "calculated with"),
    "int": (int, "calculated with"),
    "index": (lambda p: [1, 2][p], "calculated with"),
    "copy": (copy.copy, "cannot be stored"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_promise_asked_for_its_value_teaches_what_to_write(name: str) -> None:
    """P1: a decider runs before its tasks, so there is no value to be had in it."""
    use, said = MISUSES[name]

    def decider() -> None:
        use(charge(1))

    with pytest.raises(PromiseMisused, match=said) as raised:
        record(decider)

    text = str(raised.value)
    assert "<Promise of charge (call 1 of decider)>" in text
    assert "has no value yet" in text
    assert "pass" in text  # every one of them says what to do


async def test_a_promise_cannot_be_awaited() -> None:
    """P1: nothing waits in a decider."""
    with pytest.raises(
        PromiseMisused, match=r"cannot be awaited in a decider.*no worker is kept busy"
    ):
        await Promise(0, "charge")


def test_a_promise_can_be_shown_and_kept_in_a_set() -> None:
    promise: Promise[int] = Promise(0, "charge")

    assert repr(promise) == "<Promise of charge>"
    assert promise in {promise}
    assert not hasattr(promise, "total")


def test_a_promise_cannot_be_written_as_json() -> None:
    with pytest.raises(TypeError):
        json.dumps(Promise(0, "charge"))
    with pytest.raises(TypeError):
        msgspec.json.encode({"a": Promise(0, "charge")})


async def test_outside_a_decider_a_task_is_a_plain_function() -> None:
    """P1: unit tests need no engine."""
    assert charge(4) == 40
    assert await ship(4) == "shipped 4"


def test_an_outcome_has_a_value_or_a_failure() -> None:
    good: Outcome[int] = Outcome(3)
    bad: Outcome[int] = Outcome(failure=Failure("ValueError", "no stock"))

    assert (good.failed, good.value, good.or_else(9)) == (False, 3, 3)
    assert (bad.failed, bad.or_else(9)) == (True, 9)
    with pytest.raises(OutcomeFailed, match="ValueError: no stock; look at `failed` first"):
        _ = bad.value


def test_an_outcome_can_be_matched() -> None:
    def read(outcome: Outcome[int]) -> str:
        match outcome:
            case Outcome(ok=value, failure=None):
                return f"got {value}"
            case Outcome(failure=failure):
                return f"lost: {failure}"
        raise AssertionError

    assert read(Outcome(3)) == "got 3"
    assert read(Outcome(failure=Failure("ValueError", "none"))) == "lost: ValueError: none"


def test_an_outcome_travels_as_json() -> None:
    kept = msgspec.json.encode(Outcome(3))

    assert msgspec.json.decode(kept, type=Outcome[int]) == Outcome(3)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"ok":"x"}', type=Outcome[int])
