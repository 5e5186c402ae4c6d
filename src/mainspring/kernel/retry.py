"""What a failure leads to: pure rules from a policy, an attempt and an exception to an outcome."""

from __future__ import annotations

import random
from asyncio import CancelledError
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mainspring import clock
from mainspring.errors import InvalidSetting, RetryAfter, UnknownCipherKey
from mainspring.failure_text import describe
from mainspring.kernel.outcome import Cancelled, Done, Outcome, Parked, Postponed, Retry
from mainspring.kernel.visit import Respite, Run, instant

LONGEST_DELAY = 315_360_000.0  # ten years: what is added to a time must still be one
STEEPEST = 1000.0
MOST_ATTEMPTS = 1_000_000
CANCELLED = Cancelled(error="cancelled while it ran")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failed visit is tried again, and after how long.

    Delays grow from `first` seconds by `factor` up to `most`, each drawn between half and all of it.
    `give_up_on` names exceptions that are never retried; `only_on`, if set, those that alone are.

    Example: `RetryPolicy(attempts=5, first=2.0, give_up_on=(ValueError,))`
    """

    attempts: int = 10
    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    give_up_on: Sequence[type[BaseException]] = ()
    only_on: Sequence[type[BaseException]] | None = None
    per_exception: dict[type[BaseException], RetryPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise InvalidSetting(f"attempts must be 1 to {MOST_ATTEMPTS}, got {self.attempts!r}")
        for name in ("first", "factor", "most"):
            if not isinstance(getattr(self, name), int | float):
                what = "a number" if name == "factor" else "a number of seconds"
                raise InvalidSetting(f"{name} must be {what}, got {getattr(self, name)!r}")
        if not 0 <= self.most <= LONGEST_DELAY:
            raise InvalidSetting(f"most must be 0 to {LONGEST_DELAY:g} seconds, got {self.most!r}")
        if not 0 <= self.first <= self.most:
            raise InvalidSetting(
                f"first must be 0 to most ({self.most!r} seconds), got {self.first!r}"
            )
        if not 1 <= self.factor <= STEEPEST:
            raise InvalidSetting(f"factor must be 1 to {STEEPEST:g}, got {self.factor!r}")
        for name in ("give_up_on", "only_on", "per_exception"):
            given = getattr(self, name) or ()
            if not isinstance(given, Iterable):
                raise InvalidSetting(
                    f"{name} must be a tuple of exception classes, got {given!r}; note the comma in "
                    "(ValueError,)"
                )
            for kind in given:
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise InvalidSetting(f"{name} must name exception classes, got {kind!r}")

    def delay(self, failures: int) -> float:
        """Seconds to wait after the failure number `failures` (1 for the first)."""
        full = min(self.most, self.first * self.factor ** min(failures - 1, 64))
        return full * (0.5 + random.random() / 2)

    def applying_to(self, error: BaseException) -> RetryPolicy:
        """The policy for this exception: the nearest class that has one of its own."""
        for kind in type(error).__mro__:
            if kind in self.per_exception:
                return self.per_exception[kind]
        return self


def judge(policy: RetryPolicy, *, failures: int, error: BaseException) -> Outcome:
    """What the failure number `failures` of a visit leads to."""
    policy = policy.applying_to(error)
    name, text = describe(error)
    final = isinstance(error, (UnknownCipherKey, *policy.give_up_on)) or (
        policy.only_on is not None and not isinstance(error, tuple(policy.only_on))
    )
    if final or failures >= policy.attempts:
        return Parked(error_type=name, error=text)
    asked = error.seconds(datetime.now(UTC)) if isinstance(error, RetryAfter) else None
    after = policy.delay(failures) if asked is None else asked
    return Retry(after=after, error_type=name, error=text)


def told_to_end(run: Run, outcome: Outcome) -> Outcome:
    """What a run comes to that has returned: one that was cancelled before may return what it likes."""
    return CANCELLED if run.stopped == "cancelled" and not run.settled else outcome


def outcome_of_error(run: Run, error: BaseException, *, is_closing: bool = False) -> Outcome | None:
    """What the exception of a run leads to: its handler's own failure, or a stop from outside. None: the
    run counts for nothing, as when it is cancelled while its worker stops."""
    if run.settled:
        return Done()  # by a transaction of its own: what came after changes nothing
    if run.stopped in ("fenced", "stopping", "gone"):
        return None
    if is_closing and run.stopped is None and isinstance(error, CancelledError):
        return None
    if run.stopped == "cancelled":
        return CANCELLED
    if run.stopped == "timeout":
        error = TimeoutError(f"ran longer than its timeout of {run.settings.timeout:g} s")
    breaker = run.settings.breaker
    if breaker is not None and not breaker.counts(error):
        run.spare()
    if isinstance(error, RetryAfter):
        now = instant(run.started + clock.local() - run.began)
        if error.pauses is not None:
            run.respite(Respite(error.seconds(now), error.pauses, describe(error)[1]))
    if isinstance(error, RetryAfter) and not error.counts:
        return Postponed(after=error.seconds(now), error=describe(error)[1])
    return judge(run.settings.retry, failures=run.visit.attempt + 1, error=error)
