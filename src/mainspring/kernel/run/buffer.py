"""The buffer: visits that were read and wait for a slot, and the choice of the next one to start.

Pure memory, no I/O. The greatest priority goes first, within it the oldest. A queue that is paused
or at its limit, a group that is full and a key whose turn is taken keep only themselves back.
Background queues (those with a share) are neither starved nor let into every slot.
Past 400 lines, for whatever keeps a visit back must be asked in one place.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from mainspring.kernel.limits.turns import Turn, Turns
from mainspring.kernel.run.level import Level
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.visit import END, PRIORITIES, Position, Run, Visit

# A visit that waited in memory for longer than this is read again first: it may have been cancelled.
STALE_SECONDS = 5.0
# So many starts are remembered that background queues had above their share, or too few of.
MOST_OWED = 500.0
_URGENT_FIRST = tuple(reversed(PRIORITIES))


class Buffer:
    """All queues of a worker."""

    def __init__(
        self, settings: Iterable[QueueSettings], gate: threading.Lock, *, slots: int = 1
    ) -> None:
        self._gate = gate  # the heart changes parts under it
        self._slots = slots
        self.queues = {
            s.name: QueueState(s, hold_after=s.hold_after, work_timeout=s.work_timeout)
            for s in settings
        }
        # Versions settled since the last read was sent: its page may still show them.
        self.consumed: set[int] = set()
        self.turns = Turns()
        self._stale: list[Visit] = []
        self._rated = False  # some queue has a rate per group
        # Queues that have visits of each priority: a choice looks only at these.
        self._waiting: list[dict[str, QueueState]] = [{} for _ in PRIORITIES]
        self._waiting_background: list[dict[str, QueueState]] = [{} for _ in PRIORITIES]
        self._waiting_beside: list[dict[str, QueueState]] = [{} for _ in PRIORITIES]
        self._background = [q for q in self.queues.values() if q.settings.share is not None]
        self._share = max((q.settings.share or 0.0 for q in self._background), default=0.0)
        self._without_run = sum(q.settings.leaves_slots for q in self.queues.values())
        self._taken = 0  # slots
        self._spare = slots // 4 if self._without_run else 0  # that are left to those who have none
        self._credit = 0.0  # starts that are owed to background queues; one at most
        self._owed = 0.0  # the same over a longer time: less than nothing when they had more
        # Of the visit that was popped last, if others of its level may follow it without a choice between
        # queues: up to the position of the next one that waits with the same priority.
        self._chosen: Level | None = None
        self._rival: Position = END
        # When nothing could start: the local time at which it may find something (rates).
        self.next_at = math.inf

    @property
    def known_keys(self) -> set[tuple[str, str]]:
        """Queue and key of everything this worker has: buffered, running or unsettled."""
        return {(queue.name, key) for queue in self.queues.values() for key in queue.known_keys}

    @property
    def size(self) -> int:
        return sum(len(level) for _, level in self._levels())

    @property
    def owed(self) -> int:
        """How many starts background queues have had less than their share; none while visits of theirs
        are here to have them."""
        return 0 if any(self._waiting_background) else max(0, int(self._owed))

    def only_below(self, priority: int) -> bool:
        """Whether there are visits, all of a lower priority than this."""
        return any(self._waiting[:priority]) and not self.has_from(priority)

    def startable_below(self, priority: int, now: float) -> bool:
        """Whether any visit of a lower priority waits for nothing but a slot; those of background
        queues have a share of these."""
        return any(
            queue.settings.share is None and (not queue.limited or queue.ready_at(now) <= now)
            for waiting in self._waiting[:priority]
            for queue in waiting.values()
        )

    def has_from(self, priority: int) -> bool:
        """Whether any visit of this priority or a greater one waits."""
        return any(self._waiting[priority:])

    def _levels(self) -> Iterator[tuple[QueueState, Level]]:
        """The levels that have visits, the least urgent first. The heart asks too, from its thread."""
        for priority, waiting in enumerate(self._waiting):
            for queue in list(waiting.values()):
                yield queue, queue.levels[priority]

    def startable(self, now: float) -> int:
        """Visits that wait for nothing but a slot, as far as their queues are concerned."""
        return sum(
            len(level)
            # Only a queue with visits is asked when it is ready: to be asked is to want a part.
            for queue, level in self._levels()
            if (not queue.limited or queue.ready_at(now) <= now) and not self._is_crowded(queue)
        )

    @property
    def has_beside(self) -> bool:
        """Whether any visit waits that needs no slot."""
        return any(self._waiting_beside)

    def can_start(self, now: float) -> bool:
        """Whether any visit waits for nothing but a slot, as far as its queue is concerned."""
        self.next_at = math.inf
        for waiting in self._waiting:
            for queue in waiting.values():
                if not self._is_crowded(queue) and not (self._spare and self._must_leave(queue)):
                    ready_at = queue.ready_at(now) if queue.limited else now
                    if ready_at <= now:
                        return True
                    self.next_at = min(self.next_at, ready_at)
        self._count_group_alarms()
        return False

    def _count_group_alarms(self) -> None:
        """A group's rate may allow the next start before any queue's does."""
        if self._rated:
            self.next_at = min(self.next_at, *(q.groups.next_at() for q in self.queues.values()))

    # -- in

    def add(self, visits: Iterable[Visit]) -> None:
        """Take visits in; each must not be in hand yet."""
        for visit in visits:
            self.queues[visit.queue].known_keys.add(visit.key)
            self.place(visit)

    def add_page(self, queue: str, priority: int, visits: list[Visit]) -> None:
        """The same for visits of one level, oldest first."""
        if not visits:
            return
        state = self.queues[queue]
        if not state.levels[priority].extend(visits):
            self.add(visits)
            return
        state.known_keys.update([visit.key for visit in visits])
        self._note_waiting(state, priority)

    def place(self, visit: Visit) -> None:
        """Put a visit that is in hand into its level, where it belongs."""
        queue = self.queues[visit.queue]
        queue.levels[visit.priority].push(visit)
        self._note_waiting(queue, visit.priority)

    def _place_all(self, visits: Iterable[Visit]) -> bool:
        """Answers whether there were any."""
        found = False
        for visit in visits:
            self.place(visit)
            found = True
        return found

    def _note_waiting(self, queue: QueueState, priority: int) -> None:
        self._waiting[priority][queue.name] = queue
        if queue.settings.share is not None:
            self._waiting_background[priority][queue.name] = queue
        if queue.settings.beside:
            self._waiting_beside[priority][queue.name] = queue

    def _note_empty(self, name: str, priority: int) -> None:
        del self._waiting[priority][name]
        self._waiting_background[priority].pop(name, None)
        self._waiting_beside[priority].pop(name, None)

    # -- out

    def pop(self, now: float, *, beside: bool = False) -> Visit | None:
        """The next visit to start, counted as running from here on; None if none may start.
        `beside`: only of queues that need no slot."""
        if self._rated:
            self.release_rated(now)
        while (level := self._best_level(now, beside)) is not None:
            visit = level.pop()
            if not level:
                self._note_empty(visit.queue, visit.priority)
            if now - visit.read_at > STALE_SECONDS:
                self._read_again(visit)
            elif self._admit(visit, now):
                if self._background:
                    self._count_share(visit)
                queue = self.queues[visit.queue]
                weighed = queue.limited or queue.one_by_one or visit.group is not None
                self._chosen = None if weighed else level
                return visit
        self._count_group_alarms()
        return None

    def another(self, now: float) -> Visit | None:
        """The visit that follows the one popped last, in the place of that, which has just ended. Without
        a choice between queues, for nothing has come to this buffer since; None if one must be made."""
        level = self._chosen
        if level is None or (self._credit >= 1.0 and any(self._waiting_background)):
            return None
        visit = level.follow(self._rival, now - STALE_SECONDS)
        if visit is None:
            return None
        if not level:
            self._note_empty(visit.queue, visit.priority)
        if self._background:
            self._count_share(visit)
        return visit

    def _read_again(self, visit: Visit) -> None:
        self.forget(visit)
        self._place_all(
            self.turns.give_up((self.queues[visit.queue].settings.turns or "", visit.key))
        )
        self._stale.append(visit)
        if visit.group is not None:
            for kept in self.queues[visit.queue].groups.stale(visit.group):
                self.forget(kept)

    def take_stale(self) -> list[Visit]:
        """Visits that waited here for too long and must be read again."""
        stale, self._stale = self._stale, []
        return stale

    def _best_level(self, now: float, beside: bool) -> Level | None:
        """The level of the greatest priority, and within it of the oldest visit, that may start."""
        self.next_at = math.inf
        if beside:
            return self._best_of(self._waiting_beside, now)
        if self._credit >= 1.0 and any(self._waiting_background):
            owed = self._best_of(self._waiting_background, now)
            if owed is not None:
                return owed
        return self._best_of(self._waiting, now)

    def _best_of(self, waiting: list[dict[str, QueueState]], now: float) -> Level | None:
        for priority in _URGENT_FIRST:
            if not waiting[priority]:
                continue
            best: Level | None = None
            rival = END
            for queue in waiting[priority].values():
                if queue.settings.share is not None and self._is_crowded(queue):
                    continue
                if self._spare and self._must_leave(queue):
                    continue
                level = queue.levels[priority]
                if queue.limited and (ready_at := queue.ready_at(now)) > now:
                    self.next_at = min(self.next_at, ready_at)
                elif best is None:
                    best = level
                elif level.front < best.front:
                    best, rival = level, best.front
                else:
                    rival = min(rival, level.front)
            if best is not None:
                self._rival = rival
                return best
        return None

    def _is_crowded(self, queue: QueueState) -> bool:
        """Whether background queues have their share of the slots already."""
        share = queue.settings.share
        if share is None:
            return False
        return sum(q.running for q in self._background) >= max(1, int(share * self._slots))

    def _must_leave(self, queue: QueueState) -> bool:
        """Whether the free slots are for queues that have no run yet."""
        free = self._slots - self._taken
        if free > self._spare or not queue.running:
            return False
        if not (queue.settings.leaves_slots or queue.settings.share is not None):
            return False
        return free <= self._without_run

    def _count_share(self, visit: Visit) -> None:
        """Every start of another queue owes the background queues a part of one."""
        if self.queues[visit.queue].settings.share is None:
            self._credit = min(1.0, self._credit + self._share)
            self._owed = min(MOST_OWED, self._owed + self._share)
        else:
            self._credit = 0.0
            self._owed = max(-MOST_OWED, self._owed - 1.0)

    def _admit(self, visit: Visit, now: float) -> bool:
        """Count a visit as running, or keep it back where it will be found again."""
        queue = self.queues[visit.queue]
        turns = queue.settings.turns
        if turns is not None and not self._take_turn((turns, visit.key), visit):
            return False
        if visit.group is not None:
            answer = queue.groups.admit(visit, now)
            if answer != "started":
                if answer == "left":
                    self.forget(visit)
                for dropped in queue.groups.take_dropped():
                    self.forget(dropped)
                self.turn_over(visit)
                return False
        if not queue.limited:
            self._take_slot(queue)
            return True
        with self._gate:
            # Once more, for the heart may have lent the part to another worker since.
            allowed = queue.ready_at(now) <= now
            if allowed and queue.bucket is not None and queue.rate is not None:
                queue.bucket.take(now)
            self._take_slot(queue)
        if not allowed:
            self.ended(visit)
            self.turn_over(visit)
            self.place(visit)
        return allowed

    def _take_slot(self, queue: QueueState) -> None:
        self._without_run -= queue.settings.leaves_slots and not queue.running
        queue.running += 1
        self._taken += not queue.settings.beside

    def _take_turn(self, turn: Turn, visit: Visit) -> bool:
        answer = self.turns.take(turn, visit)
        if answer == "foreign":
            self.forget(visit)  # found again by a sweep once the other run has ended
        return answer == "taken"

    # -- the end of a run

    def ended(self, visit: Visit) -> bool:
        """A run has ended: its place in queue and group is free, whatever its settle will say.
        Answers whether that lets visits of its group try."""
        queue = self.queues[visit.queue]
        queue.running -= 1
        self._taken -= not queue.settings.beside
        self._without_run += queue.settings.leaves_slots and not queue.running
        if visit.group is None:
            return False
        return self._place_all(queue.groups.ended(visit))

    def turn_over(self, visit: Visit) -> bool:
        """The turn of its key is free: only when the run is settled, or counts for nothing.
        Answers whether any visit had waited for it."""
        turns = self.queues[visit.queue].settings.turns
        if turns is None:
            return False
        return self._place_all(self.turns.over((turns, visit.key), self._needs_only_a_slot))

    def _needs_only_a_slot(self, visit: Visit) -> bool:
        queue = self.queues[visit.queue]
        return not queue.limited and queue.settings.share is None and visit.group is None

    def release_turns(self) -> None:
        """Limits have changed, or visits went: one that was called up may be kept back, or be gone."""
        self._place_all(self.turns.give_up_all())

    def settled(self, runs: Iterable[Run]) -> bool:
        """Their visits are no longer in hand, and never again as they were read. Answers whether others may
        start now that waited for the turn of their key."""
        freed = False
        queues, consumed = self.queues, self.consumed
        for run in runs:
            visit = run.visit
            queue = queues[visit.queue]
            queue.known_keys.discard(visit.key)
            consumed.add(visit.version)
            if queue.settings.turns is not None and not run.ends_turn:
                freed = self.turn_over(visit) or freed
        return freed

    def forget(self, visit: Visit) -> None:
        """No longer in hand: given away or left in the database."""
        self.queues[visit.queue].known_keys.discard(visit.key)

    # -- groups

    def release_groups(self) -> None:
        """Limits or holds of others have changed: whatever groups keep back may try again."""
        self._rated = any(queue.groups.rate is not None for queue in self.queues.values())
        for queue in self.queues.values():
            for group in queue.groups:
                self._place_all(queue.groups.release(group))

    def release_rated(self, now: float) -> None:
        """Groups whose rate allows a start by now may try their first."""
        for queue in self.queues.values():
            if len(queue.groups):
                self._place_all(queue.groups.release_rated(now))

    def hungry_groups(self) -> list[tuple[str, str]]:
        """Groups with nothing left in memory and more in the database: (queue, group)."""
        return [(q.name, name) for q in self.queues.values() for name in q.groups.hungry()]

    def behind_groups(self) -> list[tuple[str, str]]:
        """Groups whose visits the level reads pass over: (queue, group)."""
        return [(q.name, name) for q in self.queues.values() for name in q.groups.behind()]

    def refill(self, queue_name: str, group_name: str, visits: list[Visit], *, more: bool) -> None:
        """What a group read brought: as many as there is room for may try at once."""
        queue = self.queues[queue_name]
        queue.known_keys.update([visit.key for visit in visits])
        self._place_all(queue.groups.refill(group_name, visits, more=more))

    def wants_part(self) -> bool:
        """Whether a limited queue waits for (more of) its part."""
        return any(queue.wants_part for queue in self.queues.values())

    # -- reading

    def read_sent(self) -> None:
        """A read is on its way: what is settled from here on may still be in its page."""
        self.consumed.clear()

    def new_of(self, visits: Iterable[Visit], shards: frozenset[int]) -> list[Visit]:
        """Those of just read visits that are in my shards, and neither in hand nor settled since."""
        queues, consumed = self.queues, self.consumed
        return [
            visit
            for visit in visits
            if visit.shard in shards
            and visit.key not in queues[visit.queue].known_keys
            and visit.version not in consumed
        ]

    def waited_by_shard(
        self, now: float, seconds: float, queues: Collection[str]
    ) -> dict[int, int]:
        """How many visits of these queues have waited so long, where only slots are in their way."""
        counts: dict[int, int] = {}
        for queue in list(self.queues.values()):
            if queue.concurrency is not None or queue.paused or queue.name not in queues:
                continue
            for level in queue.levels:
                for visit in list(level):
                    # How long one has waited that was not read is not known.
                    if not 0 <= now - visit.read_at < seconds:
                        counts[visit.shard] = counts.get(visit.shard, 0) + 1
        return counts

    def holds_any(self, wanted: Callable[[Visit], bool]) -> bool:
        """Whether any visit that waits here is wanted."""
        waiting = [v for q in self.queues.values() for level in q.levels for v in level]
        waiting += [v for q in self.queues.values() for group in q.groups for v in group.kept]
        waiting += self.turns
        return any(map(wanted, waiting))

    def drop(
        self,
        unwanted: Callable[[Visit], bool],
        shards: frozenset[int],
        by_queue: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """Forget waiting visits (of shards that are no longer mine). `by_queue`: where shards are not the
        same for each queue."""

        def sift(visits: Iterable[Visit]) -> list[Visit]:
            kept = []
            for visit in visits:
                if unwanted(visit):
                    self.forget(visit)
                else:
                    kept.append(visit)
            return kept

        for queue in self.queues.values():
            for priority, level in enumerate(queue.levels):
                if level:
                    level.keep(sift(level))
                    if not level:
                        self._note_empty(queue.name, priority)
            queue.groups.sift(sift, by_queue[queue.name] if by_queue else shards)
        self.turns.sift(sift)
        self.release_turns()
