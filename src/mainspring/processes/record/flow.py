"""What makes blocks: choices, loops and reminders, decided from their inputs alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.processes.record.arguments import PromiseInput
from mainspring.processes.record.blocks import placed
from mainspring.processes.record.decision import ChildTask, Decision, Edge
from mainspring.shape import shape

CHOOSE = "@choose"
REPEAT = "@repeat"
EVERY = "@every"
NO_BLOCK = msgspec.Raw()


class CaseChoice(msgspec.Struct):
    """The arguments of `@choose`; its first input decides."""

    cases: list[tuple[msgspec.Raw, msgspec.Raw]]  # value and block
    otherwise: msgspec.Raw = NO_BLOCK
    failed: msgspec.Raw = NO_BLOCK


class Loop(msgspec.Struct, omit_defaults=True):
    """The arguments of `@repeat` and `@every`, of which `held` inputs are promises of the block."""

    block: msgspec.Raw
    held: int
    every: float | None = None
    left: int | None = None  # rounds to come
    came: bool = False  # the input after those held is what the last round came to


def choose(args: str, inputs: Sequence[PromiseInput]) -> Decision:
    """The branch of the value, or of the failure."""
    choice, given = msgspec.json.decode(args, type=CaseChoice), inputs[0]
    if given.outcome == "err":
        block = choice.failed
    else:
        value = msgspec.json.decode(given.result or "null")
        cases = ((msgspec.json.decode(key), block) for key, block in choice.cases)
        is_it = (block for key, block in cases if type(key) is type(value) and key == value)
        block = next(is_it, choice.otherwise)
        if not bytes(block):
            raise InvalidArguments(
                f"choose has no case for what came, which is {shape(value)}: add it, or otherwise="
            )
    return placed(block, [given.promise for given in inputs]).decision()


def repeat(args: str, inputs: Sequence[PromiseInput]) -> Decision:
    """The next round, or what the last one came to."""
    loop = msgspec.json.decode(args, type=Loop)
    held = [given.promise for given in inputs[: loop.held]]
    if loop.came:
        result = inputs[loop.held].result
        if msgspec.json.decode(result or "null") or loop.left == 0:
            return Decision(result=result)
        loop.came = False
        if loop.every is not None:
            rest = _next(REPEAT, loop, held, Edge(0, "order"))
            return Decision((_sleep(loop.every), rest), returned=1)
    block = placed(loop.block, held)
    assert isinstance(block.returned, int), "the body of a loop returns the promise of a call"
    loop.came, loop.left = True, None if loop.left is None else loop.left - 1
    rest = _next(REPEAT, loop, held, Edge(block.returned, "value"))
    n = len(block.children)
    return Decision((*block.children, rest), block.scopes, block.attrs, returned=n)


def every(args: str, inputs: Sequence[PromiseInput]) -> Decision:
    """The next reminder; the first of the promises held ends them."""
    loop = msgspec.json.decode(args, type=Loop)
    held = [given.promise for given in inputs[: loop.held]]
    assert loop.every is not None, "reminders have a time between them"
    sleep = _sleep(loop.every)
    if not loop.came:
        first = ChildTask("@first_of", "{}", (Edge(0, "outcome"), Edge(held[0], "outcome")))
        loop.came = True
        return Decision((sleep, first, _next(EVERY, loop, held, Edge(1, "outcome"))), returned=2)
    came = inputs[loop.held]
    if came.outcome == "err" or msgspec.json.decode(came.result or "null")["index"] != 0:
        return Decision()  # what they wait for has ended
    loop.left = None if loop.left is None else loop.left - 1
    block = placed(loop.block, held)
    if loop.left == 0:
        return Decision(block.children, block.scopes, block.attrs)
    n = len(block.children)
    first = ChildTask("@first_of", "{}", (Edge(n, "outcome"), Edge(held[0], "outcome")))
    rest = _next(EVERY, loop, held, Edge(n + 1, "outcome"))
    children = (*block.children, sleep, first, rest)
    return Decision(children, block.scopes, block.attrs, returned=n + 2)


def _next(actor: str, loop: Loop, held: Sequence[str], came: Edge) -> ChildTask:
    edges = (*(Edge(promise, "handle") for promise in held), came)
    return ChildTask(actor, msgspec.json.encode(loop).decode(), edges)


def _sleep(seconds: float) -> ChildTask:
    return ChildTask("@sleep", msgspec.json.encode({"seconds": seconds}).decode())
