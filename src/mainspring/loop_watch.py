"""Whether something keeps the event loop from turning, and which line: an async task that never awaits.

The loop says that it turns; the heart, a thread of its own, looks whether it still does, and says
once of each stop where the loop stands.
"""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import sys
import threading
import traceback
from pathlib import Path

from mainspring import clock
from mainspring.failure_text import ENGINE

log = logging.getLogger("mainspring")

# A loop that has not turned for so long is said to be blocked (seconds).
BLOCKED = 2.0
_LOOP = (f"{Path(asyncio.__file__).parent}{os.sep}", selectors.__file__)
TEXT = (
    "an async function keeps the event loop, and with it every other run of this worker, waiting: "
    "await in it, or declare it with plain def, then it runs in a thread"
)


class LoopWatch:
    """One per worker."""

    def __init__(self) -> None:
        self._thread = 0
        self._turned_at: float | None = None  # None: said, or nothing to say yet

    def turned(self) -> None:
        """The loop turns; it says so itself."""
        self._thread = threading.get_ident()
        self._turned_at = clock.local()

    def look(self) -> None:
        """Say where the loop stands, if it does."""
        since = self._turned_at
        if since is None or (seconds := clock.local() - since) < BLOCKED:
            return
        self._turned_at = None
        if (frame := sys._current_frames().get(self._thread)) is None:
            return
        place = blamed(traceback.extract_stack(frame))
        if place is not None:
            log.warning(
                "worker.loop_blocked",
                extra={"seconds": round(seconds, 1), "at": place, "text": TEXT},
            )


def blamed(stack: traceback.StackSummary) -> str | None:
    """The line of a user's code that a blocked loop is in; None if the loop only waits for events."""
    if stack[-1].filename.startswith(_LOOP):
        return None  # the whole process was suspended, and the loop is not awake yet
    turns = [n for n, frame in enumerate(stack) if frame.filename.startswith(_LOOP)]
    called = stack[turns[-1] + 1 :] if turns else stack
    theirs = [frame for frame in called if not frame.filename.startswith(ENGINE)]
    frame = theirs[0] if theirs else stack[-1]
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
