"""What makes blocks: choices, loops and reminders, decided from their inputs alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.processes.record.arguments import PromiseInput
from mainspring.processes.record.blocks import placed
from mainspring.processes.record.decision import ChildTask, Decision, Edge, Ref
from mainspring.shape import shape

CHOOSE = "@choose"
REPEAT = "@repeat"
EVERY = "@every"
EACH = "@each"
KEPT = "@kept"
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


class Each(msgspec.Struct, omit_defaults=True):
    """The arguments of `@each`: what is held is the end of the items, then promises of the block."""

    block: msgspec.Raw
    held: int
    signal: str
    came: bool = False  # the input after those held is what the last wait came to
    ending: bool = False  # the end has come: what was kept by then is taken, and no more


def each(args: str, inputs: Sequence[PromiseInput]) -> Decision:
    """The block for the item that came, and the wait for the next; the results in the order of coming.

    The end may come when an item was taken, and the race was won by the end: then the wait itself says so.
    One that is open still is called off, and only what becomes of it says whether it has taken one.
    """
    loop = msgspec.json.decode(args, type=Each)
    held = [given.promise for given in inputs[: loop.held]]
    if not loop.came:
        loop.came = True
        return _all(_await(loop, held, 0))
    came = inputs[loop.held]
    if not loop.ending and _was_end(came):
        loop.ending = True
        came = inputs[loop.held + 1]  # the wait
        if came.outcome is None:
            stop = ChildTask("@call_off", "{}", (Edge(came.promise, "handle"),))
            return _all((stop, _next_item(loop, held, Edge(came.promise, "outcome"))))
        item = came.result
    elif not loop.ending:
        item = bytes(msgspec.json.decode(came.result or "null", type=_First).value).decode()
    else:
        item = came.result
    if came.outcome == "err":
        is_last = came.error is not None and came.error.type.endswith(".SignalTimeout")
        return Decision(result="[]") if is_last else _all(_await(loop, held, 0))
    kept = ChildTask(KEPT, f'{{"value": {item or "null"}}}')
    block = placed(loop.block, [held[0], 0, *held[1:]], 1)
    n = 1 + len(block.children)
    waits = _await(loop, held, n)
    one = ChildTask("@gather", '{"of": [0]}', (Edge(_made(block.returned), "value"),))
    edges = (Edge(n + len(waits), "value"), Edge(n + len(waits) - 1, "value"))
    both = ChildTask("@concat", '{"of": [0, 1]}', edges)
    children = (kept, *block.children, *waits, one, both)
    return Decision(children, block.scopes, block.attrs, returned=len(children) - 1)


def _all(children: tuple[ChildTask, ...]) -> Decision:
    return Decision(children, returned=len(children) - 1)


def _was_end(came: PromiseInput) -> bool:
    """Whether the race of an item and the end was won by the end."""
    return (
        came.outcome == "err" or msgspec.json.decode(came.result or "null", type=_First).index == 1
    )


class _First(msgspec.Struct):
    index: int
    value: msgspec.Raw = NO_BLOCK


def _made(returned: Ref | None) -> Ref:
    assert returned is not None, "the body of each returns the promise of a call"
    return returned


def _await(loop: Each, held: Sequence[str], at: int) -> tuple[ChildTask, ...]:
    """The wait for the next item, or at the end for one that was kept; and what goes on with it."""
    limit = 0.0 if loop.ending else None
    wait = ChildTask(
        "@signal", msgspec.json.encode({"name": loop.signal, "timeout": limit}).decode()
    )
    if loop.ending:
        return wait, _next_item(loop, held, Edge(at, "outcome"))
    first = ChildTask("@first_of", "{}", (Edge(at, "outcome"), Edge(held[0], "outcome")))
    return wait, first, _next_item(loop, held, Edge(at + 1, "outcome"), Edge(at, "handle"))


def _next_item(loop: Each, held: Sequence[str], *came: Edge) -> ChildTask:
    edges = (*(Edge(promise, "handle") for promise in held), *came)
    return ChildTask(EACH, msgspec.json.encode(loop).decode(), edges)


def _next(actor: str, loop: Loop, held: Sequence[str], came: Edge) -> ChildTask:
    edges = (*(Edge(promise, "handle") for promise in held), came)
    return ChildTask(actor, msgspec.json.encode(loop).decode(), edges)


def _sleep(seconds: float) -> ChildTask:
    return ChildTask("@sleep", msgspec.json.encode({"seconds": seconds}).decode())
