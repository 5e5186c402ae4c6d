"""Rebase: a patch that nobody's change has to do with is saved on the newer entity (S6).

A stage that declares what it reads is given no more than that, so its result holds as long as nothing
it read, wrote or is interested in has another value now. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.entities.declare.stage import StageSettings
from mainspring.entities.source.rows import Loaded


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
