"""Fairness: whether a visit may start now, as far as the other queues are concerned. Pure, no I/O.

Four rules. Queues with a *share* (a crawl) have together at most that share of the slots, and at least
that share of the starts. Queues that *leave slots* take none of the last free ones while others of them
have none. The engine's own queues are *beside*: they need no slot when all are taken (see Choice).
*Background* priorities (0 to 2) give way: while other work is about, few of their starts are unsettled
at a time, for what has begun is not interrupted. Starts that are owed to a share are had all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Run, Visit

# Priorities below this are background work.
BACKGROUND_BELOW = 3


class Fairness:
    """Of one worker. Costs nothing at a start where no queue has a share or leaves slots."""

    def __init__(self, queues: Iterable[QueueState], slots: int, tuning: Tuning) -> None:
        queues = list(queues)
        self._slots = slots
        self._tuning = tuning
        self._shared = [queue for queue in queues if queue.settings.share is not None]
        self._share = max((queue.settings.share or 0.0 for queue in self._shared), default=0.0)
        self._credit = 0.0  # starts that are owed to queues with a share; one at most
        self._without_run = sum(queue.settings.leaves_slots for queue in queues)
        self._taken = 0  # slots
        self._spare = slots // 4 if self._without_run else 0  # left to those who have none
        self._live_until = -math.inf  # other work is about until then
        # Versions of background visits that were started while it was: until when each counts.
        self._under_way: dict[int, float] = {}

    @property
    def shares(self) -> bool:
        """Whether starts have to be counted."""
        return bool(self._shared)

    @property
    def leaves(self) -> bool:
        """Whether slots have to be counted."""
        return self._spare > 0

    @property
    def owes(self) -> bool:
        """Whether the next start belongs to a queue with a share."""
        return self._credit >= 1.0

    # -- may it start

    def keeps_back(self, queue: QueueState) -> bool:
        """Whether a queue has its part of the slots already."""
        if queue.settings.share is not None and self.is_crowded(queue):
            return True
        return self._spare > 0 and self._must_leave(queue)

    def is_crowded(self, queue: QueueState) -> bool:
        """Whether queues with a share have it already."""
        share = queue.settings.share
        if share is None:
            return False
        return sum(q.running for q in self._shared) >= max(1, int(share * self._slots))

    def _must_leave(self, queue: QueueState) -> bool:
        """Whether the free slots are for queues that have no run yet."""
        free = self._slots - self._taken
        if free > self._spare or not queue.running:
            return False
        if not (queue.settings.leaves_slots or queue.settings.share is not None):
            return False
        return free <= self._without_run

    def gives_way(self, now: float) -> bool:
        """Whether background work gives way: other work is about."""
        return now < self._live_until

    def opens_at(self, now: float) -> float:
        """When a background visit may start, as far as is known now. The heart asks too, in its thread."""
        if not self.gives_way(now):
            return now
        counted = [until for until in self._under_way.copy().values() if until > now]
        if len(counted) < max(1, self._slots // self._tuning.background_part):
            return now
        return min(self._live_until, *counted)

    # -- what it is told

    def met(self, now: float) -> None:
        """Work of a priority that is not background was read."""
        self._live_until = now + self._tuning.live

    def started(self, visit: Visit, queue: QueueState, now: float) -> bool:
        """Count a start. Returns whether it is of background work that gives way: each is weighed anew."""
        is_owed = self._shared and self.count_start(queue)
        if visit.priority >= BACKGROUND_BELOW or not self.gives_way(now):
            return False
        if not is_owed:  # else a crawl would keep back all others
            self._forget_old(now)
            self._under_way[visit.version] = now + self._tuning.background_start
        return True

    def _forget_old(self, now: float) -> None:
        for version in list(self._under_way):
            if self._under_way[version] > now:
                return  # they are in the order of their starts
            del self._under_way[version]

    def count_start(self, queue: QueueState) -> bool:
        """Every start of another queue owes those with a share a part of one. Returns whether this one
        was owed."""
        was_owed = self.owes
        if queue.settings.share is None:
            self._credit = min(1.0, self._credit + self._share)
            return False
        self._credit = 0.0
        return was_owed

    def take_slot(self, queue: QueueState) -> None:
        """Before the run is counted."""
        self._without_run -= queue.settings.leaves_slots and not queue.running
        self._taken += queue.settings.needs_slot

    def free_slot(self, queue: QueueState) -> None:
        """After the run is no longer counted."""
        self._taken -= queue.settings.needs_slot
        self._without_run += queue.settings.leaves_slots and not queue.running

    def settled(self, runs: Iterable[Run]) -> bool:
        """Returns whether background visits may start that could not."""
        if not self._under_way:
            return False
        before = len(self._under_way)
        for run in runs:
            self._under_way.pop(run.visit.version, None)
        return len(self._under_way) < before
