"""Local time, and the database's time as this worker knows it."""

from __future__ import annotations

import time
from functools import partial

# Counts on while the machine sleeps, so a lease that ended in the meantime is known to have ended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


# Seconds on a clock that never goes back; only differences mean anything. Asked several times a run.
local = partial(time.clock_gettime, _CLOCK)


class DatabaseTime:
    """The database's time between two looks at it: the last one plus what passed here since."""

    def __init__(self) -> None:
        self._offset = time.time() - local()

    def seen(self, epoch: float, *, sent: float, received: float) -> float:
        """Take note of the database's time; answers by how many seconds it jumped.

        It was read at some moment between the two: only what no such moment explains is a jump. A slow
        answer says little, and is no reason to change what is known.
        """
        offset = min(max(self._offset, epoch - received), epoch - sent)
        jump = offset - self._offset
        self._offset = offset
        return jump

    def at(self, moment: float) -> float:
        """The database's time (seconds since 1970) at a local moment."""
        return moment + self._offset
