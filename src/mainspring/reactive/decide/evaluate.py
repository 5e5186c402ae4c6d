"""The verdict on a trigger: pure, exact, every leaf looked at (no short cut, R10).

Only one thing turns a leaf true by time alone: a value in a later chunk under a ChunkDelay that wants
the same chunk. The verdict carries that moment (`again_at`); everything else that can turn a tree true
is a change of a param, so nothing has to be polled (R7). Verdicts and values in the words of
`why`, logs and timelines stand at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.triggers import (
    AllOf,
    AnyOf,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    Leaf,
    RefDelay,
    Trigger,
    show_amount,
)
from mainspring.reactive.model.values import Value, later


@dataclass(frozen=True, slots=True)
class Fact:
    """What a task's trigger knows of one param: the current value and the one last seen, if any.

    `restated`: chunks below the current value were restated since, and the task wants to run again.
    """

    value: Value | None = None
    last: Value | None = None
    restated: bool = False


NOTHING = Fact()


@dataclass(frozen=True, slots=True)
class LeafVerdict:
    """A leaf, what it looked at, and whether it is true. `assumed`: taken as true without looking."""

    trigger: Leaf
    true: bool
    now: datetime
    fact: Fact
    behind: Fact = NOTHING
    assumed: bool = False

    @property
    def again_at(self) -> datetime | None:
        """When a false leaf turns true by time alone."""
        leaf, value = self.trigger, self.fact.value
        if self.true or not isinstance(leaf, ChunkDelay) or leaf.at_most is not None:
            return None
        if not isinstance(value, datetime) or value <= self.now:
            return None
        return leaf.chunk.floor(value)

    @property
    def until(self) -> datetime | None:
        """When a true leaf turns false by time alone."""
        leaf, value = self.trigger, self.fact.value
        if not self.true or self.assumed or not isinstance(value, datetime):
            return None
        if isinstance(leaf, Delay):
            # at_most is inclusive: false from the next microsecond on, shown as the last true moment
            return later(value, leaf.at_most)
        if isinstance(leaf, ChunkDelay):
            return leaf.chunk.shift(value, (leaf.at_most or 0) + 1)
        return None

    def leaves(self) -> Iterator[LeafVerdict]:
        """Itself."""
        yield self


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """An all_of or any_of with the verdicts of its children."""

    trigger: AllOf | AnyOf
    true: bool
    children: tuple[Verdict, ...]

    @property
    def again_at(self) -> datetime | None:
        """The earliest moment at which a leaf turns true by time alone: worth one more look."""
        if self.true:
            return None
        moments = [leaf.again_at for leaf in self.leaves()]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def until(self) -> datetime | None:
        """When a true tree turns false by time alone."""
        if not self.true:
            return None
        ends = [child.until for child in self.children if child.true]
        if isinstance(self.trigger, AllOf):
            return min((end for end in ends if end is not None), default=None)
        return None if None in ends else max(end for end in ends if end is not None)

    def leaves(self) -> Iterator[LeafVerdict]:
        """The verdicts on the leaves, from left to right."""
        for child in self.children:
            yield from child.leaves()


Verdict: TypeAlias = LeafVerdict | TreeVerdict


def evaluate(
    trigger: Trigger,
    facts: Mapping[str, Fact],
    now: datetime,
    *,
    assume: frozenset[str] = frozenset(),
) -> Verdict:
    """Judge a trigger by the facts of its params (by full name) at a moment of the database's clock.

    Leaves on a param in `assume` are taken as true: what would be if a producer brought it (R9).
    """
    if isinstance(trigger, AllOf | AnyOf):
        children = tuple(evaluate(child, facts, now, assume=assume) for child in trigger.children)
        verdicts = [child.true for child in children]
        true = all(verdicts) if isinstance(trigger, AllOf) else any(verdicts)
        return TreeVerdict(trigger, true, children)
    fact = facts.get(trigger.param.key, NOTHING)
    behind = NOTHING
    if isinstance(trigger, RefDelay | ChunkRefDelay):
        behind = facts.get(trigger.behind.key, NOTHING)
    if assume and _is_assumed(trigger, assume):
        return LeafVerdict(trigger, True, now, fact, behind, assumed=True)
    return LeafVerdict(trigger, _judge(trigger, fact, behind, now), now, fact, behind)


def _is_assumed(leaf: Leaf, assume: frozenset[str]) -> bool:
    if leaf.param.key in assume:
        return True
    # In the same chunk as another: that other one may be the one that is late.
    same = isinstance(leaf, ChunkRefDelay) and leaf.at_most is None
    return same and leaf.behind.key in assume  # type: ignore[union-attr]


def _judge(leaf: Leaf, fact: Fact, behind: Fact, now: datetime) -> bool:
    value = fact.value
    if value is None:
        return False  # R3: nothing is known of the param yet
    match leaf:
        case Delta() | ChunkDelta():
            return fact.last is None or fact.restated or _has_grown(leaf, value, fact.last)
        case Delay(at_most=most):
            assert isinstance(value, datetime)
            return now - value <= most
        case ChunkDelay(chunk=chunk, at_most=count):
            assert isinstance(value, datetime)
            passed = chunk.count(value, now)
            return passed == 0 if count is None else passed <= count
        case RefDelay(at_most=most):
            return behind.value is not None and _distance(behind.value, value) <= most  # type: ignore[operator]
        case ChunkRefDelay(chunk=chunk, at_most=count):
            if behind.value is None:
                return False
            assert isinstance(value, datetime)
            assert isinstance(behind.value, datetime)
            passed = chunk.count(value, behind.value)
            return passed == 0 if count is None else passed <= count


def _has_grown(leaf: Delta | ChunkDelta, value: Value, last: Value) -> bool:
    if isinstance(leaf, ChunkDelta):
        assert isinstance(value, datetime)
        assert isinstance(last, datetime)
        return leaf.chunk.count(last, value) >= (leaf.at_least or 1)
    if isinstance(value, str):
        return value != last
    if leaf.at_least is None:
        return value > last  # type: ignore[operator]
    return _distance(value, last) >= leaf.at_least  # type: ignore[operator]


def _distance(value: Value, other: Value) -> object:
    """Exact: whole microseconds, or whole numbers."""
    return value - other  # type: ignore[operator]


# -- in words


def show_value(value: Value | None, chunk: Chunk | None = None) -> str:
    """A value as people read it: an instant in UTC, or the name of its chunk."""
    if value is None:
        return "nothing"
    if isinstance(value, datetime):
        return chunk.show(value) if chunk is not None else show_moment(value)
    return str(value)


def show_moment(moment: datetime) -> str:
    """An instant to the second; to the microsecond where it has them."""
    shown = moment.astimezone(UTC)
    return f"{shown:%Y-%m-%d %H:%M:%S}{f'.{shown:%f}' if shown.microsecond else ''}Z"


def show_kind(leaf: LeafVerdict) -> str:
    """What a leaf asks, in a few words: 'new day', 'at most 1 day behind now'."""
    match leaf.trigger:
        case Delta(at_least=least):
            return "anything new" if least is None else f"{show_amount(least)} more"
        case ChunkDelta(at_least=count, chunk=chunk):
            return f"a later {chunk}" if count in (None, 1) else f"{count} x {chunk} more"
        case ChunkDelay(at_most=None, chunk=chunk):
            return f"in the same {chunk} as now"
        case ChunkDelay(at_most=count, chunk=chunk):
            return f"at most {count} x {chunk} behind now"
        case ChunkRefDelay(at_most=None, chunk=chunk, behind=behind):
            return f"in the same {chunk} as {behind}"
        case ChunkRefDelay(at_most=count, chunk=chunk, behind=behind):
            return f"at most {count} x {chunk} behind {behind}"
        case RefDelay(at_most=most, behind=behind):
            return f"at most {show_amount(most)} behind {behind}"
        case Delay(at_most=most):
            return f"at most {show_amount(most)} behind now"


def show_values(leaf: LeafVerdict) -> str:
    """What a leaf looked at: '2026-03-09 -> 2026-03-10', 'nothing'."""
    chunk = getattr(leaf.trigger, "chunk", None)
    value = show_value(leaf.fact.value, chunk)
    match leaf.trigger:
        case Delta() | ChunkDelta():
            restated = ", restated since" if leaf.fact.restated else ""
            return f"{show_value(leaf.fact.last, chunk)} -> {value}{restated}"
        case RefDelay() | ChunkRefDelay():
            return f"{value}, the other {show_value(leaf.behind.value, chunk)}"
    return value


def show_cause(verdict: Verdict) -> str:
    """Why a true trigger fired, in one line: the news first, for want of it what else was true."""
    true = [leaf for leaf in verdict.leaves() if leaf.true]
    news = [leaf for leaf in true if isinstance(leaf.trigger, Delta | ChunkDelta)]
    told = [f"{leaf.trigger.param} {show_values(leaf)}" for leaf in news]
    return "; ".join(dict.fromkeys(told)) or "; ".join(str(leaf.trigger) for leaf in true[:1])
