"""A level: the visits of one queue and priority that wait in memory, the oldest first.

Pages come in order and are kept as they were read; a visit that comes back (it waited for a turn or a
group) is older than most and goes to a heap of its own, so that no page is ever sorted again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from mainspring.kernel.visit import END, Position, Visit

_number = count()  # keeps visits of one position apart, in the order they came


class Level:
    """Oldest first."""

    __slots__ = ("_back", "_front", "_pages")

    def __init__(self, visits: Iterable[Visit] = ()) -> None:
        """Visits oldest first."""
        self._pages = deque(visits)
        self._back: list[tuple[Position, int, Visit]] = []
        # Kept while it holds: a choice between queues asks each of them, and only one is then changed.
        self._front: Position | None = None

    @property
    def front(self) -> Position:
        """The position of the next."""
        if self._front is None:
            front = self._pages[0].position if self._pages else END
            self._front = min(front, self._back[0][0]) if self._back else front
        return self._front

    def __len__(self) -> int:
        return len(self._pages) + len(self._back)

    def __iter__(self) -> Iterator[Visit]:
        """All of them, in no order. The heart asks too, from its thread: the copies are atomic."""
        return iter([*(visit for _, _, visit in self._back.copy()), *self._pages.copy()])

    def extend(self, visits: list[Visit]) -> bool:
        """A page, oldest first; refused if it does not follow what is here."""
        if self._pages and visits[0].position < self._pages[-1].position:
            return False
        self._pages.extend(visits)
        self._front = None
        return True

    def push(self, visit: Visit) -> None:
        """One visit, wherever it belongs."""
        position = visit.position
        if self._pages and position < self._pages[-1].position:
            heappush(self._back, (position, next(_number), visit))
        else:
            self._pages.append(visit)
        self._front = None

    def pop(self) -> Visit:
        """The oldest."""
        pages, back = self._pages, self._back
        if back and (not pages or back[0][0] <= pages[0].position):
            visit = heappop(back)[2]
        else:
            visit = pages.popleft()
        self._front = None
        return visit

    def follow(self, before: Position, read_since: float) -> Visit | None:
        """Take the oldest if nothing but a slot has to be asked for it: it lies before this position, was
        read since then, has no group and was never at a death."""
        pages = self._pages
        if self._back or not pages:
            return None
        visit = pages[0]
        if visit.group is not None or visit.crashes or visit.read_at < read_since:
            return None
        if before is not END and visit.position >= before:
            return None
        self._front = None
        return pages.popleft()

    def keep(self, wanted: Iterable[Visit]) -> None:
        """Only these, of those that are here, stay."""
        kept = {id(visit) for visit in wanted}
        self._pages = deque(visit for visit in self._pages if id(visit) in kept)
        self._back = [entry for entry in self._back if id(entry[2]) in kept]
        heapify(self._back)
        self._front = None
