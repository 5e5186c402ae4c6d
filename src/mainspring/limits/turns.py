"""Turns: queues of one class run one visit of a key at a time. Pure memory, no I/O.

A turn is (class, key). Who comes while it is taken waits here; when it is over all who waited may try,
or only the first of them where nothing but a slot is in its way: the others would come, find the turn
taken and wait again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal

from mainspring.limits.waiting import V, urgency

Turn = tuple[str, str]


class Turns(Generic[V]):
    """All turns that this worker knows of. What it answers is to be put back into its level."""

    def __init__(self) -> None:
        # Turns of visits that other workers hold in my shards, as of the last beat.
        self.foreign: set[Turn] = set()
        self._waiting: dict[Turn, list[V]] = {}  # taken, and who waits for each
        # Of those, the ones whose first waiter was called up and has not started yet.
        self._called: set[Turn] = set()

    def __iter__(self) -> Iterator[V]:
        """Everything that waits."""
        for visits in self._waiting.values():
            yield from visits

    def set_foreign(self, foreign: set[Turn]) -> bool:
        """What other workers hold in my shards; whether that has changed."""
        changed, self.foreign = foreign != self.foreign, foreign
        return changed

    def take(self, turn: Turn, visit: V) -> Literal["taken", "waits", "foreign"]:
        """Take the turn for this visit, or let it wait; a foreign one cannot be waited for."""
        if turn in self._waiting:
            if turn in self._called:
                self._called.remove(turn)  # nobody runs: the first to come has it
                return "taken"
            self._waiting[turn].append(visit)
            return "waits"
        if turn in self.foreign:
            return "foreign"
        self._waiting[turn] = []
        return "taken"

    def over(self, turn: Turn, may_come_alone: Callable[[V], bool]) -> list[V]:
        """The turn is free: those who may try."""
        waited = self._waiting.get(turn)
        if waited is None:
            return []
        if len(waited) > 1 and may_come_alone(first := min(waited, key=urgency)):
            waited.remove(first)
            self._called.add(turn)
            return [first]
        return self._free(turn)

    def give_up(self, turn: Turn) -> list[V]:
        """A visit is not in hand any more: it may be the one that was called up."""
        return self._free(turn) if turn in self._called else []

    def give_up_all(self) -> list[V]:
        """Limits have changed, or visits went: whoever was called up may be kept back, or be gone."""
        return [visit for turn in tuple(self._called) for visit in self._free(turn)]

    def sift(self, sift: Callable[[Iterable[V]], list[V]]) -> None:
        """Keep of those who wait what `sift` keeps."""
        for turn, waiting in self._waiting.items():
            self._waiting[turn] = sift(waiting)

    def _free(self, turn: Turn) -> list[V]:
        self._called.discard(turn)
        return self._waiting.pop(turn)
