"""Visits that wait in memory and are said to be gone: each is read again before it starts.

Anybody may say so, so nothing is dropped for it; what is still there comes back with the next page.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.kernel.tuning import Tuning


class Doubted:
    """Versions of one worker's visits. What waits for longer than a visit may is read again anyhow."""

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self.until: dict[int, float] = {}  # in the order in which they were said

    def add(self, versions: Iterable[int], now: float) -> None:
        """Somebody says that these are gone."""
        for version, until in list(self.until.items()):
            if until > now and len(self.until) <= self._tuning.most_doubted:
                break
            del self.until[version]
        self.until |= dict.fromkeys(versions, now + 2 * self._tuning.stale)

    def take(self, version: int) -> bool:
        """Whether a visit that is about to start is to be read again; asked once."""
        return self.until.pop(version, None) is not None
