"""How often what has failed is tried again, and after how long: as users declare it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mainspring.errors import InvalidSetting

LONGEST_DELAY = 315_360_000.0  # ten years: what is added to a time must still be one
STEEPEST = 1000.0
MOST_ATTEMPTS = 1_000_000


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


def checked_policy(given: object) -> RetryPolicy:
    """What was given as `retry`; the default policy where nothing was."""
    policy = given or RetryPolicy()
    if not isinstance(policy, RetryPolicy):
        raise InvalidSetting(f"retry must be a RetryPolicy, got {policy!r}")
    return policy
