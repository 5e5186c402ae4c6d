"""Plain names for triggers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.errors import InvalidTrigger
from mainspring.reactive.decide.lint import may_spin
from mainspring.reactive.model import plain as words
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.triggers import (
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    Trigger,
    all_of,
    any_of,
)
from mainspring.reactive.model.values import Param

ORDERS, FX = Param("dwh.orders", "loaded_to"), Param("ext.fx", "loaded_to")
COUNT, OTHER = Param("a", "count", "integer"), Param("b", "count", "integer")


@pytest.mark.parametrize(
    ("built", "meant"),
    [
        (words.new_data(ORDERS), Delta(ORDERS)),
        (words.grown_by(ORDERS, "2d"), Delta(ORDERS, timedelta(days=2))),
        (words.grown_by(COUNT, 5), Delta(COUNT, 5)),
        (words.new_chunk(ORDERS, "quarter", 2), ChunkDelta(ORDERS, Chunk("quarter"), 2)),
        (words.new_hour(ORDERS), ChunkDelta(ORDERS, "hour")),
        (words.new_day(ORDERS, "Europe/Berlin"), ChunkDelta(ORDERS, Chunk("day", "Europe/Berlin"))),
        (words.new_week(ORDERS), ChunkDelta(ORDERS, "week")),
        (words.new_month(ORDERS), ChunkDelta(ORDERS, "month")),
        (words.fresh(ORDERS, "90m"), Delay(ORDERS, timedelta(minutes=90))),
        (words.in_this_chunk(ORDERS, "day"), ChunkDelay(ORDERS, "day")),
        (words.in_this_chunk(ORDERS, "day", 1), ChunkDelay(ORDERS, "day", 1)),
        (words.caught_up(FX, with_=ORDERS), RefDelay(FX, ORDERS, timedelta())),
        (words.caught_up(FX, with_=ORDERS, late="1h"), RefDelay(FX, ORDERS, "1h")),
        (words.caught_up(COUNT, with_=OTHER), RefDelay(COUNT, OTHER, 0)),
        (words.caught_up(FX, with_=ORDERS, chunk="day"), ChunkRefDelay(FX, ORDERS, "day", 0)),
        (
            words.all_arrived([ORDERS, FX], "day"),
            all_of(
                ChunkDelta(ORDERS, "day"),
                ChunkDelay(ORDERS, "day", 1),
                ChunkDelta(FX, "day"),
                ChunkDelay(FX, "day", 1),
            ),
        ),
        (
            words.all_arrived([ORDERS, FX], "day", late=None),
            all_of(ChunkDelta(ORDERS, "day"), ChunkDelta(FX, "day")),
        ),
        (
            words.any_arrived([ORDERS, FX], "day"),
            any_of(ChunkDelta(ORDERS, "day"), ChunkDelta(FX, "day")),
        ),
    ],
)
def test_a_plain_name_builds_a_trigger(built: Trigger, meant: Trigger) -> None:
    """R16: wrapper functions with plain names build triggers; the classes stay low level."""
    assert built == meant


def test_words_for_several_params_need_some() -> None:
    """R5, R16: empty ones are refused."""
    with pytest.raises(InvalidTrigger, match="all_of needs at least one"):
        words.all_arrived([], "day")
    with pytest.raises(
        InvalidTrigger, match="by chunks takes a whole number of them, got late='1h'"
    ):
        words.caught_up(FX, with_=ORDERS, chunk="day", late="1h")
    assert not may_spin(words.all_arrived([ORDERS], "day"))
