"""A queue as a worker knows it, and its levels (one a priority): up to where each was read, and the visits
that wait. Pure memory, no I/O.

A level is read from its cursor on, never from the start, so dead rows behind it cost nothing. A visit can
appear behind the cursor: a long transaction commits, or a retry comes back. Whoever knows of it steps the
cursor back, and a step back that arrives while a read is under way is not overwritten by it. What nobody
knew of is found by the sweep, which reads behind the cursors.

Pages come in order and are kept as they were read. A visit that comes back (it waited for a turn or a
group) is older than most. It goes to a heap of its own, so that no page is ever sorted again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.visit import END, PRIORITIES, START, Position, Visit
from mainspring.limits import Bucket, Groups

_number = count()  # keeps visits of one position apart, in the order they came


class Cursor:
    """The reading position of one level."""

    __slots__ = ("_back", "complete", "more", "position", "priority", "queue", "reading")

    def __init__(self, queue: str, priority: int) -> None:
        self.queue = queue
        self.priority = priority
        self.position: Position = START  # every due, free visit before it is in hand or a stray
        self.more = True  # there may be unread visits after it
        self.complete = False  # read to its end since the last restart
        self.reading = False
        self._back: Position = END  # the earliest step back since the read was sent

    @property
    def level(self) -> tuple[str, int]:
        return (self.queue, self.priority)

    def sent(self) -> None:
        self.reading = True
        self.more = False
        self._back = END

    def answered(self, last: Position | None, *, full: bool, close: float) -> None:
        """A page has come, up to `last` (None: nothing). What may yet be committed is due after `close`."""
        reached = max(self.position, (close, "")) if last is None else last
        self.position = min(reached, self._back)
        self.more = full or self._back < END
        self.complete = self.complete or not self.more
        self.reading = False

    def failed(self) -> None:
        """The read did not come back: nothing was learned."""
        self.reading = False
        self.more = True

    def step_back(self, due: float) -> None:
        """A visit due at this time may lie behind the cursor: read from just before it."""
        before = (due, "")
        self.more = True
        self.position = min(self.position, before)
        if self.reading:
            self._back = min(self._back, before)

    def restart(self) -> None:
        """Read everything anew: the shards that are mine have changed."""
        self.complete = False
        self.step_back(START[0])


class Level:
    """The visits of one queue and priority, the oldest first."""

    __slots__ = ("_back", "_front", "pages")

    def __init__(self, visits: Iterable[Visit] = ()) -> None:
        """Visits oldest first."""
        self.pages = deque(visits)  # all of it, while nothing has come back
        self._back: list[tuple[Position, int, Visit]] = []
        # Kept while it holds: a choice between queues asks each of them, and only one is then changed.
        self._front: Position | None = None

    @property
    def front(self) -> Position:
        """The position of the next."""
        if self._front is None:
            front = self.pages[0].position if self.pages else END
            self._front = min(front, self._back[0][0]) if self._back else front
        return self._front

    def __len__(self) -> int:
        return len(self.pages) + len(self._back)

    def __iter__(self) -> Iterator[Visit]:
        """All of them, in no order. The heart asks too, from its thread: the copies are atomic."""
        return iter([*(visit for _, _, visit in self._back.copy()), *self.pages.copy()])

    def extend(self, visits: list[Visit]) -> bool:
        """A page, oldest first; refused if it does not follow what is here."""
        if self.pages and visits[0].position < self.pages[-1].position:
            return False
        self.pages.extend(visits)
        self._front = None
        return True

    def push(self, visit: Visit) -> None:
        """One visit, wherever it belongs."""
        position = visit.position
        if self.pages and position < self.pages[-1].position:
            heappush(self._back, (position, next(_number), visit))
        else:
            self.pages.append(visit)
        self._front = None

    def pop(self) -> Visit:
        """The oldest."""
        pages, back = self.pages, self._back
        if back and (not pages or back[0][0] <= pages[0].position):
            visit = heappop(back)[2]
        else:
            visit = pages.popleft()
        self._front = None
        return visit

    def follow(self, before: Position, read_since: float) -> Visit | None:
        """Take the oldest if nothing but a slot has to be asked for it: it lies before this position, was
        read since then, has no group and no key of its own, and was never at a death."""
        pages = self.pages
        if self._back or not pages:
            return None
        visit = pages[0]
        if visit.keyed or visit.group is not None or visit.crashes or visit.read_at < read_since:
            return None
        if before is not END and visit.position >= before:
            return None
        self._front = None
        return pages.popleft()

    def keep(self, wanted: Iterable[Visit]) -> None:
        """Only these, of those that are here, stay."""
        kept = {id(visit) for visit in wanted}
        self.pages = deque(visit for visit in self.pages if id(visit) in kept)
        self._back = [entry for entry in self._back if id(entry[2]) in kept]
        heapify(self._back)
        self._front = None


@dataclass(slots=True)
class QueueState:
    """A queue as this worker knows it: what the code declares, what operators set, what runs."""

    settings: QueueSettings
    paused: bool = False
    limited: bool = False  # anything but a free slot is needed to start
    hold_after: float = 1.0
    work_timeout: float | None = None
    concurrency: int | None = None
    part: int = 0
    rate: float | None = None
    judged: bool = False  # what a run comes to is known before the next one starts
    halted: float = 0  # nothing starts until its settings were read so often
    bucket: Bucket | None = None
    running: int = 0
    wants_part: bool = False
    # Keys of all its visits that this worker has: buffered, running or unsettled. Never read twice.
    known_keys: set[str] = field(default_factory=set)
    policy: str = ""  # JSON, as the database has it
    groups: Groups[Visit] = field(default_factory=Groups)
    levels: list[Level] = field(default_factory=lambda: [Level() for _ in PRIORITIES])
    one_by_one: bool = False  # each start is weighed anew: it has turns, a share, or no slots
    needs_slot: bool = True  # a run takes one of the worker's slots

    def __post_init__(self) -> None:
        s = self.settings
        self.needs_slot = not s.beside and s.slots is None
        self.one_by_one = s.turns is not None or s.share is not None or not self.needs_slot
        self.judged = s.breaker is not None
        self.limited = self._is_limited()

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def buffered(self) -> int:
        return sum(map(len, self.levels))

    @property
    def waiting(self) -> list[Visit]:
        """All that wait for a slot or for room in their group, in no order."""
        kept = [visit for group in self.groups for visit in group.kept]
        return [*kept, *(visit for level in self.levels for visit in level)]

    def sift(
        self, sift: Callable[[Iterable[Visit]], list[Visit]], shards: frozenset[int]
    ) -> Iterator[int]:
        """Keep of what waits what `sift` keeps; these shards are mine. Yields priorities with none left."""
        self.groups.sift(sift, shards)
        for priority, level in enumerate(self.levels):
            if level:
                level.keep(sift(level))
                if not level:
                    yield priority

    def least_priority(self) -> int:
        """The least priority that waits here; below all if nothing does."""
        return next((p for p in PRIORITIES if self.levels[p]), -1)

    def halt(self, reads: int | None) -> None:
        """Start nothing until its settings were read so often; None: not before its judge says so."""
        self.halted = math.inf if reads is None else reads
        self.limited = True

    def halted_read(self) -> None:
        """Its settings were read."""
        self.halted = max(0, self.halted - 1)

    def limit(
        self, *, paused: bool, concurrency: int | None, rate: float | None, judged: bool = False
    ) -> None:
        """Operators' settings as they stand."""
        self.paused, self.concurrency, self.rate = paused, concurrency, rate
        self.judged = judged
        self.limited = self._is_limited()

    def _is_limited(self) -> bool:
        s = self.settings
        own = s.slots is not None or s.endpoint is not None
        own = own or self.judged or bool(self.halted)
        return own or self.paused or self.concurrency is not None or self.rate is not None

    @property
    def is_shut(self) -> bool:
        """Whether nothing of it starts, and so nothing is read: it is paused, or its endpoint is away."""
        endpoint = self.settings.endpoint
        return self.paused or (endpoint is not None and endpoint.is_away)

    def ask_part(self) -> bool:
        """Whether it could use (more of) its part: the next start that it keeps back says so again."""
        wants, self.wants_part = bool(self.wants_part or self.buffered), False
        # One that is halted keeps what it has: another worker would take it for a trial of its own.
        return bool(self.halted) or (wants and not self.paused)

    def give_part(
        self,
        size: int,
        rate: float,
        now: float,
        *,
        burst: float | None = None,
        rested: float | None = None,
    ) -> None:
        """Its part of the limits from now on. `rested`: the part of the rate is a new one, and nobody has
        had any for so long. Called under the gate."""
        self.part = size
        if self.bucket is None or rested is not None:
            self.bucket = Bucket(rate, now, burst=burst, rested=rested or 0.0)
        else:
            self.bucket.change(rate, now, burst=burst)

    def began(self) -> None:
        """A run of it."""
        self.running += 1
        if self.settings.endpoint is not None:
            self.settings.endpoint.began()

    def ended(self) -> None:
        self.running -= 1
        if self.settings.endpoint is not None:
            self.settings.endpoint.ended()

    def set_policy(self, policy: str) -> None:
        """Tell the layer what operators have changed."""
        if policy != self.policy and self.settings.terms is not None:
            self.policy = policy
            self.settings.terms.changed(msgspec.json.decode(policy))

    def holds_first(self, visit: Visit) -> bool:
        """Whether a run of this visit is held before it starts."""
        terms = self.settings.terms
        if visit.keyed and self.settings.holds_keyed:
            return True
        return self.hold_after <= 0 or (terms is not None and terms.holds_first)

    def work_timeout_of(self, visit: Visit) -> float | None:
        """After how long a run of this visit is overtaken."""
        terms = self.settings.terms
        return self.work_timeout if terms is None else terms.work_timeout(visit)

    def ready_at(self, now: float) -> float:
        """When a visit of it may start as far as the queue is concerned."""
        settings = self.settings
        if (
            self.paused
            or self.halted
            or (settings.slots is not None and self.running >= settings.slots)
        ):
            return math.inf
        if settings.endpoint is not None and not settings.endpoint.has_room:
            return math.inf  # it is away, or coming back
        if self.concurrency is not None and self.running >= self.part:
            self.wants_part = True
            return math.inf
        if self.rate is not None:
            if self.bucket is None or self.bucket.rate <= 0:
                self.wants_part = True
                return math.inf
            return self.bucket.ready_at(now)
        return now
