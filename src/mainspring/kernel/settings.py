"""Settings of a worker and of a queue: frozen, checked once, with every default."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from mainspring.declaring import POSITIVE, SECONDS, STARTS, check_number, check_whole
from mainspring.endpoint import Endpoint
from mainspring.errors import InvalidSetting
from mainspring.kernel.outcome import Outcome
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import DEFAULT_PRIORITY, Run, Visit
from mainspring.retry_policy import RetryPolicy

DEFAULT_POOL = "default"
# The kind of a queue whose visits are pulled by somebody elsewhere: no worker serves it.
REMOTE = "remote"
# One that listens, the heart's, and one for everything else.
LEAST_CONNECTIONS = 3

Handler = Callable[[Run], Awaitable[Outcome]]
Prepare = Callable[[Sequence[Visit]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker behaves. Times are seconds."""

    pool: str = DEFAULT_POOL
    concurrency: int = 50
    lease: float = 10.0  # a worker that does not beat for so long is taken over
    poll: float = 1.0  # always on, whatever notifications do
    grace: float = 30.0  # running work may take so long to end when the worker stops
    page: int = 1000  # visits read and settled at once
    # Connections of its own at most; those on which tasks run their SQL are not among them.
    connections: int = 6
    # Processes beside it, for functions with executor="process"; None: as many as there are processors.
    helpers: int | None = None
    helper_runs: int = 1000  # then another one takes its place
    fence: str = "cancel"  # 'exit': a run that cannot be stopped in time ends the process
    history_days: int = 30
    # Under which it joins first (later under new ones), for whoever will see its process end.
    worker_id: UUID | None = None
    # A file for whoever will see its process end: whether the network ended it (watchdog.py).
    exit_mark: int | None = None

    def __post_init__(self) -> None:
        check_whole("concurrency", self.concurrency, 1, 10_000)
        check_number("lease", self.lease, 0.2, 3600)
        check_number("poll", self.poll, 0.01, 60)
        check_number("grace", self.grace, 0, 86_400)
        check_whole("page", self.page, 1, 5_000)
        check_whole("connections", self.connections, LEAST_CONNECTIONS, 1_000)
        if self.helpers is not None:
            check_whole("helpers", self.helpers, 1, 1_000)
        check_whole("helper_runs", self.helper_runs, 1, 1_000_000_000)
        check_whole("history_days", self.history_days, 1, 36_500)
        if self.fence not in ("cancel", "exit"):
            raise InvalidSetting(f"fence must be 'cancel' or 'exit', got {self.fence!r}")
        check_pool(self.pool)

    @property
    def beat_every(self) -> float:
        return self.lease * LEASE.beat


class Guard(Protocol):
    """What a queue declares to whoever judges its runs."""

    def counts(self, error: BaseException) -> bool:
        """Whether this exception is a failure of what is guarded."""
        ...

    def declared(self) -> dict[str, object]:
        """What the database should know of it."""
        ...


