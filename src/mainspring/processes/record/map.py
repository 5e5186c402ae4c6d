"""`.map`: a call for each of many items, made in chunks by hidden deciders.

    task.map(items)  ->  @map chunk 0, @map chunk 1, ...   each makes its calls and a @gather
                         @concat of the chunks             the list of all results

So no decision is wider than a chunk, and with a window a chunk is made only when the one `window`
items before it is done. Pure: recording the chunks here, deciding one in `decide_chunk`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from mainspring.errors import InvalidSetting, PromiseMisused
from mainspring.processes.record.arguments import Callee
from mainspring.processes.record.decision import ChildTask, Decision, Edge
from mainspring.tasks.declare.promise import Promise

if TYPE_CHECKING:
    from mainspring.processes.record.recorder import Recorder

MAP = "@map"
CHUNK = 256
MOST_ITEMS = 1_000_000


class MapChunk(msgspec.Struct, frozen=True):
    """The arguments of one hidden decider: calls of one actor, each an object of arguments."""

    actor: str
    calls: list[msgspec.Raw]
    version: int = 1
    outcomes: bool = False
    # Checked, for a remote decision may have brought them.
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None
    group: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None


_chunk_decoder = msgspec.json.Decoder(MapChunk)


def record_map(
    recorder: Recorder,
    callee: Callee,
    items: Iterable[object],
    named: dict[str, object],
    *,
    window: int | None,
) -> Promise[Any]:
    """Record a call of `callee` for each item: its first parameter; `named` are the same for all."""
    if isinstance(items, Promise):
        raise PromiseMisused(
            f"map takes a list, got {items!r}: write a process that takes the list and maps over it, "
            "and pass the promise to that"
        )
    if window is not None and (
        isinstance(window, bool) or not isinstance(window, int) or window < 1
    ):
        raise InvalidSetting(f"window must be a whole number of 1 or more, got {window!r}")
    signature, options = callee.signature, callee.call_options
    calls = [msgspec.Raw(signature.encode((item,), named)) for item in items]
    if len(calls) > MOST_ITEMS:
        raise InvalidSetting(
            f"map of {callee.name!r} over {len(calls)} items, the limit is {MOST_ITEMS}; start a "
            "process for each part"
        )
    size = CHUNK if window is None else min(CHUNK, window)
    back = None if window is None else max(1, window // size)
    chunks: list[Promise[object]] = []
    for start in range(0, len(calls), size):
        before = [chunks[-back]] if back is not None and len(chunks) >= back else []
        args = {
            "actor": callee.name,
            "calls": calls[start : start + size],
            "version": recorder.version_of(callee.name),
            "priority": options.priority,
            "group": options.group,
        }
        chunks.append(recorder.builtin(MAP, args, after=before))
    return recorder.builtin("@concat", {}, chunks)


def decide_chunk(args: str) -> Decision:
    """The decision of a hidden decider: its calls, and their results as a list in its place."""
    chunk = _chunk_decoder.decode(args)
    calls = tuple(
        ChildTask(
            chunk.actor,
            bytes(call).decode(),
            args_version=chunk.version,
            priority=chunk.priority,
            group=chunk.group,
        )
        for call in chunk.calls
    )
    kind = "outcome" if chunk.outcomes else "value"
    join = ChildTask(
        "@gather",
        msgspec.json.encode({"of": list(range(len(calls)))}).decode(),
        tuple(Edge(n, kind) for n in range(len(calls))),
    )
    return Decision((*calls, join), returned=len(calls))
