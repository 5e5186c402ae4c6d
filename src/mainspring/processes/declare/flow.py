"""Choices, loops and reminders without a function of their own for every body.

A body is a function without arguments, most often a lambda: it is called while the decider runs, and what
it calls is kept as a block, which is made when its time comes. So clocks and random numbers in it are of
the decider's moment, and what is recorded so is what is made, whatever code is deployed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar, overload

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.processes.declare.decider_api import Signal, seconds
from mainspring.processes.record.arguments import promises_of
from mainspring.processes.record.blocks import add_block_task, place_of, record_block
from mainspring.processes.record.flow import CHOOSE, EACH, EVERY, REPEAT, Loop
from mainspring.processes.record.recorder import current
from mainspring.tasks.declare.promise import Promise

K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")


@overload
def choose(
    promise: Promise[K],
    cases: Mapping[K, Callable[[], Promise[R]]],
    *,
    otherwise: Callable[[], Promise[R]] | None = ...,
    failed: Callable[[], Promise[R]] | None = ...,
) -> Promise[R]: ...
@overload
def choose(
    promise: Promise[K],
    cases: Mapping[K, Callable[[], Promise[R] | R]],
    *,
    otherwise: Callable[[], Promise[R] | R] | None = ...,
    failed: Callable[[], Promise[R] | R] | None = ...,
) -> Promise[R]: ...
def choose(
    promise: Promise[object],
    cases: Mapping[K, Callable[[], object]],
    *,
    otherwise: Callable[[], object] | None = None,
    failed: Callable[[], object] | None = None,
) -> Promise[object]:
    """Go on by a value: the calls of the body of its case are made, and what that returns is the result.

    `otherwise` is for all other values; without it one that has no case parks the choice. `failed` catches
    a failure of the promise.

        choose(answer, {True: lambda: publish(page), False: lambda: reject(page)})
    """
    outer = current("choose(...)")
    held = promises_of("choose", [promise])

    listed = []
    for value, body in cases.items():
        listed.append((_key(value), record_block(outer, "choose", body, held)[1]))
    args: dict[str, object] = {"cases": listed}
    if otherwise is not None:
        args["otherwise"] = record_block(outer, "choose", otherwise, held)[1]
    if failed is not None:
        args["failed"] = record_block(outer, "choose", failed, held)[1]
    return add_block_task(outer, CHOOSE, args, held, "value" if failed is None else "outcome")


def repeat_until(
    body: Callable[[], Promise[R]],
    *,
    every: timedelta | float | None = None,
    times: int | None = None,
) -> Promise[R]:
    """Make the calls of the body again and again until the promise it returns comes to a value that is
    true (not False, None, 0 or empty), `every` seconds after the end of the round before; at most `times`.

    Its result is the last round's. A round that fails ends the loop with its failure.

        repeat_until(lambda: has_arrived(parcel), every=600, times=100)
    """
    outer = current("repeat_until(...)")
    held: list[Promise[object]] = []
    block, text = record_block(outer, "repeat_until", body, held)
    if not isinstance(block.returned, int):
        raise InvalidArguments(
            "the body of repeat_until returns the promise of a call that it makes, whose value says "
            "whether there is another round"
        )
    pause = None if every is None else seconds("every", every)
    args = _loop(Loop(text, len(held), pause, _times(times)))
    return add_block_task(outer, REPEAT, args, held)  # type: ignore[return-value]


def every(
    pause: timedelta | float,
    body: Callable[[], object],
    *,
    until: Promise[object],
    times: int | None = None,
) -> Promise[None]:
    """Make the calls of the body every so many seconds until a promise has ended, at most `times`.

    Nobody need wait for it: it does not keep its process open.

        every(timedelta(days=1), lambda: remind(who, page), until=answer)
    """
    outer = current("every(...)")
    held = promises_of("every", [until])
    _, text = record_block(outer, "every", body, held)
    place_of(until, held)
    args = _loop(Loop(text, len(held), seconds("pause", pause), _times(times)))
    return add_block_task(outer, EVERY, args, held)  # type: ignore[return-value]


def for_each(
    signal: Signal[T],
    body: Callable[[Promise[T]], Promise[R]],
    *,
    until: Promise[object],
) -> Promise[list[R]]:
    """Make the calls of the body for each signal that comes, while those of others run, until a promise
    has ended: a map whose items come one by one. What was sent before that end is taken all the same.

    The body is given the promise of the item. The result is those of all, in the order of coming.

        for_each(added, lambda page: scan(page), until=closed.wait())
    """
    outer = current("for_each(...)")
    held = promises_of("for_each", [until])
    block, text = record_block(outer, "for_each", body, held, takes_item=True)
    if block.returned is None:
        raise InvalidArguments(
            "the body of for_each returns the promise of a call that it makes, whose value is the item's"
        )
    held.pop(1)  # the item, which comes later
    args = {"block": text, "held": len(held), "signal": signal.name}
    return add_block_task(outer, EACH, args, held)  # type: ignore[return-value]


def _loop(loop: Loop) -> dict[str, object]:
    return {
        name: value for name, value in msgspec.structs.asdict(loop).items() if value is not None
    }


def _times(times: int | None) -> int | None:
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise InvalidArguments(f"times is how often at most, 1 or more, got {times!r}")
    return times


def _key(value: object) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except TypeError as error:
        raise InvalidArguments(f"a case of choose is a value that JSON has: {error}") from None
