"""Suspects: visits that a dead worker may have been running are started a few at a time.

What killed a worker will kill the next one too. So few of them are under way at once, one that a further
death would park is alone, and the rest waits here: known, and in no level. Pure memory, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.visit import Position, Run, Visit

# So many visits that a dead worker may have been running are tried at once.
SUSPECTS_AT_ONCE = 4
# A try that has lasted so long (seconds) makes room for the next, alone where it is the last: what kills
# a worker mostly does so soon, and a hundred runs of an hour must not wait for each other.
TRY_SECONDS = 5.0
LAST_TRY_SECONDS = 60.0
# And so many of those that wait for their try are put back at once. All of them, at the end of each
# try, cost half a core and a third of the rate where two thousand waited.
SUSPECTS_PUT_BACK = 2 * SUSPECTS_AT_ONCE


class Suspects:
    """Suspects: those under way, and those that wait."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._waiting: list[tuple[int, Position, int, Visit]] = []  # a heap, the most urgent first
        self.running = 0
        self._last = 0  # of those, the ones that a further death would park

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def stranded(self) -> bool:
        """Some wait and no try's end will put them back: those before them wait for a limit."""
        return bool(self._waiting) and not self.running

    def may_begin(self, visit: Visit) -> bool:
        """A few at a time, each alone that a further death would park, lest it be parked for what another
        one did."""
        if self._is_last(visit):
            return self.running == 0
        return self._last == 0 and self.running < SUSPECTS_AT_ONCE

    def _is_last(self, visit: Visit) -> bool:
        return visit.crashes + 1 >= self._buffer.queues[visit.queue].settings.crash_limit

    def keep(self, visit: Visit) -> None:
        """It waits for its try."""
        heappush(self._waiting, (-visit.priority, visit.position, id(visit), visit))

    def put_back(self) -> None:
        """The most urgent ones, to be tried if they may."""
        for _ in range(min(SUSPECTS_PUT_BACK, len(self._waiting))):
            self._buffer.place(heappop(self._waiting)[-1])

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
        return LAST_TRY_SECONDS if self._is_last(run.visit) else TRY_SECONDS

    def drop(self, unwanted: Callable[[Visit], bool]) -> None:
        """Forget those that wait in shards that are no longer mine."""
        for *_, visit in self._waiting:
            if unwanted(visit):
                self._buffer.forget(visit)
        self._waiting = [entry for entry in self._waiting if not unwanted(entry[-1])]
        heapify(self._waiting)
