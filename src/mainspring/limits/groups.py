"""Groups: limits per tenant, account or whatever users group by. Pure memory, no I/O.

A group lives on one shard, so its owner alone counts it: exact, and no write. A full group keeps a
few visits here, in order; the rest stays in the database (the group is *behind*) and is read when
there is room. Runs of every group are counted, limited or not, so a limit can change at any time.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Callable, Iterator
from typing import Generic

from mainspring.limits.bucket import Bucket
from mainspring.limits.tuning import DEFAULT, LimitTuning
from mainspring.limits.waiting import Position, V, urgency


class Group(Generic[V]):
    """One group: what runs, what waits here, and whether the database has more of it."""

    __slots__ = ("alarm_at", "behind", "bucket", "kept", "left_from", "name", "running", "shard")

    def __init__(self, name: str, shard: int) -> None:
        self.name = name
        self.shard = shard
        self.running = 0
        self.kept: list[V] = []  # by priority, then oldest first
        self.behind = False  # visits of it were left in the database
        # The first of those: what comes after it waits its turn there, too.
        self.left_from: tuple[int, Position] | None = None
        self.bucket: Bucket | None = None
        self.alarm_at = math.inf  # its one entry in the alarms that counts

    @property
    def idle(self) -> bool:
        return not (self.running or self.kept or self.behind)


class Groups(Generic[V]):
    """The groups of one queue."""

    def __init__(self, tuning: LimitTuning = DEFAULT) -> None:
        self._tuning = tuning
        self.concurrency: int | None = None
        self.rate: float | None = None
        self.burst: int | None = None
        # Since when starts of these shards' groups are counted here, and since when by this rate.
        self._mine_since: dict[int, float] = {}
        self._rated_since = 0.0
        # Runs of other workers that hold visits of a group in my shards, as of the last beat.
        self.foreign: dict[str, int] = {}
        self.by_name: dict[str, Group[V]] = {}
        self._alarms: list[tuple[float, str]] = []  # when a group's bucket has its next token
        # Groups whose breaker is not closed: when one may be tried, and how many at once then.
        self.shut: dict[str, tuple[float, int]] = {}
        # Nothing of these starts until their breaker's state was read so often (breakers/).
        self.halted: dict[str, float] = {}
        self._dropped: list[V] = []  # kept no longer: an earlier one took the place

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Group[V]]:
        return iter(list(self.by_name.values()))

    @property
    def keeps(self) -> int:
        """How many visits a full group keeps here."""
        tuning = self._tuning
        return max(1, min(tuning.group_keeps, tuning.groups_keep // max(1, len(self.by_name))))

    def limit(
        self, concurrency: int | None, rate: float | None, now: float, *, burst: int | None = None
    ) -> bool:
        """Set the limits; whether they changed."""
        if (concurrency, rate, burst) == (self.concurrency, self.rate, self.burst):
            return False
        if (rate, burst) != (self.rate, self.burst):
            self._rated_since = now
            for group in self:
                group.bucket = None if rate is None else Bucket(rate, now, burst=burst)
        self.concurrency, self.rate, self.burst = concurrency, rate, burst
        return True

    def halt(self, name: str, reads: int | None) -> None:
        """Start nothing of a group until the settings were read so often; None: not before its breaker is
        told of."""
        self.halted[name] = math.inf if reads is None else reads

    def shut_by_breakers(self, shut: dict[str, tuple[float, int]]) -> bool:
        """Breakers of groups as they were just read; whether any group may have more room."""
        halted = len(self.halted)
        self.halted = {name: reads - 1 for name, reads in self.halted.items() if reads > 1}
        before, self.shut = self.shut, shut
        return len(self.halted) < halted or bool(before or shut)

    def set_foreign(self, foreign: dict[str, int]) -> bool:
        """What runs of other workers hold in my shards; whether that has changed."""
        changed, self.foreign = foreign != self.foreign, foreign
        return changed

    def admit(self, visit: V, now: float) -> str:
        """Whether a visit may start: 'started' (and counted), 'kept' here, or 'left' in the database."""
        assert visit.group is not None
        group = self.by_name.get(visit.group)
        if group is None:
            group = self.by_name[visit.group] = Group(visit.group, visit.shard)
        if group.behind and group.left_from is not None and urgency(visit) > group.left_from:
            return "left"
        if self._ready_at(group, now) > now:
            return self._keep(group, visit)
        if group.bucket is not None:
            group.bucket.take(now)
            if group.kept:  # the next one does not wait for this run's end
                self._set_alarm(group, max(now, group.bucket.ready_at(now)))
        group.running += 1
        return "started"

    def _ready_at(self, group: Group[V], now: float) -> float:
        if self.shut or self.halted:
            may_at = self._may_at(group, now)
            if may_at > now:
                return may_at
        if self.concurrency is not None:
            taken = group.running + self.foreign.get(group.name, 0)
            if taken >= self.concurrency:
                return math.inf
        if self.rate is None:
            return now
        if group.bucket is None:
            # Nothing was started since then, or its bucket would be here.
            since = max(self._rated_since, self._mine_since.get(group.shard, now))
            group.bucket = Bucket(self.rate, now, burst=self.burst, rested=max(0.0, now - since))
        ready_at = group.bucket.ready_at(now)
        if now < ready_at < math.inf:
            self._set_alarm(group, ready_at)
        return ready_at

    def _may_at(self, group: Group[V], now: float) -> float:
        """When its breaker lets one more run start."""
        if group.name in self.halted:
            return math.inf
        until, most = self.shut.get(group.name, (now, 0))
        if until > now:
            self._set_alarm(group, until)
            return until
        taken = group.running + self.foreign.get(group.name, 0)
        return math.inf if most and taken >= most else now

    def _set_alarm(self, group: Group[V], at: float) -> None:
        """One a group: each try that comes too early would else add one, and each of them try again."""
        if at < group.alarm_at:
            group.alarm_at = at
            heapq.heappush(self._alarms, (at, group.name))

    def _keep(self, group: Group[V], visit: V) -> str:
        """The first ones are kept, so that whatever is left in the database comes after them: one
        that was kept, tried too early and was left would make all others wait behind it."""
        if not (group.behind and group.left_from is None):
            insort(group.kept, visit, key=urgency)
            if len(group.kept) <= self.keeps:
                return "kept"
            last = group.kept.pop()
        else:
            last = visit  # all of it is read anew
        group.behind = True
        order = urgency(last)
        if group.left_from is None or order < group.left_from:
            group.left_from = order
        if last is visit:
            return "left"
        self._dropped.append(last)
        return "kept"

    def take_dropped(self) -> list[V]:
        """Visits that were kept and are left in the database now."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def ended(self, visit: V) -> list[V]:
        """A run has ended; answers the visits that may try now."""
        assert visit.group is not None
        group = self.by_name[visit.group]
        group.running -= 1
        return self.release(group)

    def release(self, group: Group[V]) -> list[V]:
        """As many kept visits as there may be room for; one too many is kept anew."""
        if self.concurrency is not None:
            room = self.concurrency - group.running - self.foreign.get(group.name, 0)
        else:
            room = len(group.kept) if self.rate is None else 1
        room = max(0, room)
        freed, group.kept = group.kept[:room], group.kept[room:]
        if not freed and group.idle:
            self._forget(group)
        return freed

    def _forget(self, group: Group[V]) -> None:
        """Drop an idle group, but not while its bucket is filling: a new one would begin full. One that was
        busy a moment ago is kept, for its next run is often near."""
        full_at = group.bucket.full_at() if group.bucket is not None else -math.inf
        if math.isinf(full_at):
            self.by_name.pop(group.name, None)
        else:
            self._set_alarm(group, full_at + self._tuning.group_rests)

    def next_at(self) -> float:
        """When the next bucket has a token."""
        return self._alarms[0][0] if self._alarms else math.inf

    def release_rated(self, now: float) -> list[V]:
        """Visits of groups whose rate allows a start by now."""
        freed: list[V] = []
        while self._alarms and self._alarms[0][0] <= now:
            at, name = heapq.heappop(self._alarms)
            group = self.by_name.get(name)
            if group is None or group.alarm_at != at:
                continue
            group.alarm_at = math.inf
            if group.idle:
                bucket = group.bucket
                if bucket is not None and now < bucket.full_at() < math.inf:
                    self._forget(group)  # it has run since
                else:
                    self.by_name.pop(group.name)
            else:
                freed += self.release(group)
        return freed

    def hungry(self) -> list[str]:
        """Groups with room, nothing kept, and more in the database."""
        limit = math.inf if self.concurrency is None else self.concurrency
        return [
            g.name
            for g in self.by_name.values()
            if g.behind and not g.kept and g.running < limit and g.name not in self.shut
        ]

    def behind(self) -> list[str]:
        """Groups whose visits the reads of levels pass over."""
        return [group.name for group in self.by_name.values() if group.behind]

    def stale(self, name: str) -> list[V]:
        """What is kept here is too old: answers it, to be forgotten; the group is read anew."""
        group = self.by_name.get(name)
        if group is None:
            return []
        kept, group.kept = group.kept, []
        group.behind = True
        return kept

    def is_behind(self, name: str) -> bool:
        """Whether the database has more of this group than is here."""
        group = self.by_name.get(name)
        return group is not None and group.behind

    def refill(self, name: str, visits: list[V], *, more: bool) -> list[V]:
        """What a read of the group brought; answers the visits that may try now."""
        group = self.by_name.get(name)
        if group is None:
            return visits
        group.behind = more
        group.left_from = max(map(urgency, visits), default=None) if more else None
        for visit in visits:
            insort(group.kept, visit, key=urgency)
        return self.release(group)

    def own(self, shards: frozenset[int], now: float) -> None:
        """These shards are mine: what others started of a shard that I had before is not known."""
        known = self._mine_since
        self._mine_since = {shard: known.get(shard, now) for shard in shards}
        for group in self:
            if group.shard not in known:
                group.bucket = None

    def sift(self, keep: Callable[[list[V]], list[V]], shards: frozenset[int]) -> None:
        """Forget kept visits that are not wanted, and what groups of other shards left behind."""
        for group in self:
            group.kept = keep(group.kept)
            if group.shard not in shards:
                group.behind, group.left_from = False, None
            if group.idle:
                self._forget(group)
