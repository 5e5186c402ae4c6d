"""Conflicts of saves: how often a visit met one, and how long it waits before it is run again.

Each conflict is another's progress. The first reruns at once; the next wait, longer each time, so that a
slow stage on a busy entity does not burn a slot. Memory only: after a restart the count begins anew.

A patch that nobody's change has to do with is no conflict: it is saved on the newer entity (S6). A stage
that declares what it reads is given no more than that. So its result holds as long as nothing it read,
wrote or is interested in has another value now.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from mainspring.entities.declare.stage import StageSettings
from mainspring.entities.source.rows import Loaded
from mainspring.kernel import Again, Verdict, Visit

FIRST_SECONDS = 0.05
MOST_SECONDS = 5.0
# After so many the visit says which fields keep moving.
NAMED_AFTER = 10
# So many visits are remembered; some end elsewhere, and are never heard of again.
MOST_RECORDS = 10_000


@dataclass(slots=True)
class Record:
    """The conflicts of one visit since it was last saved."""

    count: int = 0
    before: Loaded | None = None  # the entity that the last run worked on
    fields: dict[str, int] = field(default_factory=dict)  # which moved, how often


class Conflicts:
    """The visits of a worker that met conflicts."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], Record] = {}
        self.total = 0

    def met(self, visit: Visit, before: Loaded) -> Verdict:
        """A save met a conflict: run the visit again, now or in a while."""
        if len(self._records) >= MOST_RECORDS:
            del self._records[next(iter(self._records))]
        record = self._records.setdefault((visit.queue, visit.key), Record())
        record.count += 1
        record.before = before
        self.total += 1
        if record.count == 1:
            return "rerun"
        wait = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(record.count - 2, 20))
        error = None
        if record.count >= NAMED_AFTER:
            often = sorted(record.fields, key=lambda name: -record.fields[name])[:8]
            error = (
                f"{record.count} conflicts: others changed {', '.join(often) or 'the entity'} "
                "while it ran; declare what the stage reads, so that its patch can be rebased, "
                "or make it faster"
            )
        return Again(after=wait * (0.5 + random.random() / 2), error=error)

    def loaded(self, visit: Visit, now: Loaded) -> None:
        """The entity was loaded again: note what had moved."""
        record = self._records.get((visit.queue, visit.key))
        if record is not None and record.before is not None:
            for name in moved(record.before, now):
                record.fields[name] = record.fields.get(name, 0) + 1
            record.before = None

    def over(self, visit: Visit) -> None:
        """The visit was saved, or ended otherwise."""
        if self._records:
            self._records.pop((visit.queue, visit.key), None)


def watched(
    settings: StageSettings, keys: Iterable[str], patch: Iterable[str]
) -> frozenset[str] | None:
    """The fields whose values a save depends on; None: all of them, so nothing can be rebased."""
    if settings.reads is None:
        return None
    return frozenset(
        (*settings.reads, *(settings.writes or ()), *(settings.interest or ()), *keys, *patch)
    )


def moved(before: Loaded, now: Loaded) -> list[str]:
    """The fields whose values differ between two looks at an entity."""
    old, new = before.fields(), now.fields()
    return sorted(name for name in old if name in new and bytes(old[name]) != bytes(new[name]))


def can_rebase(before: Loaded, now: Loaded, watched: frozenset[str] | None) -> bool:
    """Whether a result computed from the entity before holds for the entity now."""
    if watched is None or not watched <= before.fields().keys():
        return False
    return watched.isdisjoint(moved(before, now))
