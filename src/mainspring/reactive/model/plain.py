"""Triggers by plain names (R16). They build the classes of `triggers` and do nothing else.

    all_of(new_day(orders), caught_up(fx, with_=orders, chunk="day"))

| word          | is true when |
|---------------|--------------|
| new_data      | there is anything new since the last success |
| grown_by      | there is so much more |
| new_chunk     | the value is in a later chunk; new_hour, new_day, new_week, new_month for short |
| fresh         | the value is not older than that |
| in_this_chunk | the value is in the chunk of now |
| caught_up     | one param is not behind another |
| all_arrived   | every one of these is in a later chunk, and none of them is late |
| any_arrived   | one of these is in a later chunk |
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from mainspring.errors import InvalidTrigger
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.durations import Duration
from mainspring.reactive.model.triggers import (
    AllOf,
    AnyOf,
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    all_of,
    any_of,
)
from mainspring.reactive.model.values import AnyParam


def new_data(param: AnyParam) -> Delta:
    """Anything new since the last success: a later instant, a greater number, another version."""
    return Delta(param)


def grown_by(param: AnyParam, at_least: Duration | int) -> Delta:
    """So much more than at the last success: `grown_by(orders, "2d")`, `grown_by(count, 1000)`."""
    return Delta(param, at_least)


def new_chunk(
    param: AnyParam, chunk: Chunk | str | timedelta, at_least: int | None = None
) -> ChunkDelta:
    """In a later chunk than at the last success, or so many chunks later."""
    return ChunkDelta(param, chunk, at_least)


def new_hour(param: AnyParam, zone: str = "UTC") -> ChunkDelta:
    """In a later hour than at the last success."""
    return ChunkDelta(param, Chunk("hour", zone))


def new_day(param: AnyParam, zone: str = "UTC") -> ChunkDelta:
    """On a later day than at the last success."""
    return ChunkDelta(param, Chunk("day", zone))


def new_week(param: AnyParam, zone: str = "UTC") -> ChunkDelta:
    """In a later week than at the last success."""
    return ChunkDelta(param, Chunk("week", zone))


def new_month(param: AnyParam, zone: str = "UTC") -> ChunkDelta:
    """In a later month than at the last success."""
    return ChunkDelta(param, Chunk("month", zone))


def fresh(param: AnyParam, within: Duration) -> Delay:
    """Not further behind the clock than that. It may never come true: say `expect_within` too."""
    return Delay(param, within)


def in_this_chunk(
    param: AnyParam, chunk: Chunk | str | timedelta, late: int | None = None
) -> ChunkDelay:
    """In the chunk of now; `late`: or at most so many chunks behind it."""
    return ChunkDelay(param, chunk, late)


def caught_up(
    param: AnyParam,
    *,
    with_: AnyParam,
    chunk: Chunk | str | timedelta | None = None,
    late: Duration | int = 0,
) -> RefDelay | ChunkRefDelay:
    """Not behind another param; `late`: not more than that, in chunks if there are any."""
    if chunk is None:
        none = timedelta() if param.kind == "instant" and late == 0 else late
        return RefDelay(param, with_, none)
    if not isinstance(late, int):
        raise InvalidTrigger(
            f"caught_up of {param.key!r} by chunks takes a whole number of them, got late={late!r}"
        )
    return ChunkRefDelay(param, with_, chunk, late)


def all_arrived(
    params: Iterable[AnyParam], chunk: Chunk | str | timedelta, *, late: int | None = 1
) -> AllOf:
    """Every param in a later chunk, and at most `late` chunks behind now (None: however late)."""
    leaves: list[ChunkDelta | ChunkDelay] = []
    for param in params:
        leaves.append(ChunkDelta(param, chunk))
        if late is not None:
            leaves.append(ChunkDelay(param, chunk, late))
    return all_of(*leaves)


def any_arrived(params: Iterable[AnyParam], chunk: Chunk | str | timedelta) -> AnyOf:
    """One param in a later chunk."""
    return any_of(*(ChunkDelta(param, chunk) for param in params))
