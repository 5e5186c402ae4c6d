"""The constants of limits, each with its reason. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitTuning:
    """No promise depends on any of them."""

    # A bucket holds what drips in one of so many parts of a second: bursts stay small.
    bucket_part: int = 10
    # A full group keeps so many visits in memory: enough to go on without a read for each.
    group_keeps: int = 32
    # Where there are many groups each keeps fewer: about so many in all, and one at least.
    groups_keep: int = 12_000
    # An idle group with a rate is kept for so long after its bucket is full: to make it anew for each run
    # costs as much as to count it.
    group_rests: float = 1.0


DEFAULT = LimitTuning()
