"""The choice of the next: the levels that have visits, and which of them is taken from. Pure, no I/O.

The greatest priority goes first, within it the oldest. What keeps a queue back keeps back no other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator

from mainspring.kernel.run.fairness import BACKGROUND_BELOW, Fairness
from mainspring.kernel.run.level import Level
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.visit import END, PRIORITIES, Position, Visit

_URGENT_FIRST = tuple(reversed(PRIORITIES))
Levels = list[dict[str, QueueState]]  # by priority


def _levels() -> Levels:
    return [{} for _ in PRIORITIES]


class Choice:
    """Queues that have visits of each priority: a choice looks only at these."""

    def __init__(self, fairness: Fairness) -> None:
        self._fairness = fairness
        self._all, self._shared, self._beside = _levels(), _levels(), _levels()
        # When nothing could start: the local time at which it may find something.
        self.next_at = math.inf
        # The level that was chosen last, if others of it may follow without a choice between queues: up
        # to the position of the next visit that waits with the same priority.
        self._chosen: Level | None = None
        self._rival: Position = END

    def __iter__(self) -> Iterator[tuple[QueueState, int]]:
        """Levels that have visits, the least urgent first. The heart asks too, from its thread."""
        for priority, queues in enumerate(self._all):
            for queue in list(queues.values()):
                yield queue, priority

    def note(self, queue: QueueState, priority: int) -> None:
        """A level has visits."""
        self._all[priority][queue.name] = queue
        if queue.settings.share is not None:
            self._shared[priority][queue.name] = queue
        if not queue.settings.needs_slot:
            self._beside[priority][queue.name] = queue

    def note_empty(self, name: str, priority: int) -> None:
        """A level has none any more."""
        for levels in (self._all, self._shared, self._beside):
            levels[priority].pop(name, None)

    @property
    def has_beside(self) -> bool:
        """Whether any visit waits that needs no slot."""
        return any(self._beside)

    def only_below(self, priority: int) -> bool:
        """Whether there are visits, all of a lower priority than this."""
        return any(self._all[:priority]) and not any(self._all[priority:])

    def startable(self, now: float) -> int:
        """Visits that wait for nothing but a slot, as far as their queues are concerned."""
        opens = self._fairness.opens_at(now) <= now
        return sum(
            len(queue.levels[priority])
            # Only a queue with visits is asked when it is ready: to be asked is to want a part.
            for queue, priority in self
            if (opens or priority >= BACKGROUND_BELOW)
            and (not queue.limited or queue.ready_at(now) <= now)
            and not self._fairness.is_crowded(queue)
        )

    def waited_by_shard(
        self, now: float, seconds: float, queues: Collection[str]
    ) -> dict[int, int]:
        """How many visits of these queues have waited so long, where only slots are in their way. How long
        one has waited that was not read is not known."""
        return Counter(
            visit.shard
            for queue, priority in self
            if queue.concurrency is None and not queue.is_shut and queue.name in queues
            for visit in queue.levels[priority]
            if not 0 <= now - visit.read_at < seconds
        )

    def can_start(self, now: float) -> bool:
        """Whether any visit waits for nothing but a slot, as far as its queue is concerned."""
        self.next_at = math.inf
        if self._owed(now) is not None:
            return True
        for priority in _URGENT_FIRST:
            if self._all[priority] and self._is_open(priority, now):
                for queue in self._all[priority].values():
                    if not self._fairness.keeps_back(queue) and self._is_ready(queue, now):
                        return True
        return False

    def best(self, now: float, *, beside: bool) -> Level | None:
        """The level of the greatest priority, and within it of the oldest visit, that may start.
        `beside`: only of queues that need no slot."""
        self.next_at = math.inf
        if beside:
            return self._best_of(self._beside, now)
        owed = self._owed(now)
        return self._best_of(self._all, now) if owed is None else owed

    def follow_only(self, level: Level | None) -> None:
        """Visits of this level, if any, may follow the one that was just taken."""
        self._chosen = level

    def follow(self, now: float, stale: float) -> Visit | None:
        """The visit that follows the one taken last. Without a choice between queues, for nothing has come
        since; None if one must be made."""
        if self._chosen is None or (self._fairness.owes and any(self._shared)):
            return None
        return self._chosen.follow(self._rival, now - stale)

    def _owed(self, now: float) -> Level | None:
        """Of the queues that the next start is owed to, whatever waits with greater priority."""
        if not (self._fairness.owes and any(self._shared)):
            return None
        return self._best_of(self._shared, now, owed=True)

    def _best_of(self, waiting: Levels, now: float, *, owed: bool = False) -> Level | None:
        for priority in _URGENT_FIRST:
            if not waiting[priority] or not (owed or self._is_open(priority, now)):
                continue
            best: Level | None = None
            rival = END
            for queue in waiting[priority].values():
                if self._fairness.keeps_back(queue):
                    continue
                level = queue.levels[priority]
                if queue.limited and not self._is_ready(queue, now):
                    continue
                if best is None:
                    best = level
                elif level.front < best.front:
                    best, rival = level, best.front
                else:
                    rival = min(rival, level.front)
            if best is not None:
                self._rival = rival
                return best
        return None

    def _is_open(self, priority: int, now: float) -> bool:
        """Whether this priority need not give way."""
        if priority >= BACKGROUND_BELOW:
            return True
        opens_at = self._fairness.opens_at(now)
        if opens_at > now:
            self.next_at = min(self.next_at, opens_at)
        return opens_at <= now

    def _is_ready(self, queue: QueueState, now: float) -> bool:
        ready_at = queue.ready_at(now) if queue.limited else now
        if ready_at > now:
            self.next_at = min(self.next_at, ready_at)
        return ready_at <= now
