"""A worker's part of a queue's limits: pure arithmetic.

A queue's limit is divided into parts, one a worker: a worker starts no more than its part allows, and parts
are changed only under the queue row's lock, where they never add up to more than the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID


class Part(NamedTuple):
    """What one worker has of a queue's limits, and whether it could use more."""

    size: int
    rate: float
    wants: bool
    worker_id: UUID | None = None


class QueueLimits(NamedTuple):
    concurrency: int | None
    rate: float | None
    burst: int | None = None
    rested: float | None = None  # seconds since the last who had a part of the rate gave it back

    def burst_of(self, rate: float) -> float | None:
        """The part of the burst that goes with a part of the rate."""
        return None if self.burst is None or not self.rate else self.burst * rate / self.rate


def next_part(
    limits: QueueLimits,
    mine: Part,
    others: Sequence[Part],
    *,
    wants: bool,
    running: int,
    had_turn: bool = True,
) -> Part:
    """My part of a queue's limits after a look at the others'."""
    size, rate = 0, 0.0
    if limits.concurrency is not None:
        size = next_size(
            limits.concurrency, mine.size, others, wants=wants, running=running, had_turn=had_turn
        )
    if limits.rate is not None:
        rate = next_rate(limits.rate, mine.rate, others, wants=wants)
    return mine._replace(size=size, rate=rate, wants=wants)


def next_size(
    limit: int,
    mine: int,
    others: Sequence[Part],
    *,
    wants: bool,
    running: int,
    had_turn: bool = True,
) -> int:
    """My part of a concurrency limit after a look at the others'; never below what runs."""
    if not wants:
        return min(mine, running)
    target = fair_size(limit, mine, others, had_turn=had_turn)
    return max(target, min(mine, running))


def fair_size(limit: int, mine: int, others: Sequence[Part], *, had_turn: bool = True) -> int:
    """As many runs as I should have who want: while more are under way, none is started.

    All that is free, but where others want too no more than a fair share; what the division leaves over
    goes to whoever comes first, when all have theirs. With fewer permits than wanting workers, one that
    has had its turn gives its permits up and another takes them.
    """
    free = max(0, limit - mine - sum(part.size for part in others))
    rivals = sum(1 for part in others if part.wants)
    if not rivals:
        target = mine + free
    elif limit <= rivals and mine > 0 and any(p.wants and p.size == 0 for p in others) and had_turn:
        target = 0
    else:
        share = max(1, limit // (rivals + 1))
        if mine >= share and all(part.size >= share for part in others if part.wants):
            share = max(share, -(-limit // (rivals + 1)))
        # More than the share only while nobody else could take it.
        target = min(mine + free, share)
    # A limit that was lowered is kept as soon as runs end; what runs is never taken back.
    return min(target, max(0, limit - sum(part.size for part in others)))


def next_rate(limit: float, mine: float, others: Sequence[Part], *, wants: bool) -> float:
    """My part of a rate, by the same rules; a rate divides without a rest."""
    if not wants:
        return 0.0
    free = max(0.0, limit - mine - sum(part.rate for part in others))
    share = limit / (1 + sum(1 for part in others if part.wants))
    return min(mine + free, share)
