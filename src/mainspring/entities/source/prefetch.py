"""Prefetched pictures: what visits will see, loaded for all of a page before the first of them starts.

A picture serves exactly the visits that had been read when its load was sent, known by their tokens: so an
entity is never older than the token of the run that sees it. It may be older than the run: that is as if
the run had begun at the load, and the save compares versions as always. What we save ourselves is dropped.
Pure memory, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mainspring.entities.declare.catalogue import Catalogue
from mainspring.entities.declare.state import Stored
from mainspring.entities.source.rows import Loaded

# A picture that nobody has used by then is loaded again (seconds): an old one would only meet conflicts.
FRESH_SECONDS = 5.0
# When one was used too late, runs wait for something else than loads; and a load may fail or wait for a
# lock. Nothing is prepared for so long then (seconds).
PAUSE_SECONDS = 10.0
# Bytes of entities with their states, and entities, that are kept.
MOST_BYTES = 16_000_000
MOST_KEPT = 10_000


class Picture(msgspec.Struct, gc=False):
    """What a run sees: the entity, the states of some stages with their versions, what is due."""

    entity: Loaded | None = None
    states: dict[str, tuple[int, Stored]] = {}
    due: set[str] = set()  # queues
    catalogue: Catalogue = Catalogue()

    def state(self, stage: str) -> tuple[int, Stored | None]:
        return self.states.get(stage, (0, None))


class _Kept(msgspec.Struct):
    key: str
    tokens: set[int]  # of the visits that it serves
    picture: Picture
    at: float

    @property
    def size(self) -> int:
        entity = self.picture.entity
        states = sum(stored.size for _, stored in self.picture.states.values())
        return states if entity is None else states + len(entity.body)


class Prefetched:
    """The pictures of one kind in one worker, by the tokens of their visits."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}  # the oldest first
        self._tokens: dict[str, set[int]] = {}  # by key
        self._bytes = 0
        self._not_before = 0.0

    def has_room(self, now: float) -> bool:
        """Whether anything should be prepared now."""
        if now < self._not_before:
            return False
        for token, kept in list(self._kept.items()):
            if now - kept.at < FRESH_SECONDS:
                break
            self._pop(token)
        return self._bytes < MOST_BYTES and len(self._kept) < MOST_KEPT

    def keep(self, key: str, tokens: Sequence[int], picture: Picture, at: float) -> None:
        """A picture whose load was sent at this local moment, for visits that were read before."""
        for token in tokens:
            self._pop(token)
        kept = _Kept(key, set(tokens), picture, at)
        self._kept |= dict.fromkeys(tokens, kept)
        self._tokens.setdefault(key, set()).update(tokens)
        self._bytes += kept.size

    def take(self, token: int, now: float) -> Picture | None:
        """The picture for a visit, once."""
        kept = self._pop(token)
        if kept is not None and now - kept.at >= FRESH_SECONDS:
            self.pause(now)
            return None
        return None if kept is None else kept.picture

    def _pop(self, token: int) -> _Kept | None:
        if (kept := self._kept.pop(token, None)) is None:
            return None
        kept.tokens.remove(token)
        if not kept.tokens:
            self._bytes -= kept.size
        others = self._tokens[kept.key]
        others.remove(token)
        if not others:
            del self._tokens[kept.key]
        return kept

    def pause(self, now: float) -> None:
        """Prepare nothing for a while: it helps nobody, or takes too long."""
        self._not_before = now + PAUSE_SECONDS

    def drop(self, keys: Iterable[str]) -> None:
        """These entities were changed: what shows them as they were is of no use."""
        for key in keys:
            for token in tuple(self._tokens.get(key, ())):
                self._pop(token)
