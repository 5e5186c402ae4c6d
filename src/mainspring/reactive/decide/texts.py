"""Values and verdicts in the words of `why`, logs and timelines. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from mainspring.reactive.decide.evaluate import LeafVerdict, Verdict
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.triggers import (
    ChunkDelay,
    ChunkDelta,
    ChunkRefDelay,
    Delay,
    Delta,
    RefDelay,
    show_amount,
)
from mainspring.reactive.model.values import Value


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
