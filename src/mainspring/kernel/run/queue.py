"""A queue as a worker knows it. Pure memory, no I/O; the buffer has one for each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec

from mainspring.kernel.limits.bucket import Bucket
from mainspring.kernel.limits.groups import Groups
from mainspring.kernel.run.level import Level
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.visit import PRIORITIES, Visit


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
    bucket: Bucket | None = None
    running: int = 0
    wants_part: bool = False
    # Keys of all its visits that this worker has: buffered, running or unsettled. Never read twice.
    known_keys: set[str] = field(default_factory=set)
    policy: str = ""  # JSON, as the database has it
    groups: Groups = field(default_factory=Groups)
    levels: list[Level] = field(default_factory=lambda: [Level() for _ in PRIORITIES])
    one_by_one: bool = False  # each start is weighed anew: it has turns, a share, or no slots

    def __post_init__(self) -> None:
        s = self.settings
        self.one_by_one = s.turns is not None or s.share is not None or not s.needs_slot
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

    def least_priority(self) -> int:
        """The least priority that waits here; below all if nothing does."""
        return next((p for p in PRIORITIES if self.levels[p]), -1)

    def limit(self, *, paused: bool, concurrency: int | None, rate: float | None) -> None:
        """Operators' settings as they stand."""
        self.paused, self.concurrency, self.rate = paused, concurrency, rate
        self.limited = self._is_limited()

    def _is_limited(self) -> bool:
        s = self.settings
        own = s.slots is not None or s.endpoint is not None
        return own or self.paused or self.concurrency is not None or self.rate is not None

    @property
    def is_shut(self) -> bool:
        """Whether nothing of it starts, and so nothing is read: it is paused, or its endpoint is away."""
        endpoint = self.settings.endpoint
        return self.paused or (endpoint is not None and endpoint.is_away)

    def ask_part(self) -> bool:
        """Whether it could use (more of) its part: the next start that it keeps back says so again."""
        wants, self.wants_part = bool(self.wants_part or self.buffered), False
        return wants

    def give_part(self, size: int, rate: float, now: float, *, anew: bool = False) -> None:
        """Its part of the limits from now on, without a token if `anew`. Called under the gate."""
        self.part = size
        if self.bucket is None or anew:
            self.bucket = Bucket(rate, now)
        else:
            self.bucket.change(rate, now)

    def set_policy(self, policy: str) -> None:
        """Tell the layer what operators have changed."""
        if policy != self.policy and self.settings.terms is not None:
            self.policy = policy
            self.settings.terms.changed(msgspec.json.decode(policy))

    @property
    def holds_first(self) -> bool:
        """Whether a run is held before it starts."""
        terms = self.settings.terms
        return self.hold_after <= 0 or (terms is not None and terms.holds_first)

    def work_timeout_of(self, visit: Visit) -> float | None:
        """After how long a run of this visit is overtaken."""
        terms = self.settings.terms
        return self.work_timeout if terms is None else terms.work_timeout(visit)

    def ready_at(self, now: float) -> float:
        """When a visit of it may start as far as the queue is concerned."""
        if self.is_shut:
            return math.inf
        endpoint = self.settings.endpoint
        if endpoint is not None and not endpoint.has_room(self.running):
            return math.inf
        slots = self.settings.slots
        if slots is not None and self.running >= slots:
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
