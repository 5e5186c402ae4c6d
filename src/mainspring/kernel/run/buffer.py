"""The buffer: visits that were read and wait for a slot, and the choice of the next one to start.

Pure memory, no I/O. The greatest priority goes first, within it the oldest. A queue that is paused
or at its limit, a group that is full and a key whose turn is taken keep only themselves back.
Which level is next is chosen by Choice, whether it may start by Fairness.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainspring.kernel.run.fairness import BACKGROUND_BELOW, Choice, Fairness
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run, Visit
from mainspring.limits import Groups, Turns


class Buffer:
    """All queues of a worker."""

    def __init__(
        self,
        settings: Iterable[QueueSettings],
        gate: threading.Lock,
        *,
        slots: int = 1,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._gate = gate  # the heart changes parts under it
        self.tuning = tuning
        self.queues = {
            s.name: QueueState(s, False, False, s.hold_after, s.work_timeout) for s in settings
        }
        # Versions settled since the last read was sent: its page may still show them.
        self.consumed: set[int] = set()
        self.turns: Turns[Visit] = Turns()
        self._stale: list[Visit] = []
        self._rated: list[Groups[Visit]] = []  # those that may have to wait for a time to come
        self.fairness = Fairness(self.queues.values(), slots, tuning)
        self.choice = Choice(self.fairness)

    @property
    def size(self) -> int:
        return sum(len(queue.levels[priority]) for queue, priority in self.choice)

    def next_at(self) -> float:
        """When nothing could start: the local time at which something may (a rate, a rest)."""
        return min([self.choice.next_at, *(groups.next_at() for groups in self._rated)])

    def add(self, visits: Iterable[Visit]) -> None:
        """Take visits in; each must not be in hand yet."""
        for visit in visits:
            self.queues[visit.queue].known_keys.add(visit.key)
            self.place(visit)

    def met(self, visits: Sequence[Visit], now: float) -> None:
        """Visits came to be started: whether background ones have to give way."""
        live = [v for v in visits if v.priority >= BACKGROUND_BELOW]
        if any(not self.queues[visit.queue].settings.beside for visit in live):
            self.fairness.met(now)

    def add_page(self, queue: str, priority: int, visits: list[Visit]) -> None:
        """The same for visits of one level, oldest first; there is one at least."""
        state = self.queues[queue]
        if not state.levels[priority].extend(visits):
            self.add(visits)
            return
        state.known_keys.update([visit.key for visit in visits])
        self.choice.note(state, priority)

    def place(self, visit: Visit) -> None:
        """Put a visit that is in hand into its level, where it belongs."""
        queue = self.queues[visit.queue]
        queue.levels[visit.priority].push(visit)
        self.choice.note(queue, visit.priority)

    def _place_all(self, visits: Sequence[Visit]) -> bool:
        """Returns whether there were any."""
        for visit in visits:
            self.place(visit)
        return bool(visits)

    # -- out

    def pop(self, now: float, *, beside: bool = False) -> Visit | None:
        """The next visit to start, counted as running from here on; None if none may start.
        `beside`: only of queues that need no slot."""
        self.release_rated(now)
        choice, fairness = self.choice, self.fairness
        while (level := choice.best(now, beside=beside)) is not None:
            visit = level.pop()
            if not level.pages and not level:
                choice.note_empty(visit.queue, visit.priority)
            if now - visit.read_at > self.tuning.stale:
                self._read_again(visit)
            elif self._admit(visit, now):
                queue = self.queues[visit.queue]
                gives_way = fairness.started(visit, queue, now)
                weighed = queue.limited or queue.one_by_one or visit.group is not None
                choice.follow(None if weighed or gives_way else level)
                return visit
        return None

    def another(self, now: float) -> Visit | None:
        """The visit that follows the one popped last, in the place of that, which has just ended; None if
        a choice must be made."""
        choice = self.choice
        level = choice.followed
        if level is None or (self.fairness.shares and choice.owes):
            return None
        visit = level.follow(choice.rival, now - self.tuning.stale)
        if visit is None:
            return None
        if not level.pages:
            choice.note_empty(visit.queue, visit.priority)
        if self.fairness.shares:
            self.fairness.count_start(self.queues[visit.queue])
        return visit

    def _read_again(self, visit: Visit) -> None:
        self.forget(visit)
        self._stale.append(visit)
        queue = self.queues[visit.queue]
        self._place_all(self.turns.give_up((queue.settings.turns or "", visit.key)))
        if visit.group is not None:
            for kept in queue.groups.stale(visit.group):
                self.forget(kept)

    def take_stale(self) -> list[Visit]:
        """Visits that waited here for too long and must be read again."""
        stale, self._stale = self._stale, []
        return stale

    def _admit(self, visit: Visit, now: float) -> bool:
        """Count a visit as running, or keep it back where it will be found again."""
        queue = self.queues[visit.queue]
        if (turns := queue.settings.turns) is not None:
            answer = self.turns.take((turns, visit.key), visit)
            if answer == "foreign":
                self.forget(visit)  # found again by a sweep once the other run has ended
            if answer != "taken":
                return False
        if visit.group is not None:
            admitted = queue.groups.admit(visit, now)
            if admitted != "started":
                if admitted == "left":
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
        if self.fairness.leaves:
            self.fairness.take_slot(queue)
        queue.began()

    # -- the end of a run

    def ended(self, visit: Visit) -> bool:
        """A run has ended: its place in queue and group is free, whatever its settle will say.
        Answers whether that lets visits of its group try."""
        queue = self.queues[visit.queue]
        queue.ended()
        if self.fairness.leaves:
            self.fairness.free_slot(queue)
        return visit.group is not None and self._place_all(queue.groups.ended(visit))

    def turn_over(self, visit: Visit) -> bool:
        """The turn of its key is free: only when the run is settled, or counts for nothing.
        Answers whether any visit had waited for it."""
        turns = self.queues[visit.queue].settings.turns
        return turns is not None and self._place_all(
            self.turns.over((turns, visit.key), self._needs_only_a_slot)
        )

    def _needs_only_a_slot(self, visit: Visit) -> bool:
        queue = self.queues[visit.queue]
        return not queue.limited and queue.settings.share is None and visit.group is None

    def release_turns(self) -> None:
        """Limits have changed, or visits went: one that was called up may be kept back, or be gone."""
        self._place_all(self.turns.give_up_all())

    def settled(self, runs: Sequence[Run]) -> bool:
        """Their visits are no longer in hand, and never again as they were read. Returns whether others may
        start now: they waited for the turn of their key, or gave way."""
        freed = self.fairness.settled(runs)
        for run in runs:
            visit = run.visit
            queue = self.queues[visit.queue]
            queue.known_keys.discard(visit.key)
            self.consumed.add(visit.version)
            if queue.settings.turns is not None and not run.ends_turn:
                freed = self.turn_over(visit) or freed
        return freed

    def forget(self, visit: Visit) -> None:
        """No longer in hand: given away or left in the database."""
        self.queues[visit.queue].known_keys.discard(visit.key)

    # -- groups

    def release_groups(self) -> None:
        """Limits or holds of others have changed: whatever groups keep back may try again."""
        limited = [queue.groups for queue in self.queues.values()]
        self._rated = [groups for groups in limited if groups.rate is not None or groups.shut]
        for groups in limited:
            for group in groups:
                self._place_all(groups.release(group))

    def release_rated(self, now: float) -> None:
        """Groups whose rate allows a start by now may try their first."""
        for groups in self._rated:
            self._place_all(groups.release_rated(now))

    def behind_groups(self) -> list[tuple[str, str]]:
        """Groups whose visits the level reads pass over: (queue, group)."""
        return [(q.name, name) for q in self._grouped for name in q.groups.behind()]

    def has_behind(self, visit: Visit) -> bool:
        """Whether the database has more of its group than is here."""
        return visit.group is not None and self.queues[visit.queue].groups.is_behind(visit.group)

    def hungry_groups(self) -> list[tuple[str, str]]:
        """Groups with nothing left in memory, room for it, and more in the database: (queue, group)."""
        return [(q.name, name) for q in self._grouped for name in q.groups.hungry()]

    @property
    def _grouped(self) -> list[QueueState]:
        """Queues that have groups just now."""
        return [queue for queue in self.queues.values() if queue.groups.by_name]

    def refill(self, queue_name: str, group_name: str, visits: list[Visit], *, more: bool) -> None:
        """What a group read brought: as many as there is room for may try at once."""
        queue = self.queues[queue_name]
        queue.known_keys.update([visit.key for visit in visits])
        self._place_all(queue.groups.refill(group_name, visits, more=more))

    def wants_part(self) -> bool:
        """Whether a limited queue waits for (more of) its part."""
        return any(queue.wants_part for queue in self.queues.values())

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

    def holds_any(self, wanted: Callable[[Visit], bool]) -> bool:
        """Whether any visit that waits here is wanted."""
        waiting = [visit for queue in self.queues.values() for visit in queue.waiting]
        return any(map(wanted, [*waiting, *self.turns]))

    def drop(
        self,
        unwanted: Callable[[Visit], bool],
        shards: frozenset[int],
        by_queue: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """Forget waiting visits (of shards that are no longer mine). `by_queue`: shards differ by queue."""

        def sift(visits: Iterable[Visit]) -> list[Visit]:
            listed = list(visits)
            for visit in filter(unwanted, listed):
                self.forget(visit)
            return [visit for visit in listed if not unwanted(visit)]

        for queue in self.queues.values():
            for priority in queue.sift(sift, by_queue[queue.name] if by_queue else shards):
                self.choice.note_empty(queue.name, priority)
        self.turns.sift(sift)
        self.release_turns()
