"""What runs have come to, as far as the database does not know it yet. Pure memory, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from mainspring.kernel import Again, Done, Failed, Parked, Respite, Retry, Run

# Of which a breaker counts: a queue, and a group of it or '' for all of it.
Key: TypeAlias = tuple[str, str]


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
