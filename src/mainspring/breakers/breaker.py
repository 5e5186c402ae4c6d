"""Breakers: what a queue, or one of its groups, does when its runs fail in a row. Pure, no I/O.

A breaker that has seen enough failures *opens*: nothing starts for a while. Then one run is tried, and each
success lets twice as many run, until it is closed. One that fails meanwhile opens it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mainspring.errors import InvalidSetting

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
