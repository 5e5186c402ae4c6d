"""Breakers: what a queue, or one of its groups, does when its runs fail in a row. Pure, no I/O.

A breaker that has seen enough failures *opens*: nothing starts for a while. Then one run is tried, and each
success lets twice as many run, until it is closed. One that fails meanwhile opens it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, TypeAlias

from mainspring.errors import InvalidSetting
from mainspring.kernel.outcome import Again, Done, Failed, Parked, Retry
from mainspring.kernel.visit import Respite, Run

# Of which a breaker counts: a queue, and a group of it or '' for all of it.
Key: TypeAlias = tuple[str, str]
Scope = Literal["queue", "group"]
SCOPES = ("queue", "group")
LONGEST = 86_400.0 * 366


@dataclass(frozen=True, slots=True)
class Breaker:
    """Stop a task whose runs fail in a row, so that a service that is down is not asked by every call.

    After `failures` in a row over all workers, each within `within` seconds of the one before, nothing of
    the task starts for `pause` seconds. Then one run is tried; each success lets twice as many run, a
    failure opens it again. `per="group"`: each group has its own. `on`: the exceptions that count.
    A run that raises `RetryAfter` is no failure.

    Example: `@app.task(breaker=Breaker(failures=5, pause=30, on=(ConnectionError, TimeoutError)))`
    """

    failures: int = 5
    pause: float | timedelta = 30.0
    within: float | timedelta = 60.0
    per: Scope = "queue"
    on: Sequence[type[BaseException]] = (Exception,)

    def __post_init__(self) -> None:
        failures = self.failures
        if (
            isinstance(failures, bool)
            or not isinstance(failures, int)
            or not 1 <= failures <= 1_000_000
        ):
            raise InvalidSetting(
                f"a breaker's failures must be a whole number of 1 to 1000000, got {failures!r}"
            )
        for name in ("pause", "within"):
            value = getattr(self, name)
            if isinstance(value, timedelta):
                value = value.total_seconds()
                object.__setattr__(self, name, value)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value <= LONGEST
            ):
                raise InvalidSetting(
                    f"a breaker's {name} must be more than 0 seconds (a number, or a timedelta), got "
                    f"{value!r}"
                )
        if self.per not in SCOPES:
            raise InvalidSetting(f"a breaker is per 'queue' or per 'group', got {self.per!r}")
        if not (
            isinstance(self.on, Sequence)
            and all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in self.on)
        ):
            raise InvalidSetting(
                f"a breaker's on must be a tuple of exception classes, got {self.on!r}; note the comma in "
                "(ConnectionError,)"
            )

    def counts(self, error: BaseException) -> bool:
        """Whether this exception is a failure of what the breaker guards."""
        return isinstance(error, tuple(self.on))

    def declared(self) -> dict[str, object]:
        """What the database should know of it."""
        return {
            "breaker_failures": self.failures,
            "breaker_pause": self.pause,
            "breaker_within": self.within,
        }


class Judge(Protocol):
    """Who is told of runs that have ended, while any queue has a breaker."""

    @property
    def on(self) -> bool:
        """Whether any run has to be told of."""
        ...

    def begin(self) -> None:
        """Every run has to be told of from now on."""
        ...

    def ended(self, runs: Sequence[Run]) -> None:
        """Runs have their outcomes."""
        ...


def has_failed(run: Run) -> bool | None:
    """Whether a run has failed, or succeeded; None: neither, or its error counts for nothing."""
    outcome = run.outcome
    if isinstance(outcome, Retry | Parked | Failed):
        return None if run.spared else True
    if isinstance(outcome, Done) or (isinstance(outcome, Again) and outcome.error is None):
        return False
    return None


@dataclass(slots=True)
class Count:
    """What runs of one breaker have come to and the database does not know yet."""

    failures: int = 0  # since the last success here
    failed_at: float = 0.0  # when the last of those began, by the database's time
    reason: str = ""
    successes: int = 0
    succeeded_at: float = 0.0  # when the last of those began
    rest: float | None = None

    def add(self, began: float, *, failed: bool, reason: str) -> None:
        """One more run has ended."""
        if failed:
            self.failures += 1
            self.failed_at, self.reason = max(self.failed_at, began), reason
        else:
            self.failures = 0
            self.successes += 1
            self.succeeded_at = max(self.succeeded_at, began)

    def rests(self, began: float, rest: Respite) -> None:
        """A run was told when to come back."""
        self.rest = max(self.rest or 0.0, rest.seconds)
        self.failed_at, self.reason = max(self.failed_at, began), rest.reason

    @property
    def succeeded(self) -> bool:
        """Whether a success came before these failures."""
        return self.successes > 0

    @property
    def is_bad(self) -> bool:
        """Whether there is a failure to be told, and not only a success."""
        return bool(self.failures) or self.rest is not None


class Tally:
    """All counts that wait to be told."""

    def __init__(self) -> None:
        self._counts: dict[Key, Count] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def of(self, key: Key) -> Count:
        """The count of a breaker."""
        return self._counts.setdefault(key, Count())

    def take(self) -> list[tuple[Key, Count]]:
        """All of them, to be told; in the order in which their rows are locked."""
        taken, self._counts = sorted(self._counts.items(), key=lambda item: item[0]), {}
        return taken

    def put_back(self, taken: Iterable[tuple[Key, Count]]) -> None:
        """They could not be told; what has come since is the newer."""
        for key, old in taken:
            new = self._counts.setdefault(key, old)
            if new is old:
                continue
            if not new.succeeded:
                new.failures += old.failures
                new.successes, new.succeeded_at = old.successes, old.succeeded_at
            if old.rest is not None:  # no success ends it
                new.rest = max(new.rest or 0.0, old.rest)
                new.failed_at = max(new.failed_at, old.failed_at)
                new.reason = new.reason or old.reason
