"""Blocks: calls that are recorded now and made later, when a value says so, once or often. Pure.

A branch of `choose`, the body of a loop, a reminder: each is recorded while its decider runs, as a
decision of its own, and kept as data in the arguments of a task of the engine's. When that task decides,
the block becomes its decision. So no code is looked for later, and a branch is committed like any
decision. In a block a promise of its decider's stands by the place of an edge of that task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainspring.errors import InvalidArguments, PayloadTooLarge
from mainspring.processes.record.decision import ChildTask, Decision, Edge, Ref, Scope
from mainspring.processes.record.recorder import Edges, Recorder
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.signature import PAYLOAD_BYTES, encode_result

Body = Callable[..., object]


class BlockRecorder(Recorder):
    """Takes the calls of one block. `taken`: promises of the decider's that its blocks use."""

    def __init__(self, outer: Recorder, taken: list[Promise[object]]) -> None:
        super().__init__(
            decider=outer.decider,
            limit=outer.limit,
            version_of=outer.version_of,
            searchable=outer.searchable,
        )
        self._outer = outer
        self._taken = taken
        # What comes with each round of a block. Not made by this recorder: that would be a circle.
        self.item = Promise[object](f"item {id(self)}", "the item")

    def ref(self, promise: Promise[object]) -> Ref:
        if promise is self.item:
            return str(place_of(promise, self._taken))
        if promise.maker is self:
            return promise.ref
        self._outer.ref(promise)  # refuses one to which the decider has no right
        return str(place_of(promise, self._taken))

    def ref_of_item(self) -> Promise[object]:
        """The promise of the item, which has a place from here on, used or not."""
        place_of(self.item, self._taken)
        return self.item

    def check_use(self, promise: Promise[object], kind: str) -> None:
        if promise is self.item:
            return
        if promise.maker is self:
            super().check_use(promise, kind)
        else:
            self._outer.check_use(promise, kind)

    def _link(self, edges: Edges, promise: Promise[object], kind: str) -> int:
        if kind != "handle":
            self.check_use(promise, kind)
        return super()._link(edges, promise, kind)


def place_of(promise: Promise[object], among: list[Promise[object]]) -> int:
    """The place of a promise in a list, to which it is added where it is not in it."""
    for n, known in enumerate(among):
        if known.maker is promise.maker and known.ref == promise.ref:
            return n
    among.append(promise)
    return len(among) - 1


def record_block(
    outer: Recorder,
    what: str,
    body: Body,
    taken: list[Promise[object]],
    *,
    takes_item: bool = False,
) -> tuple[Decision, msgspec.Raw]:
    """What a block decides, and the same as JSON. One that takes an item is given its promise, which
    stands in `taken` after those that are there."""
    if isinstance(body, Promise) or not callable(body):
        raise InvalidArguments(
            f"{what} takes a function without arguments, such as `lambda: publish(page)`, got "
            f"{body!r}: a call that is made in the decider itself is made in any case"
        )
    inner = BlockRecorder(outer, taken)
    mark = recorder.set(inner)
    try:
        returned = body(inner.ref_of_item()) if takes_item else body()
    finally:
        recorder.reset(mark)
    if inspect.iscoroutine(returned):
        returned.close()
        raise InvalidArguments(f"{what} takes a plain function, got an async one")
    if isinstance(returned, Promise):
        inner.check_use(returned, "value")
    block = inner.conclude(returned, lambda value: encode_result("block", what, value))
    return block, _encoded(block)


def add_block_task(
    outer: Recorder,
    actor: str,
    args: Mapping[str, object],
    held: Sequence[Promise[object]],
    kind: str = "handle",
    after: Iterable[Promise[object]] = (),
) -> Promise[object]:
    """Record the task that makes blocks: its first edge is of this kind, the others are handles."""
    size = len(msgspec.json.encode(args))
    if size > PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"the blocks of {actor[1:]} are {size} bytes, the limit is {PAYLOAD_BYTES}; put what is large "
            "into a process of its own and call that"
        )
    first = held[:1] if kind != "handle" else []
    return outer.builtin(actor, args, first, kind, list(after), held[len(first) :])


# -- as data


class _Stored(msgspec.Struct):
    """A decision whose tasks have their arguments as JSON, not as text: blocks lie in blocks."""

    children: list[dict[str, msgspec.Raw]] = []
    scopes: tuple[Scope, ...] = ()
    attrs: dict[str, object] | None = None
    returned: Ref | None = None
    result: str | None = None


class Placed(NamedTuple):
    """A block among other tasks of a decision."""

    children: tuple[ChildTask, ...]
    scopes: tuple[Scope, ...]
    attrs: dict[str, object] | None
    returned: Ref | None
    result: str | None

    def decision(self) -> Decision:
        """The block alone."""
        return Decision(self.children, self.scopes, self.attrs, self.returned, self.result)


def _encoded(block: Decision) -> msgspec.Raw:
    children = []
    for child in block.children:
        fields = msgspec.to_builtins(child)
        children.append({**fields, "args": msgspec.Raw(child.args.encode())})
    rest = msgspec.to_builtins(msgspec.structs.replace(block, children=()))
    return msgspec.Raw(msgspec.json.encode({**rest, "children": children}))


def placed(block: msgspec.Raw, promises: Sequence[Ref], after: int = 0) -> Placed:
    """A block as it is made: `promises` are the edges of the task that makes it, `after` the number of
    tasks that the decision makes before those of the block."""
    stored = msgspec.json.decode(block, type=_Stored)

    def at(ref: Ref) -> Ref:
        return ref + after if isinstance(ref, int) else promises[int(ref)]

    children = []
    for fields in stored.children:
        args = bytes(fields.pop("args")).decode() if "args" in fields else "{}"
        child = msgspec.json.decode(msgspec.json.encode(fields), type=ChildTask)
        edges = tuple(Edge(at(edge.promise), edge.kind) for edge in child.edges)
        children.append(msgspec.structs.replace(child, args=args, edges=edges))
    scopes = [msgspec.structs.replace(s, result=s.result + after) for s in stored.scopes]
    returned = None if stored.returned is None else at(stored.returned)
    return Placed(tuple(children), tuple(scopes), stored.attrs, returned, stored.result)
