"""The buffer: visits that were read and wait for a slot, and the choice of the next one to start.

Pure memory, no I/O. The greatest priority goes first, within it the oldest. A queue that is paused
or at its limit, a group that is full and a key whose turn is taken keep only themselves back. A full
group keeps a few visits here; the rest stays in the database and is read when there is room.
"""

from __future__ import annotations

import heapq
import math
import threading
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mainspring.kernel.config import QueueSettings
from mainspring.kernel.limits import Bucket
from mainspring.kernel.visit import PRIORITIES, Position, Visit

# A full group keeps so many visits in memory: enough to go on without a read for each.
GROUP_KEEPS = 32
SUSPECTS_AT_ONCE = 4
_URGENT_FIRST = tuple(reversed(PRIORITIES))


class Group:
    """A group's visits that wait, its runs, and whether the database has more of it."""

    __slots__ = ("behind", "bucket", "kept", "name", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.kept: list[Visit] = []  # by priority, then oldest first
        self.behind = False  # visits of it were left in the database
        self.bucket: Bucket | None = None


@dataclass(slots=True)
class QueueState:
    """A queue as this worker knows it: what the code declares, what operators set, what runs."""

    settings: QueueSettings
    paused: bool = False
    limited: bool = False
    hold_after: float = 1.0
    work_timeout: float | None = None
    concurrency: int | None = None
    part: int = 0
    rate: float | None = None
    bucket: Bucket | None = None
    group_concurrency: int | None = None
    group_rate: float | None = None
    running: int = 0
    wants_part: bool = False
    groups: dict[str, Group] = field(default_factory=dict)
    levels: list[deque[Visit]] = field(default_factory=lambda: [deque() for _ in PRIORITIES])

    @property
    def name(self) -> str:
        return self.settings.name

    def changed(self) -> None:
        """Settings were changed: is anything but a free slot needed to start?"""
        self.limited = self.paused or self.concurrency is not None or self.rate is not None

    @property
    def buffered(self) -> int:
        return sum(map(len, self.levels))

    def ready_at(self, now: float) -> float:
        """When a visit of it may start as far as the queue is concerned."""
        if self.paused:
            return math.inf
        if self.concurrency is not None and self.running >= self.part:
            self.wants_part = True
            return math.inf
        if self.rate is not None:
            if self.bucket is None or self.bucket.rate <= 0:
                self.wants_part = True
                return math.inf
            return self.bucket.ready_at(now)
        return now


def _order(visit: Visit) -> tuple[int, Position]:
    return (-visit.priority, visit.position)


class Buffer:
    """All queues of a worker."""

    def __init__(self, settings: Iterable[QueueSettings], gate: threading.Lock) -> None:
        self._gate = gate  # the heart changes parts under it
        self.queues = {
            s.name: QueueState(s, hold_after=s.hold_after, work_timeout=s.work_timeout)
            for s in settings
        }
        # Everything this worker has of each visit: buffered, running or unsettled. Never read twice.
        self.in_hand: set[tuple[str, str]] = set()
        # Versions settled since the last read was sent: its page may still show them.
        self.consumed: set[int] = set()
        # Held by runs of other workers in my shards, as of the last beat.
        self.foreign_groups: dict[tuple[str, str], int] = {}
        self.foreign_turns: set[tuple[str, str]] = set()
        self.suspects: deque[Visit] = deque()
        self.suspects_running = 0
        self.crashers_running = 0
        self._turns: dict[tuple[str, str], list[Visit]] = {}
        self._alarms: list[tuple[float, str, str]] = []  # when a group's rate allows its next start
        self._counts = [0 for _ in PRIORITIES]  # visits in the levels of each priority
        # When pop found nothing: the local time at which it may find something (rates).
        self.next_at = math.inf

    @property
    def size(self) -> int:
        return sum(self._counts) + len(self.suspects)

    def least_priority(self) -> int:
        """The least priority that waits here."""
        return next((p for p in PRIORITIES if self._counts[p]), PRIORITIES[-1])

    @property
    def startable(self) -> int:
        """Visits that wait for anything but the resumption of their queue."""
        paused = sum(q.buffered for q in self.queues.values() if q.paused)
        return self.size - paused

    def add(self, visits: Iterable[Visit]) -> None:
        """Take visits in; each must not be in hand yet."""
        for visit in visits:
            self.in_hand.add((visit.queue, visit.key))
            self._place(visit)

    def add_page(self, queue: str, priority: int, visits: list[Visit]) -> None:
        """The same for visits of one level, oldest first."""
        level = self.queues[queue].levels[priority]
        if level and visits and visits[0].position < level[-1].position:
            self.add(visits)
            return
        self.in_hand.update((queue, visit.key) for visit in visits)
        level.extend(visits)
        self._counts[priority] += len(visits)

    def _place(self, visit: Visit) -> None:
        level = self.queues[visit.queue].levels[visit.priority]
        self._counts[visit.priority] += 1
        if level and visit.position < level[-1].position:
            ordered = list(level)
            insort(ordered, visit, key=lambda v: v.position)
            level.clear()
            level.extend(ordered)
        else:
            level.append(visit)

    def add_suspect(self, visit: Visit) -> None:
        self.in_hand.add((visit.queue, visit.key))
        self.suspects.append(visit)

    def pop(self, now: float) -> Visit | None:
        """The next visit to start, counted as running from here on; None if none may start."""
        if self._alarms:
            self.release_rated(now)
        self.next_at = self._alarms[0][0] if self._alarms else math.inf
        while (level := self._best_level(now)) is not None:
            visit = level.popleft()
            self._counts[visit.priority] -= 1
            if self._admit(visit, now):
                return visit
        return None

    def _best_level(self, now: float) -> deque[Visit] | None:
        """The level of the greatest priority, and within it of the oldest visit, that may start."""
        for priority in _URGENT_FIRST:
            if not self._counts[priority]:
                continue
            best: deque[Visit] | None = None
            for queue in self.queues.values():
                level = queue.levels[priority]
                if not level:
                    continue
                if queue.limited and (ready_at := queue.ready_at(now)) > now:
                    self.next_at = min(self.next_at, ready_at)
                elif best is None or level[0].position < best[0].position:
                    best = level
            if best is not None:
                return best
        return None

    def _admit(self, visit: Visit, now: float) -> bool:
        queue = self.queues[visit.queue]
        if queue.settings.turns is not None:
            turn = (queue.settings.turns, visit.key)
            if turn in self._turns:
                self._turns[turn].append(visit)
                return False
            if turn in self.foreign_turns:
                self.forget(visit)  # found again by a sweep once the other run has ended
                return False
            self._turns[turn] = []
        if visit.group is not None and not self._admit_to_group(queue, visit, now):
            if queue.settings.turns is not None:
                self._end_turn(queue.settings.turns, visit.key)
            return False
        if not queue.limited:
            queue.running += 1
            return True
        with self._gate:
            # Once more, for the heart may have lent the part to another worker since.
            allowed = queue.ready_at(now) <= now
            if allowed and queue.bucket is not None and queue.rate is not None:
                queue.bucket.take(now)
            queue.running += 1
        if not allowed:
            self.ended(visit)
            self._place(visit)
        return allowed

    def _admit_to_group(self, queue: QueueState, visit: Visit, now: float) -> bool:
        if queue.group_concurrency is None and queue.group_rate is None:
            return True
        assert visit.group is not None
        group = queue.groups.get(visit.group)
        if group is None:
            group = queue.groups[visit.group] = Group(visit.group)
        if self._group_ready_at(queue, group, now) > now:
            self._keep_back(group, visit)
            return False
        if group.bucket is not None:
            group.bucket.take(now)
        group.running += 1
        return True

    def _group_ready_at(self, queue: QueueState, group: Group, now: float) -> float:
        limit = queue.group_concurrency
        if limit is not None:
            foreign = self.foreign_groups.get((queue.name, group.name), 0)
            if group.running + foreign >= limit:
                return math.inf
        if queue.group_rate is None:
            return now
        if group.bucket is None:
            group.bucket = Bucket(queue.group_rate, now)
        ready_at = group.bucket.ready_at(now)
        if ready_at > now:
            heapq.heappush(self._alarms, (ready_at, queue.name, group.name))
            self.next_at = min(self.next_at, ready_at)
        return ready_at

    def _keep_back(self, group: Group, visit: Visit) -> None:
        if len(group.kept) < GROUP_KEEPS and not group.behind:
            insort(group.kept, visit, key=_order)
        else:
            group.behind = True
            self.forget(visit)

    def ended(self, visit: Visit) -> None:
        """A run has ended: its slot in queue, group and turn is free, whatever its settle will say."""
        queue = self.queues[visit.queue]
        queue.running -= 1
        if queue.settings.turns is not None:
            self._end_turn(queue.settings.turns, visit.key)
        if visit.group is not None and (group := queue.groups.get(visit.group)) is not None:
            if queue.group_concurrency is not None or queue.group_rate is not None:
                group.running = max(0, group.running - 1)
            self._release(queue, group)

    def release_groups(self) -> None:
        """Holds of others have ended: every group that keeps visits back may try its first."""
        for queue in self.queues.values():
            for group in list(queue.groups.values()):
                self._release(queue, group)

    def _end_turn(self, turns: str, key: str) -> None:
        for waiting in self._turns.pop((turns, key), ()):
            self._place(waiting)

    def _release(self, queue: QueueState, group: Group) -> None:
        """Let as many kept visits try again as the group has room for; one too many is kept anew."""
        room = 1 if queue.group_concurrency is None else queue.group_concurrency - group.running
        for _ in range(min(room, len(group.kept))):
            self._place(group.kept.pop(0))
        idle = not (group.kept or group.behind or group.running)
        if idle and group.bucket is None:
            del queue.groups[group.name]

    def release_rated(self, now: float) -> None:
        """Groups whose rate allows a start by now may try their first."""
        while self._alarms and self._alarms[0][0] <= now:
            _, queue_name, group_name = heapq.heappop(self._alarms)
            queue = self.queues[queue_name]
            group = queue.groups.get(group_name)
            if group is None:
                continue
            if group.kept or group.behind or group.running:
                self._release(queue, group)
            else:
                del queue.groups[group_name]  # a full bucket is as good as a new one, or better

    def wants_part(self) -> bool:
        """Whether a limited queue waits for (more of) its part."""
        return any(queue.wants_part for queue in self.queues.values())

    def hungry_groups(self) -> list[tuple[str, str]]:
        """Groups with nothing left in memory and more in the database: (queue, group)."""
        return [
            (queue.name, group.name)
            for queue in self.queues.values()
            for group in queue.groups.values()
            if group.behind
            and not group.kept
            and (queue.group_concurrency is None or group.running < queue.group_concurrency)
        ]

    def behind_groups(self) -> list[str]:
        """Groups whose visits the level reads should pass over, as 'queue group'."""
        return [
            f"{queue.name} {group.name}"
            for queue in self.queues.values()
            for group in queue.groups.values()
            if group.behind
        ]

    def refill(self, queue_name: str, group_name: str, visits: list[Visit], *, more: bool) -> None:
        """What a group read brought: kept in order; the first goes to its level at once."""
        queue = self.queues[queue_name]
        group = queue.groups.get(group_name)
        if group is None:
            return
        group.behind = more
        for visit in visits:
            self.in_hand.add((visit.queue, visit.key))
            insort(group.kept, visit, key=_order)
        self._release(queue, group)

    def forget(self, visit: Visit) -> None:
        """No longer in hand: given away or left in the database."""
        self.in_hand.discard((visit.queue, visit.key))

    def settled(self, visit: Visit) -> None:
        """No longer in hand, and never again as it was read."""
        self.in_hand.discard((visit.queue, visit.key))
        self.consumed.add(visit.version)

    def read_sent(self) -> None:
        """A read is on its way: what is settled from here on may still be in its page."""
        self.consumed.clear()

    def is_new(self, visit: Visit) -> bool:
        """Whether a visit that was just read is neither in hand nor settled since."""
        return (visit.queue, visit.key) not in self.in_hand and visit.version not in self.consumed

    def drop(self, unwanted: Callable[[Visit], bool]) -> int:
        """Forget buffered visits (of shards that are no longer mine, or read too long ago)."""
        dropped = 0

        def sift(visits: Iterable[Visit]) -> list[Visit]:
            nonlocal dropped
            kept = []
            for visit in visits:
                if unwanted(visit):
                    self.forget(visit)
                    dropped += 1
                else:
                    kept.append(visit)
            return kept

        for queue in self.queues.values():
            for priority in PRIORITIES:
                if queue.levels[priority]:
                    before = len(queue.levels[priority])
                    queue.levels[priority] = deque(sift(queue.levels[priority]))
                    self._counts[priority] += len(queue.levels[priority]) - before
            for group in queue.groups.values():
                group.kept = sift(group.kept)
        self.suspects = deque(sift(self.suspects))
        for turn, waiting in self._turns.items():
            self._turns[turn] = sift(waiting)
        return dropped
