"""Entities that are saved too often: what the loop guard cannot see (S16).

A loop through `saved` hooks, other entities or timers begins a new chain at every turn. So saves are
counted by entity and hour, in memory: an entity is in one worker's shards at a time.
"""

from __future__ import annotations

import logging

from mainspring.kernel import clock

log = logging.getLogger("mainspring")
HOUR = 3600.0
WARN_AT = 1000
# So many entities are counted at once; the quiet ones are forgotten first.
MOST = 100_000


class Busy:
    """The saves of a kind's entities in the hour that runs."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._counts: dict[str, int] = {}
        self._until = 0.0

    def saved(self, key: str, stage: str) -> None:
        """Count a save; the thousandth in an hour is said."""
        now = clock.local()
        if now >= self._until:
            self._counts.clear()
            self._until = now + HOUR
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == WARN_AT:
            extra = {"kind": self._kind, "key": key, "stage": stage, "saves": count}
            log.warning("entity.busy", extra=extra)
        if len(self._counts) > MOST:
            self._forget_quiet()

    def _forget_quiet(self) -> None:
        least = 1
        while len(self._counts) > MOST // 2:
            self._counts = {key: n for key, n in self._counts.items() if n > least}
            least *= 2
