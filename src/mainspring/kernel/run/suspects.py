"""Suspects: visits that a dead worker may have been running are started a few at a time.

What killed a worker will kill the next one too. So few of them are under way at once, one that a further
death would park is alone, and the rest waits here: known, and in no level. Pure memory, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.visit import Position, Run, Visit


def may_try(*, is_last: bool, trying: int, last: int, at_once: int) -> bool:
    """Whether a suspect may begin beside those that are tried, of which so many have their last try.

    A few at a time. One that a further death would park is alone, lest it be parked for what another did.
    """
    return trying == 0 if is_last else last == 0 and trying < at_once


class Suspects:
    """Suspects: those under way, and those that wait."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._tuning = buffer.tuning
        self.waiting: list[tuple[int, Position, int, Visit]] = []  # a heap, the most urgent first
        self.running = 0
        self._last = 0  # of those, the ones that a further death would park

    def may_begin(self, visit: Visit) -> bool:
        """A few at a time (see may_try). One that may not is kept for its try."""
        is_last, at_once = self._is_last(visit), self._tuning.suspects
        if may_try(is_last=is_last, trying=self.running, last=self._last, at_once=at_once):
            return True
        heappush(self.waiting, (-visit.priority, visit.position, id(visit), visit))
        return False

    def _is_last(self, visit: Visit) -> bool:
        return visit.crashes + 1 >= self._buffer.queues[visit.queue].settings.crash_limit

    def put_back(self) -> None:
        """The most urgent ones, to be tried if they may."""
        for _ in range(min(self._tuning.suspects_put_back, len(self.waiting))):
            self._buffer.place(heappop(self.waiting)[-1])

    def began(self, run: Run) -> None:
        run.suspect = True
        self.running += 1
        self._last += self._is_last(run.visit)

    def ended(self, run: Run) -> None:
        """A try has ended, or lasted long: others may begin."""
        run.suspect = False
        self.running -= 1
        self._last -= self._is_last(run.visit)
        self.put_back()

    def seconds(self, run: Run) -> float:
        """After how long a try makes room for the next."""
        is_last = self._is_last(run.visit)
        return self._tuning.last_try_seconds if is_last else self._tuning.try_seconds

    def drop(self, unwanted: Callable[[Visit], bool]) -> None:
        """Forget those that wait in shards that are no longer mine."""
        for *_, visit in self.waiting:
            if unwanted(visit):
                self._buffer.forget(visit)
        self.waiting = [entry for entry in self.waiting if not unwanted(entry[-1])]
        heapify(self.waiting)
