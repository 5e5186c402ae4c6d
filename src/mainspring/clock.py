"""Local time."""

from __future__ import annotations

import time
from functools import partial

# Counts on while the machine sleeps, so a lease that ended in the meantime is known to have ended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


# Seconds on a clock that never goes back; only differences mean anything. Asked several times a run.
local = partial(time.clock_gettime, _CLOCK)
