"""Which visit starts next, and whether it may, as far as the other queues are concerned. Pure, no I/O.

The greatest priority goes first, within it the oldest (Choice). What keeps a queue back keeps back no
other. Four rules weigh queues against each other (Fairness). Queues with a *share* (a crawl) have together
at most that share of the slots, and at least that share of the starts. Queues that *leave slots* take none
of the last free ones while others of them have none. The engine's own queues are *beside*: they need no
slot when all are taken. *Background* priorities (0 to 2) give way: while other work is about, few of their
starts are unsettled at a time, for what has begun is not interrupted. Starts that are owed to a share are
had all the same. tests/model/fairness_protocol.py walks them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from mainspring.kernel.run.queue import Level, QueueState
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import END, PRIORITIES, Position, Run, Visit

# Priorities below this are background work.
BACKGROUND_BELOW = 3
_URGENT_FIRST = tuple(reversed(PRIORITIES))
Levels = list[dict[str, QueueState]]  # by priority
Found = tuple[Level, Position]  # and the next that waits with the same priority elsewhere


def _levels() -> Levels:
    return [{} for _ in PRIORITIES]


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
        # So many slots are left to those who have none.
        self._spare = slots // tuning.spare_part if self._without_run else 0
        self.shares = bool(self._shared)  # starts have to be counted
        self.leaves = self._spare > 0  # slots have to be counted
        self._live_until = -math.inf  # other work is about until then
        # Versions of background visits that were started while it was: until when each counts.
        self._under_way: dict[int, float] = {}

    @property
    def owes(self) -> bool:
        """Whether the next start belongs to a queue with a share."""
        return self._credit >= 1.0

    # -- may it start

    @property
    def is_tight(self) -> bool:
        """Whether no slots are free but those that are left to queues without a run."""
        return self._spare > 0 and self._slots - self._taken <= self._spare

    def keeps_back(self, queue: QueueState, *, is_tight: bool) -> bool:
        """Whether a queue has its part of the slots already, or leaves the free ones to others."""
        if queue.settings.share is not None and self.is_crowded(queue):
            return True
        return is_tight and self._must_leave(queue)

    def is_crowded(self, queue: QueueState) -> bool:
        """Whether queues with a share have it already. Those with a greater one than its own keep a queue
        back only when they have theirs: else it would wait as long as they have anything to run."""
        mine = queue.settings.share
        if mine is None:
            return False
        running = no_greater = 0
        for other in self._shared:
            running += other.running
            if (other.settings.share or 0.0) <= mine:
                no_greater += other.running
        return running >= self._slots_of(self._share) or no_greater >= self._slots_of(mine)

    def _slots_of(self, share: float) -> int:
        return max(1, int(share * self._slots))

    def _must_leave(self, queue: QueueState) -> bool:
        """Whether the free slots are for queues that have no run yet."""
        leaves = queue.settings.leaves_slots or queue.settings.share is not None
        return queue.running > 0 and leaves and self._slots - self._taken <= self._without_run

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
        """Every start earns those with a share that part of one. Returns whether this one was owed."""
        was_owed, is_theirs = self._credit >= 1.0, queue.settings.share is not None
        credit = self._credit + self._share - is_theirs
        self._credit = 0.0 if credit < 0.0 else credit if credit < 1.0 else 1.0
        return was_owed and is_theirs

    def take_slot(self, queue: QueueState) -> None:
        """Before the run is counted."""
        self._without_run -= queue.settings.leaves_slots and not queue.running
        self._taken += queue.needs_slot

    def free_slot(self, queue: QueueState) -> None:
        """After the run is no longer counted."""
        self._taken -= queue.needs_slot
        self._without_run += queue.settings.leaves_slots and not queue.running

    def settled(self, runs: Iterable[Run]) -> bool:
        """Returns whether background visits may start that could not."""
        if not self._under_way:
            return False
        before = len(self._under_way)
        for run in runs:
            self._under_way.pop(run.visit.version, None)
        return len(self._under_way) < before


class Choice:
    """Queues that have visits of each priority: a choice looks only at these."""

    def __init__(self, fairness: Fairness) -> None:
        self._fairness = fairness
        self._all, self._shared, self._beside = _levels(), _levels(), _levels()
        # When nothing could start: the local time at which it may find something.
        self.next_at = math.inf
        # The level that was chosen last, if others of it may follow without a choice between queues: up
        # to the position of the next visit that waits with the same priority.
        self.followed: Level | None = None
        self.rival: Position = END

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
        if not queue.needs_slot:
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
        return self._find(now) is not None

    def best(self, now: float, *, beside: bool) -> Level | None:
        """The level of the greatest priority, and within it of the oldest visit, that may start.
        `beside`: only of queues that need no slot."""
        self.next_at = math.inf
        found = self._best_of(self._beside, now) if beside else self._find(now)
        if found is None:
            return None
        level, self.rival = found
        return level

    def follow(self, level: Level | None) -> None:
        """Visits of this level, if any, may follow the one that was just taken."""
        self.followed = level

    @property
    def owes(self) -> bool:
        """Whether the next start is owed to queues that have visits."""
        return self._fairness.owes and any(self._shared)

    def _find(self, now: float) -> Found | None:
        """First of the queues that the next start is owed to, whatever waits with greater priority."""
        owed = self._best_of(self._shared, now, owed=True) if self.owes else None
        return self._best_of(self._all, now) if owed is None else owed

    def _best_of(self, waiting: Levels, now: float, *, owed: bool = False) -> Found | None:
        fairness, is_tight = self._fairness, self._fairness.is_tight
        for priority in _URGENT_FIRST:
            if not waiting[priority] or not (owed or self._is_open(priority, now)):
                continue
            best: Level | None = None
            first = rival = END
            for queue in waiting[priority].values():
                weighed = is_tight or queue.settings.share is not None
                if weighed and fairness.keeps_back(queue, is_tight=is_tight):
                    continue
                if queue.limited and not self._has_come(queue.ready_at(now), now):
                    continue
                front = (level := queue.levels[priority]).front
                if best is None:
                    best, first = level, front
                elif front < first:
                    best, first, rival = level, front, first
                elif front < rival:
                    rival = front
            if best is not None:
                return best, rival
        return None

    def _is_open(self, priority: int, now: float) -> bool:
        """Whether this priority need not give way."""
        return priority >= BACKGROUND_BELOW or self._has_come(self._fairness.opens_at(now), now)

    def _has_come(self, at: float, now: float) -> bool:
        """Whether it is that time; if not, something may be found then."""
        if at > now:
            self.next_at = min(self.next_at, at)
        return at <= now
