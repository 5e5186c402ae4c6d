"""Triggers as JSON: how they are stored, so that whoever judges them needs no user code. Pure.

A tree is immutable and known by its fingerprint. A form that this release does not know is refused by
name, never guessed at.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any as AnyJson
from typing import Final, assert_never

from mainspring.errors import UnknownFormat
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.triggers import (
    AllOf,
    AnyOf,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    Trigger,
)
from mainspring.reactive.model.values import MICROSECOND, AnyParam, Param

FORMAT: Final = 1


def dump(trigger: Trigger) -> dict[str, AnyJson]:
    """A trigger as a JSON object."""
    match trigger:
        case AllOf(children=children):
            return {"is": "all", "children": [dump(child) for child in children]}
        case AnyOf(children=children):
            return {"is": "any", "children": [dump(child) for child in children]}
        case Delta(param=param, at_least=least):
            return {"is": "delta", "param": _param(param), "at_least": _amount(least)}
        case Delay(param=param, at_most=most):
            return {"is": "delay", "param": _param(param), "at_most": _amount(most)}
        case RefDelay(param=param, behind=behind, at_most=most):
            sides = {"param": _param(param), "behind": _param(behind)}
            return {"is": "ref_delay", **sides, "at_most": _amount(most)}
        case ChunkDelta(param=param, chunk=chunk, at_least=count):
            return {
                "is": "chunk_delta",
                "param": _param(param),
                "chunk": _chunk(chunk),
                "at_least": count,
            }
        case ChunkDelay(param=param, chunk=chunk, at_most=count):
            return {
                "is": "chunk_delay",
                "param": _param(param),
                "chunk": _chunk(chunk),
                "at_most": count,
            }
        case ChunkRefDelay(param=param, behind=behind, chunk=chunk, at_most=count):
            sides = {"param": _param(param), "behind": _param(behind)}
            return {"is": "chunk_ref_delay", **sides, "chunk": _chunk(chunk), "at_most": count}
    assert_never(trigger)


def load(tree: dict[str, AnyJson], *, format: int = FORMAT) -> Trigger:
    """The trigger of a JSON object, equal to the one dumped."""
    if format > FORMAT:
        raise UnknownFormat(
            f"a trigger was written in format {format}, this release knows {FORMAT}; upgrade this "
            "worker, a newer one will judge it meanwhile"
        )
    match tree["is"]:
        case "all":
            return AllOf(tuple(load(child) for child in tree["children"]))
        case "any":
            return AnyOf(tuple(load(child) for child in tree["children"]))
    param = _load_param(tree["param"])
    match tree["is"]:
        case "delta":
            return Delta(param, _load_amount(param, tree["at_least"]))
        case "delay":
            return Delay(param, tree["at_most"] * MICROSECOND)
        case "ref_delay":
            most = _load_amount(param, tree["at_most"])
            assert most is not None
            return RefDelay(param, _load_param(tree["behind"]), most)
        case "chunk_delta":
            return ChunkDelta(param, Chunk(*tree["chunk"]), tree["at_least"])
        case "chunk_delay":
            return ChunkDelay(param, Chunk(*tree["chunk"]), tree["at_most"])
        case "chunk_ref_delay":
            behind = _load_param(tree["behind"])
            return ChunkRefDelay(param, behind, Chunk(*tree["chunk"]), tree["at_most"])
    raise UnknownFormat(f"no trigger is called {tree['is']!r}; upgrade this worker")


def fingerprint(described: object) -> str:
    """A short name for anything that JSON can say: equal if and only if what it says is."""
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _param(param: AnyParam) -> list[str]:
    return [param.object, param.name, param.kind]


def _load_param(stored: list[AnyJson]) -> AnyParam:
    return Param(*stored)


def _chunk(chunk: Chunk) -> list[str]:
    return [chunk.length, chunk.zone]


def _amount(amount: timedelta | int | None) -> int | None:
    return amount // MICROSECOND if isinstance(amount, timedelta) else amount


def _load_amount(param: AnyParam, stored: int | None) -> timedelta | int | None:
    if stored is None or param.kind != "instant":
        return stored
    return stored * MICROSECOND
