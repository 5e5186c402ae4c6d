"""Deciders of our own: what they come to follows from their inputs alone, without user code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.processes.record import flow
from mainspring.processes.record.arguments import PromiseInput, outcome_json
from mainspring.processes.record.decision import Decision
from mainspring.processes.record.map import decide_chunk
from mainspring.tasks.declare.promise import Failure


def decide(actor: str, args: str, inputs: Sequence[PromiseInput]) -> Decision:
    """The decision of a built-in actor. `inputs[n]` is edge n."""
    match actor:
        case "@map":
            return decide_chunk(args)
        case "@gather":
            return Decision(result=_list(_values(args, inputs)))
        case "@concat":
            return Decision(result=_concatenated(_values(args, inputs)))
        case "@leave" | "@answer":
            values = _values(args, inputs)
            return Decision(result=values[0] if values else None)
        case "@choose":
            return flow.choose(args, inputs)
        case "@repeat":
            return flow.repeat(args, inputs)
        case "@each":
            return flow.each(args, inputs)
        case "@kept":
            return Decision(result=bytes(msgspec.json.decode(args, type=_Kept).value).decode())
        case "@every":
            return flow.every(args, inputs)
        case "@pass_on":
            return _passed_on(inputs[0])
    raise ValueError(f"{actor!r} is not decided from its inputs alone")


def _values(args: str, inputs: Sequence[PromiseInput]) -> list[str]:
    return [_value(inputs[n]) for n in msgspec.json.decode(args, type=_Of).of]


class _Kept(msgspec.Struct):
    value: msgspec.Raw


class _Of(msgspec.Struct):
    of: list[int] = []  # which edges its inputs are


def _value(given: PromiseInput) -> str:
    if given.kind == "outcome":
        return outcome_json(given)
    return given.result if given.result is not None else "null"


def _list(values: Sequence[str]) -> str:
    return f"[{','.join(values)}]"


def _concatenated(lists: Sequence[str]) -> str:
    return _list([inner for text in lists if (inner := text.strip()[1:-1].strip())])


def _passed_on(given: PromiseInput) -> Decision:
    if given.outcome == "err":
        return Decision(error=given.error or Failure("unknown", "no error kept"))
    return Decision(result=given.result)