class Terms(Protocol):
    """How a layer has the visits of a queue held, where the queue's own settings do not say it."""

    @property
    def holds_first(self) -> bool:
        """Whether every run is held before it starts."""
        ...

    def work_timeout(self, visit: Visit) -> float | None:
        """Seconds after which a run that holds this visit is overtaken. Called by the heart's thread."""
        ...

    def changed(self, policy: Mapping[str, Any]) -> None:
        """Told what the queue's policy is, as the database has it."""
        ...


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue as the code declares it. Times are seconds, rates are starts a second."""

    name: str
    handler: Handler
    pool: str = DEFAULT_POOL
    kind: str = "task"
    turns: str | None = None
    priority: int = DEFAULT_PRIORITY  # of what is enqueued in SQL without one
    hold_after: float = 1.0
    work_timeout: float | None = None
    timeout: float | None = None  # of one run
    # So long has a run to clean up that was told to end; None: as long as any (tuning.stop_seconds).
    grace: float | None = None
    crash_limit: int = 3
    concurrency: int | None = None
    rate: float | None = None
    group_concurrency: int | None = None
    group_rate: float | None = None
    burst: int | None = None
    group_burst: int | None = None
    breaker: Guard | None = None
    searchable: tuple[str, ...] = ()
    unique: Mapping[str, object] | None = None  # what a call does whose key is taken (unique.sql)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    any_pass: bool = False  # takes the first result that comes, even of an overtaken run
    # A background queue: all of them together have at most this share of a worker's slots, and at
    # least this share of its starts, whatever waits with greater priority. None: no background.
    share: float | None = None
    # Such queues leave each other a slot: one that has runs takes no more of them while the free ones are
    # needed by those that have none (up to a quarter of all), so one that is slow starves no other.
    leaves_slots: bool = False
    # What a layer declares beyond these; operators change it, and its terms are told.
    policy: Mapping[str, Any] = field(default_factory=dict)
    terms: Terms | None = None
    quiet: bool = False  # its runs leave history only when they fail: a scheduler's own steps
    # The engine's own bookkeeping, short and without user code: when every slot is taken it is done
    # beside them, so a worker full of long runs still judges, ticks and admits.
    beside: bool = False
    # Runs that mostly wait for somebody else have slots of their own, so many in a worker. They neither
    # take nor need one of the worker's.
    slots: int | None = None
    # Whom its runs need. While that one is away, nothing of the queue is read, and nothing starts.
    endpoint: Endpoint | None = None
    # Whoever enqueues a call under a key of its own must see whether one runs: those are held first.
    holds_keyed: bool = False
    # Told of visits that were just read, before any of them starts: what they will need can be fetched for
    # all of them at once. Queues with the same one are told together. Must not raise, nor take
    # long: nothing is read meanwhile.
    prepare: Prepare | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name.encode()) > 200 or not self.name.isprintable():
            raise InvalidSetting(
                f"a queue's name must have 1 to 200 bytes and be printable, got {self.name!r}"
            )
        check_number("hold_after", self.hold_after, 0, 3600, SECONDS)
        check_whole("crash_limit", self.crash_limit, 1, 1000)
        check_pool(self.pool)
        for name, most in (
            ("concurrency", 1_000_000),
            ("group_concurrency", 1_000_000),
            ("burst", 1_000_000),
            ("group_burst", 1_000_000),
            ("slots", 10_000),
        ):
            value = getattr(self, name)
            if value is not None:
                check_whole(name, value, 1, most)
        if self.share is not None:
            check_number("share", self.share, 0.001, 1)
        if self.grace is not None:
            check_number("grace", self.grace, 0, 86_400, SECONDS)
        for name in ("rate", "group_rate", "timeout", "work_timeout"):
            value = getattr(self, name)
            if value is not None:
                unit = STARTS if name.endswith("rate") else SECONDS
                check_number(name, value, *POSITIVE, unit)

    def declared(self) -> dict[str, object]:
        """What the database should know of it."""
        declared: dict[str, object] = {
            "pool": self.pool,
            "kind": self.kind,
            "turns": self.turns,
            "hold_after": self.hold_after,
            "work_timeout": self.work_timeout,
            "crash_limit": self.crash_limit,
            "concurrency": self.concurrency,
            "rate": self.rate,
            "group_concurrency": self.group_concurrency,
            "group_rate": self.group_rate,
            "searchable": list(self.searchable),
        }
        if self.priority != DEFAULT_PRIORITY:
            declared["priority"] = self.priority
        for name in ("burst", "group_burst"):
            value = getattr(self, name)
            if value is not None:
                declared[name] = value
        if self.breaker is not None:
            declared |= self.breaker.declared()
        if self.unique is not None:
            declared["unique"] = dict(self.unique)
        if self.policy:
            declared["policy"] = dict(self.policy)
        return declared


def check_pool(pool: str) -> None:
    """Refuse what is no name of a pool: after a control character a lease names a band of it."""
    if not isinstance(pool, str) or not pool:
        raise InvalidSetting(f"pool must have a name, got {pool!r}")
    if not pool.isprintable():
        raise InvalidSetting(f"a pool's name must be printable, got {pool!r}")


def own_queue(name: str, pool: str) -> str:
    """The name that one of the engine's own queues has in a pool."""
    return name if pool == DEFAULT_POOL else f"{name}@{pool}"
