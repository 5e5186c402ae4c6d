"""What would turn a false trigger true: the next fact, or the shortest list of facts (R17). Pure.

Every leaf asks that a param, or the clock, stand at or beyond something that only rises when other params
rise. So the least values that turn some leaves true at once are found by meeting what is wanting, looking
again at what that turned false, and so on until nothing is. Of the ways through any_of the one with the
fewest facts is taken, and among these the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, product
from typing import TypeAlias

from mainspring.reactive.decide.evaluate import (
    NOTHING,
    Fact,
    LeafVerdict,
    Verdict,
    evaluate,
    show_moment,
    show_value,
)
from mainspring.reactive.model.triggers import (
    AnyOf,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    Leaf,
    RefDelay,
)
from mainspring.reactive.model.values import EPOCH, MICROSECOND, AnyParam, Kind, Value, later

Way: TypeAlias = tuple[Leaf, ...]  # leaves that turn a tree true together
# Of a tree with more ways than this each any_of is looked at for itself.
MOST_WAYS = 256
# A need met can turn another leaf false, so often at most in a row; the longest seen is 4.
ROUNDS = 20
LOWEST: Mapping[Kind, Value] = {"instant": EPOCH, "integer": -(10**18), "version": ""}


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that is wanting: a param at or beyond a value, or with any other one; or a moment.

    `param` is none where only time must pass. `value` is none where any value will do, `up_to` a bound
    if there is one. `version`: it must differ from this.
    """

    param: AnyParam | None
    value: Value | None = None
    version: str | None = None
    at: datetime | None = None
    up_to: Value | None = None

    def __str__(self) -> str:
        if self.param is None:
            return (
                f"time: {show_moment(self.at)}" if self.at is not None else "nothing: it cannot be"
            )
        if self.version is not None:
            return f"{self.param} to be another than {self.version!r}"
        if self.value is None:
            bound = "" if self.up_to is None else f", {show_value(self.up_to)} at most"
            return f"{self.param} to have a value{bound}"
        return f"{self.param} >= {show_value(self.value)}"


def needs_of(verdict: Verdict) -> tuple[Need, ...]:
    """The shortest list of facts that would turn a false trigger true; empty for a true one."""
    if verdict.true:
        return ()
    facts: dict[str, Fact] = {}
    for leaf in verdict.leaves():
        facts[leaf.trigger.param.key] = leaf.fact
        if isinstance(leaf.trigger, RefDelay | ChunkRefDelay):
            facts[leaf.trigger.behind.key] = leaf.behind
    now = next(iter(verdict.leaves())).now
    return _shortest(_ways(verdict, facts, now), facts, now) or (Need(None),)


def _shortest(
    ways: Iterable[Way], facts: Mapping[str, Fact], now: datetime
) -> tuple[Need, ...] | None:
    found = [needs for way in ways if (needs := _least(way, facts, now)) is not None]
    return min(found, key=lambda needs: _length(needs, facts, now), default=None)


def _ways(verdict: Verdict, facts: Mapping[str, Fact], now: datetime) -> list[Way]:
    """All ways to turn a tree true."""
    if isinstance(verdict, LeafVerdict):
        return [(verdict.trigger,)]
    children = [_ways(child, facts, now) for child in verdict.children]
    if isinstance(verdict.trigger, AnyOf):
        return [*chain.from_iterable(children)]
    if math.prod(map(len, children)) > MOST_WAYS:
        children = [[_first(ways, facts, now)] for ways in children]
    return [tuple(chain.from_iterable(way)) for way in product(*children)]


def _first(ways: list[Way], facts: Mapping[str, Fact], now: datetime) -> Way:
    best = _shortest(ways, facts, now)
    return next(way for way in ways if _least(way, facts, now) == best)


def _least(way: Way, facts: Mapping[str, Fact], now: datetime) -> tuple[Need, ...] | None:
    """The least facts that turn all leaves of a way true; none if nothing can."""
    known, wanted = dict(facts), dict[str, Need]()
    for _ in range(ROUNDS):
        verdicts = [evaluate(leaf, known, now) for leaf in way]
        wanting = [v for v in verdicts if isinstance(v, LeafVerdict) and not v.true]
        if not wanting:
            return tuple(_bounded(need, way, known) for need in wanted.values())
        for need in chain.from_iterable(map(_leaf_needs, wanting)):
            if need.param is not None:
                _meet(need, need.param, known, wanted)
            elif need.at is None:
                return None
            else:
                now = max(now, need.at)
                wanted[""] = Need(None, at=now)
    return None


def _meet(need: Need, param: AnyParam, known: dict[str, Fact], wanted: dict[str, Need]) -> None:
    """Let a param stand where a need wants it, if it does not stand beyond."""
    fact = known.get(param.key, NOTHING)
    value = LOWEST[param.kind] if need.value is None else need.value
    if need.version is not None:
        value = need.version + "*"
    elif fact.value is not None and fact.value >= value:  # type: ignore[operator]
        return
    known[param.key] = replace(fact, value=value)
    wanted[param.key] = need


def _bounded(need: Need, way: Way, known: Mapping[str, Fact]) -> Need:
    """Where any value will do: how high it may be without turning a leaf false that is behind it."""
    if need.param is None or need.value is not None or need.version is not None:
        return need
    bounds: list[Value | None] = []
    for leaf in way:
        if isinstance(leaf, RefDelay | ChunkRefDelay) and leaf.behind.key == need.param.key:
            value = known[leaf.param.key].value
            if value != LOWEST[leaf.param.kind]:
                bounds.append(_highest(leaf, value))
    there = [bound for bound in bounds if bound is not None]
    return replace(need, up_to=min(there, default=None))


def _highest(leaf: RefDelay | ChunkRefDelay, value: Value | None) -> Value | None:
    """How far the one that a leaf compares with may go while the leaf stays true."""
    if isinstance(value, datetime):
        if isinstance(leaf, ChunkRefDelay):
            end = leaf.chunk.shift(value, (leaf.at_most or 0) + 1)
            return None if end is None else end - MICROSECOND
        return later(value, leaf.at_most)  # type: ignore[arg-type]
    assert isinstance(value, int)
    assert isinstance(leaf.at_most, int)
    return value + leaf.at_most


def _length(
    needs: Iterable[Need], facts: Mapping[str, Fact], now: datetime
) -> tuple[int, timedelta, int]:
    """How many facts, and how far they are: in time, and in numbers."""
    count, time, number = 0, timedelta(), 0
    for need in needs:
        count += 1
        value = facts.get(need.param.key, NOTHING).value if need.param is not None else now
        if isinstance(goal := need.at or need.value, datetime):
            time += goal - (value if isinstance(value, datetime) else min(now, goal))
        elif isinstance(goal, int):
            number += goal - (value if isinstance(value, int) else min(0, goal))
    return count, time, number


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


def _at(param: AnyParam, value: Value | None) -> tuple[Need, ...]:
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
