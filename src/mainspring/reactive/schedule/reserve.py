"""Reservations: slots kept for a more important task whose data is being brought. Pure rules (R9).

A running task P that produces what a more important task X waits for keeps a slot for X, so that X can
start at once. P's own slot will be free then, so of the tasks that wait for P one needs none. Nothing
as important as X or more is ever kept back, so no wait is circular; and P stops counting a bounded
time after it first kept somebody back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

LINGER = timedelta(
    seconds=2
)  # a producer that has ended counts so long, while its news is under way


@dataclass(frozen=True, slots=True)
class Awaited:
    """A task that would start if its producer brought what it brings."""

    task: str
    priority: int
    producer: str
    ended_at: datetime | None  # of the producer; None: it runs


@dataclass(frozen=True, slots=True)
class PoolFiring:
    """A firing of the pool: admitted, or waiting to be."""

    task: str
    priority: int
    firing: int
    admitted: bool
    kept_back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """What an admission came to: who starts, which producers kept somebody back, and until when."""

    admitted: tuple[PoolFiring, ...]
    kept_by: tuple[str, ...]
    again_at: datetime | None


def admit(
    cap: int | None,
    firings: Sequence[PoolFiring],
    awaited: Iterable[Awaited],
    *,
    now: datetime,
    reserve_max: timedelta,
) -> Admission:
    """Who of the waiting starts, in the order given: strictly by priority, then by age."""
    running = {f.task: f for f in firings if f.admitted}
    waiting = [f for f in firings if not f.admitted]
    if cap is None:
        return Admission(tuple(waiting), (), None)
    listed = list(awaited)
    chosen: list[PoolFiring] = []
    kept_by: set[str] = set()
    ends: list[datetime] = []
    for candidate in waiting:
        free = cap - len(running)
        if free <= 0:
            break
        slots, producers, end = _reserved(cap, candidate, running, listed, now, reserve_max)
        if free > slots:
            chosen.append(candidate)
            running[candidate.task] = candidate
        else:
            kept_by |= producers
            ends.append(end)
            break  # nobody who is less important may pass either
    return Admission(tuple(chosen), tuple(sorted(kept_by)), min(ends, default=None))


def _reserved(
    cap: int,
    candidate: PoolFiring,
    running: Mapping[str, PoolFiring],
    awaited: Sequence[Awaited],
    now: datetime,
    reserve_max: timedelta,
) -> tuple[int, set[str], datetime]:
    """Slots that the candidate must leave free, for whose sake, and when that ends at the latest."""
    slots = 0
    producers: set[str] = set()
    ends: list[datetime] = []
    counted: set[str] = set()
    for producer in dict.fromkeys(a.producer for a in awaited):
        mine = [a for a in awaited if a.producer == producer and a.priority > candidate.priority]
        fresh = {a.task for a in mine} - counted - running.keys()
        if not fresh:
            continue
        if producer in running:
            end = (running[producer].kept_back_at or now) + reserve_max
            own = 1  # its own slot will be free
        else:
            moments = [a.ended_at for a in mine if a.ended_at is not None]
            if not moments:
                continue  # a candidate that has not been admitted yet
            end = max(moments) + LINGER
            own = 0
        if end <= now:
            continue
        counted |= fresh
        if len(fresh) > own:
            slots += len(fresh) - own
            producers.add(producer)
            ends.append(end)
    return min(slots, cap - 1), producers, min(ends, default=now)
