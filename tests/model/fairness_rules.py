"""The rules of fairness one by one, and the engine's classes without those that are off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from driven_buffer import Kinds

from mainspring.endpoint import Endpoint
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.fairness import Choice, Fairness, Found, Levels
from mainspring.kernel.run.queue import Level, QueueState
from mainspring.kernel.visit import END, PRIORITIES, Run, Visit


@dataclass(frozen=True, slots=True)
class Rules:
    """By the numbers of fairness_protocol; off, each is unfair or lets somebody wait in vain."""

    # 1. slots
    beside_is_for_who_needs_none: bool = True  # off: whatever comes first starts beside
    own_work_needs_none: bool = True  # off: the engine's own work waits for a slot
    # 2. own slots
    own_slots_are_counted: bool = True
    own_slots_take_no_others: bool = True  # off: they count among those that are taken
    # 3. order
    urgent_first: bool = True
    oldest_first: bool = True  # off: queues are gone through in one order
    follows_up_to_the_rival: bool = True  # off: a level is followed to its end
    # 4. shares
    share_of_slots: bool = True
    smaller_share_counts_its_own: bool = True  # off: it counts the runs of greater ones too
    # 5. starts
    share_of_starts: bool = True
    every_start_earns: bool = (
        True  # off: their own do not, so they have a half of a half more rarely
    )
    follow_ends_for_what_is_owed: bool = True
    # 6. reserved slots
    last_slots_are_left: bool = True
    left_only_by_who_has_one: bool = True  # off: by everybody, so they stay empty
    # 7. background
    background_gives_way: bool = True
    counts_for_a_moment: bool = True  # off: until it is settled, however long it lasts
    owed_starts_do_not_count: bool = True
    a_settle_lets_more_start: bool = True  # off: nobody is told that one counts no more
    # 8. endpoints
    nothing_starts_while_away: bool = True
    one_run_first: bool = True
    of_all_its_queues: bool = True  # off: one run of each
    more_with_each_success: bool = True
    # 9. nobody waits in vain
    a_time_is_named: bool = True  # off: who waits for a moment is not told which


def kinds_by(rules: Rules) -> Kinds:
    """The engine's classes, without the rules that are off."""
    return Kinds(_fairness(rules), _choice(rules), _queue(rules), _buffer(rules), _endpoint(rules))


def _fairness(rules: Rules) -> type[Fairness]:
    class Ruled(Fairness):
        def is_crowded(self, queue: QueueState) -> bool:
            if not rules.share_of_slots:
                return False
            mine = queue.settings.share
            if not rules.smaller_share_counts_its_own and mine is not None:
                return sum(q.running for q in self._shared) >= self._slots_of(mine)
            return super().is_crowded(queue)

        def count_start(self, queue: QueueState) -> bool:
            is_theirs = queue.settings.share is not None
            if not rules.share_of_starts:
                return False
            if not rules.every_start_earns:
                was_owed = self.owes
                self._credit = 0.0 if is_theirs else min(1.0, self._credit + self._share)
                return was_owed and is_theirs
            return super().count_start(queue) and rules.owed_starts_do_not_count

        def _must_leave(self, queue: QueueState) -> bool:
            if not rules.last_slots_are_left:
                return False
            if rules.left_only_by_who_has_one:
                return super()._must_leave(queue)
            free = self._slots - self._taken
            return queue.settings.leaves_slots and free <= min(self._spare, self._without_run)

        def take_slot(self, queue: QueueState) -> None:
            super().take_slot(queue)
            self._taken += not (queue.needs_slot or rules.own_slots_take_no_others)

        def free_slot(self, queue: QueueState) -> None:
            super().free_slot(queue)
            self._taken -= not (queue.needs_slot or rules.own_slots_take_no_others)

        def opens_at(self, now: float) -> float:
            return super().opens_at(now) if rules.background_gives_way else now

        def started(self, visit: Visit, queue: QueueState, now: float) -> bool:
            gives_way = super().started(visit, queue, now)
            if not rules.counts_for_a_moment and visit.version in self._under_way:
                self._under_way[visit.version] = math.inf
            return gives_way

        def settled(self, runs: Iterable[Run]) -> bool:
            return super().settled(runs) and rules.a_settle_lets_more_start

    return Ruled


def _choice(rules: Rules) -> type[Choice]:
    class Ruled(Choice):
        def note(self, queue: QueueState, priority: int) -> None:
            super().note(queue, priority)
            if queue.settings.beside and not rules.own_work_needs_none:
                self._beside[priority].pop(queue.name)

        def best(self, now: float, *, beside: bool) -> Level | None:
            return super().best(now, beside=beside and rules.beside_is_for_who_needs_none)

        def _best_of(self, waiting: Levels, now: float, *, owed: bool = False) -> Found | None:
            if rules.urgent_first and rules.oldest_first:
                return super()._best_of(waiting, now, owed=owed)
            urgent_first = PRIORITIES if not rules.urgent_first else reversed(PRIORITIES)
            for priority in urgent_first:
                queues = waiting[priority]
                some = [queues] if rules.oldest_first else [{n: q} for n, q in queues.items()]
                for only in some:
                    levels: Levels = [only if p == priority else {} for p in PRIORITIES]
                    if (found := super()._best_of(levels, now, owed=owed)) is not None:
                        return found
            return None

    return Ruled


def _queue(rules: Rules) -> type[QueueState]:
    class Ruled(QueueState):
        def ready_at(self, now: float) -> float:
            endpoint, running = self.settings.endpoint, self.running
            of_endpoint = 0 if endpoint is None else endpoint.running
            try:
                if not rules.own_slots_are_counted:
                    self.running = 0
                if endpoint is not None and not rules.of_all_its_queues:
                    endpoint.running = running
                return super().ready_at(now)
            finally:
                self.running = running
                if endpoint is not None:
                    endpoint.running = of_endpoint

    return Ruled


def _buffer(rules: Rules) -> type[Buffer]:
    class Ruled(Buffer):
        def next_at(self) -> float:
            return super().next_at() if rules.a_time_is_named else math.inf

        def another(self, now: float) -> Visit | None:
            if not rules.follows_up_to_the_rival:
                self.choice.rival = END
            if rules.follow_ends_for_what_is_owed:
                return super().another(now)
            credit, self.fairness._credit = self.fairness._credit, 0.0
            found = super().another(now)
            self.fairness._credit = credit
            if found is not None:
                self.fairness.count_start(self.queues[found.queue])
            return found

    return Ruled


def _endpoint(rules: Rules) -> type[Endpoint]:
    class Ruled(Endpoint):
        @property
        def is_away(self) -> bool:
            return super().is_away and rules.nothing_starts_while_away

        def back(self) -> None:
            super().back()
            if not rules.one_run_first:
                self.most = None

        def succeeded(self) -> None:
            if rules.more_with_each_success:
                super().succeeded()

    return Ruled
