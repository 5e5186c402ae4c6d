"""Visits of background priorities (0 to 2) give way while others are about. Pure, no I/O.

The greatest priority starts first, but a run that has begun, a page that is read and a batch that is
settled are not interrupted: beside many visits of low priorities others would wait for all of these,
and for the server's time. So while other work is about, low priorities are read by small bursts, each
when the one before is settled (or runs on, as long runs do) and after a rest that is longer than it took.
Beside an operator's operation, which takes the server's time too, the rests are longer still.
A queue with a share of the starts (a crawl) is read all the same while it has had less than that.
"""

from __future__ import annotations

import math

# Priorities below this are background work.
BACKGROUND_BELOW = 3
# Others are about for so long after one was read (seconds).
ABOUT_SECONDS = 1.0
# Visits of a level that are then read at once: about as many as a worker usually has slots for.
BURST = 48
# So few of a burst that are not settled do not keep the next one back, nor does a run that takes longer
# than this (seconds): it waits for something, and nobody waits for it.
FEW_UNSETTLED = 8
QUICK_SECONDS = 0.05
# A rest is so many times as long as the burst was, and so many while an operation is under way.
RESTS = 2
RESTS_OPERATING = 20
# For runs that wait, the time of a burst is no measure of its cost: a rest counts no more than this of it.
LONGEST_COUNTED = 0.05
# A burst keeps the next one back no longer than this (seconds), whatever becomes of it.
LONGEST_BURST = 1.0


class Background:
    """When low priorities may be read next, and how many of them."""

    def __init__(self) -> None:
        self._met_at = -math.inf  # other work was last read
        self._burst_at: float | None = None  # the burst that is under way was sent for
        self._rest_until = -math.inf

    def met(self, now: float) -> None:
        """Work of the usual priority or above was read."""
        self._met_at = now

    def gives_way(self, now: float) -> bool:
        """Whether other work is about."""
        return now - self._met_at < ABOUT_SECONDS

    def burst(self, now: float) -> None:
        """Visits of low priorities are read, sent for at this moment."""
        if self._burst_at is None:
            self._burst_at = now

    def opens_at(self, now: float, *, waiting: bool, unsettled: int, operating: bool) -> float:
        """The moment from which low priorities may be read, as far as is known now.

        `waiting`: some of them wait for a slot. `unsettled`: so many were started just now, or have
        ended and are not written. `operating`: an operation is under way.
        """
        if not self.gives_way(now):
            self._burst_at = None
            return now
        if self._burst_at is not None:
            took = now - self._burst_at
            if (waiting or unsettled > FEW_UNSETTLED) and took < LONGEST_BURST:
                return now + min(QUICK_SECONDS, LONGEST_BURST - took)
            self._burst_at = None
            rests = RESTS_OPERATING if operating else RESTS
            self._rest_until = now + rests * min(took, LONGEST_COUNTED)
        return max(now, self._rest_until)
