"""Search attributes of processes."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Mainspring, RetryPolicy, set_attrs
from mainspring.errors import InvalidArguments
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle


async def attrs(app: Mainspring, id: str) -> dict[str, Any]:
    return (await app.operator.processes.find(id)).attrs


async def test_attributes_that_many_steps_set_at_once_are_all_kept(app: Mainspring) -> None:
    """P12, P15: steps of one process whose decisions are committed together."""

    @app.process
    def step(n: int) -> int:
        set_attrs(**{f"step_{n}": n})
        return n

    @app.process
    def order() -> Promise[list[int]]:
        return both([step(n) for n in range(20)])

    @app.task
    def both(steps: list[int]) -> list[int]:
        return steps

    handle = await order.start()
    await run_until_idle(app)

    assert await attrs(app, handle.id) == {f"step_{n}": n for n in range(20)}


async def test_an_attribute_is_changed_and_taken_away(app: Mainspring) -> None:
    """P15: None removes one."""

    @app.process
    def order() -> None:
        set_attrs(city=None, shop=4)

    handle = await order.options(attrs={"city": "Rome", "shop": 3, "vip": True}).start()
    await run_until_idle(app)

    assert await attrs(app, handle.id) == {"shop": 4, "vip": True}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\x00b", "attribute 'city' contains the character NUL"),
        (float("nan"), "attribute 'city' contains NaN or an infinity"),
        ("\ud800", "attribute 'city' cannot be written: .*surrogates not allowed"),
        ([1], "attribute 'city' must be a text, a number or a truth, got"),
    ],
)
async def test_what_cannot_be_an_attribute_is_refused_by_name(
    app: Mainspring, value: Any, said: str
) -> None:
    """Bad input: at the start, and in a decider."""

    @app.process(retry=RetryPolicy(attempts=1))
    def order() -> None:
        set_attrs(city=value)

    with pytest.raises(InvalidArguments, match=said):
        order.options(attrs={"city": value})
    await order.start()
    await run_until_idle(app)

    [group] = await app.operator.processes.parked_groups()
    assert group.error_type == "mainspring.errors.InvalidArguments"
