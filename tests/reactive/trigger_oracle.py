"""Triggers judged by brute force, and strategies that draw them.

The oracle counts chunks by walking over them one by one, and everything else in whole microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

from hypothesis import strategies as st

from mainspring.reactive.decide.evaluate import Fact
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
)
from mainspring.reactive.model.values import Param

BEGIN = datetime(2026, 2, 26, tzinfo=UTC)
END = BEGIN + timedelta(days=70)
INSTANTS = [Param("dwh", name) for name in ("orders", "rides", "fx")]
INTEGERS = [Param("dwh", name, "integer") for name in ("offset", "count")]
VERSIONS = [Param("dwh", name, "version") for name in ("schema",)]

moments = st.integers(0, (END - BEGIN) // timedelta(microseconds=1)).map(
    lambda us: BEGIN + timedelta(microseconds=us)
) | st.integers(0, 70 * 48).map(lambda n: BEGIN + timedelta(minutes=30 * n))
numbers = st.integers(-5, 5)
texts = st.sampled_from(["a", "b", "c"])
lengths = st.sampled_from([timedelta(microseconds=1), timedelta(minutes=30), timedelta(days=2)]) | (
    st.timedeltas(timedelta(0), timedelta(days=3))
)
chunks = st.sampled_from(
    [Chunk("30 minutes"), Chunk("hour"), Chunk("day"), Chunk("week"), Chunk("month")]
)
instant = st.sampled_from(INSTANTS)
integer = st.sampled_from(INTEGERS)
pairs = st.sampled_from([(a, b) for a in INSTANTS for b in INSTANTS if a != b])

deltas: st.SearchStrategy[Leaf] = st.one_of(
    st.builds(Delta, instant, st.none() | lengths.filter(bool)),
    st.builds(Delta, integer, st.none() | st.integers(1, 4)),
    st.builds(Delta, st.sampled_from(VERSIONS)),
    st.builds(ChunkDelta, instant, chunks, st.none() | st.integers(1, 3)),
)
others: st.SearchStrategy[Leaf] = st.one_of(
    st.builds(Delay, instant, lengths),
    pairs.flatmap(lambda pair: st.builds(RefDelay, st.just(pair[0]), st.just(pair[1]), lengths)),
    st.builds(RefDelay, st.just(INTEGERS[0]), st.just(INTEGERS[1]), st.integers(0, 4)),
    st.builds(ChunkDelay, instant, chunks, st.none() | st.integers(0, 3)),
    pairs.flatmap(
        lambda pair: st.builds(
            ChunkRefDelay, st.just(pair[0]), st.just(pair[1]), chunks, st.none() | st.integers(0, 3)
        )
    ),
)
leaves = deltas | others
_inner_any = st.lists(leaves, min_size=1, max_size=3).map(lambda kids: AnyOf(tuple(kids)))
_inner_all = st.lists(leaves, min_size=1, max_size=3).map(lambda kids: AllOf(tuple(kids)))
trees: st.SearchStrategy[Trigger] = st.one_of(
    leaves,
    st.lists(leaves | _inner_any, min_size=1, max_size=4).map(lambda kids: AllOf(tuple(kids))),
    st.lists(leaves | _inner_all, min_size=1, max_size=4).map(lambda kids: AnyOf(tuple(kids))),
)


def _facts(values: st.SearchStrategy[object]) -> st.SearchStrategy[Fact]:
    return st.builds(Fact, st.none() | values, st.none() | values)


facts: st.SearchStrategy[dict[str, Fact]] = st.fixed_dictionaries(
    {
        **{param.key: _facts(moments) for param in INSTANTS},
        **{param.key: _facts(numbers) for param in INTEGERS},
        **{param.key: _facts(texts) for param in VERSIONS},
    }
)


def holds(trigger: Trigger, known: Mapping[str, Fact], now: datetime) -> bool:
    """Whether a trigger is true, by the letter of the rules."""
    if isinstance(trigger, AllOf):
        return False not in [holds(child, known, now) for child in trigger.children]
    if isinstance(trigger, AnyOf):
        return True in [holds(child, known, now) for child in trigger.children]
    value, last = known[trigger.param.key].value, known[trigger.param.key].last
    if value is None:
        return False
    if isinstance(trigger, Delta | ChunkDelta):
        return last is None or _is_news(trigger, value, last)
    other: object = now
    if isinstance(trigger, RefDelay | ChunkRefDelay):
        other = known[trigger.behind.key].value
        if other is None:
            return False
    if isinstance(trigger, Delay | RefDelay):
        return _whole(other) - _whole(value) <= _whole_amount(trigger.at_most)
    passed = _walk(trigger.chunk.length, value, other)
    return passed == 0 if trigger.at_most is None else passed <= trigger.at_most


def _is_news(trigger: Delta | ChunkDelta, value: object, last: object) -> bool:
    if isinstance(trigger, ChunkDelta):
        passed = _walk(trigger.chunk.length, last, value)
        return passed > 0 if trigger.at_least is None else passed >= trigger.at_least
    if isinstance(value, str):
        return value != last
    grown = _whole(value) - _whole(last)
    return grown > 0 if trigger.at_least is None else grown >= _whole_amount(trigger.at_least)


def _whole(value: object) -> int:
    if isinstance(value, datetime):
        gone = value - datetime(1970, 1, 1, tzinfo=UTC)
        return (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds
    assert isinstance(value, int)
    return value


def _whole_amount(amount: timedelta | int) -> int:
    if isinstance(amount, int):
        return amount
    return (amount.days * 86_400 + amount.seconds) * 1_000_000 + amount.microseconds


@cache
def _starts(length: str) -> list[datetime]:
    half_hours = [BEGIN + timedelta(minutes=30 * i) for i in range(71 * 48)]
    begins = {
        "30 minutes": lambda m: True,
        "hour": lambda m: m.minute == 0,
        "day": lambda m: (m.hour, m.minute) == (0, 0),
        "week": lambda m: (m.hour, m.minute) == (0, 0) and m.weekday() == 0,
        "month": lambda m: (m.day, m.hour, m.minute) == (1, 0, 0),
    }[length]
    return [moment for moment in half_hours if begins(moment)]


def _walk(length: str, one: object, other: object) -> int:
    """Starts passed on the way from the one to the other; negative on the way back."""
    assert isinstance(one, datetime)
    assert isinstance(other, datetime)
    if other < one:
        return -_walk(length, other, one)
    return sum(1 for start in _starts(length) if one < start <= other)
