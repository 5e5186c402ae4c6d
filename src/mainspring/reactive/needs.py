"""What would turn a false trigger true: the next fact, or the shortest list of facts (R17). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.reactive.evaluate import LeafVerdict, Verdict
from mainspring.reactive.texts import show_moment, show_value
from mainspring.reactive.triggers import (
    All,
    Any,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
)
from mainspring.reactive.values import EPOCH, MICROSECOND, Param, Value, later


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that is wanting: a param at or beyond a value, or with any other one; or a moment.

    `param` is none where only time must pass. `value` is none where any value will do. `version`: it
    must differ from this.
    """

    param: Param | None
    value: Value | None = None
    version: str | None = None
    at: datetime | None = None

    def __str__(self) -> str:
        if self.param is None:
            return (
                f"time: {show_moment(self.at)}" if self.at is not None else "nothing: it cannot be"
            )
        if self.version is not None:
            return f"{self.param} to be another than {self.version!r}"
        if self.value is None:
            return f"{self.param} to have a value"
        return f"{self.param} >= {show_value(self.value)}"


def needs_of(verdict: Verdict) -> tuple[Need, ...]:
    """The shortest list of facts that would turn a false trigger true; empty for a true one."""
    if verdict.true:
        return ()
    if isinstance(verdict, LeafVerdict):
        return _leaf_needs(verdict)
    wanting = [needs_of(child) for child in verdict.children if not child.true]
    if isinstance(verdict.trigger, Any):
        return min(wanting, key=len)
    assert isinstance(verdict.trigger, All)
    return _merged(need for needs in wanting for need in needs)


def _merged(needs: Iterable[Need]) -> tuple[Need, ...]:
    """One need for each param: the furthest."""
    kept: dict[str, Need] = {}
    for need in needs:
        key = "" if need.param is None else need.param.key
        known = kept.get(key)
        if known is None or _further(need, known):
            kept[key] = need
    return tuple(kept.values())


def _further(need: Need, known: Need) -> bool:
    if need.param is None:
        return bool(need.at and known.at and need.at > known.at)
    if known.value is None:
        return need.value is not None
    return need.value is not None and need.value > known.value  # type: ignore[operator]


def _leaf_needs(leaf: LeafVerdict) -> tuple[Need, ...]:
    param, value, last = leaf.trigger.param, leaf.fact.value, leaf.fact.last
    match leaf.trigger:
        case Delta() | ChunkDelta() if last is None:
            return (Need(param),)
        case Delta(at_least=least):
            if isinstance(last, str):
                return (Need(param, version=last),)
            return _at(param, _plus(last, least))
        case ChunkDelta(chunk=chunk, at_least=count):
            assert isinstance(last, datetime)
            return _at(param, chunk.shift(last, count or 1))
        case Delay(at_most=most):
            return _at(param, max(later(leaf.now, -most) or EPOCH, EPOCH))
        case ChunkDelay(chunk=chunk, at_most=count):
            if leaf.again_at is not None:
                return (Need(None, at=leaf.again_at),)
            return _at(param, _not_before_1970(chunk.shift(leaf.now, -(count or 0))))
        case RefDelay(behind=behind, at_most=most):
            if leaf.behind.value is None:
                return (Need(behind),) if value is not None else (Need(param), Need(behind))
            return _at(param, _minus(leaf.behind.value, most))
        case ChunkRefDelay(behind=behind, chunk=chunk, at_most=count):
            if leaf.behind.value is None:
                return (Need(behind),) if value is not None else (Need(param), Need(behind))
            assert isinstance(leaf.behind.value, datetime)
            if isinstance(value, datetime) and chunk.count(leaf.behind.value, value) > 0:
                return _at(behind, chunk.floor(value))  # ahead of what it must be together with
            return _at(param, _not_before_1970(chunk.shift(leaf.behind.value, -(count or 0))))


def _at(param: Param, value: Value | None) -> tuple[Need, ...]:
    return (Need(None),) if value is None else (Need(param, value),)


def _not_before_1970(moment: datetime | None) -> datetime:
    return EPOCH if moment is None else max(moment, EPOCH)


def _plus(last: Value | None, least: timedelta | int | None) -> Value | None:
    if isinstance(last, datetime):
        return later(last, least if isinstance(least, timedelta) else MICROSECOND)
    assert isinstance(last, int)
    return last + (least if isinstance(least, int) else 1)


def _minus(value: Value, most: timedelta | int) -> Value:
    if isinstance(value, datetime):
        assert isinstance(most, timedelta)
        return max(later(value, -most) or EPOCH, EPOCH)
    assert isinstance(value, int)
    assert isinstance(most, int)
    return value - most
