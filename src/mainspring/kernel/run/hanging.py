"""Runs that hang: overtaken, or told to end, and still under way. They go on outside of the count.

An overtaken run's result may still be the first that comes, so it goes on; a run that was stopped and does
not end (a thread in a call that never returns, a handler that swallows its cancellation) cannot be helped.
Neither may keep a slot: one task that always hangs would take them all, one after the other. But each costs
memory and perhaps a thread, so there are few. For one more the oldest that may still have a result is
stopped; when none of them can be stopped, the worker is worn out and ought to be replaced.
Pure memory, no I/O.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mainspring.kernel.visit import Run, instant

log = logging.getLogger("mainspring")
# So many runs of a worker hang at most. Its threads are as many more than its slots.
MOST_HANGING = 10
# A run that was told to end has so long to do it (seconds) before its slot is given to others.
STOP_SECONDS = 5.0
# So long if its visit goes on without it: it was overtaken, and had its time.
GONE_SECONDS = 0.2
# And so long if it hangs already and its place is needed for another.
ROOM_SECONDS = 1.0


class Hanging:
    """Of one worker, the oldest first."""

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}  # by token
        self.kept: list[Run] = []  # should hang and keep their slots: there is no room
        self.had_any = False
        self.worn_out = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self.runs) >= MOST_HANGING

    def add(self, run: Run) -> None:
        run.hangs = self.had_any = True
        self.runs[run.token] = run
        log.warning(
            "run.hangs",
            extra={
                "queue": run.visit.queue,
                "key": run.visit.key,
                "id": str(run.visit.id),
                "attempt": run.visit.attempt + 1,
                "started_at": instant(run.started).isoformat(),
                "reason": run.stopped or "overtaken",
                "hanging": len(self.runs),
            },
        )

    def hopeful(self) -> list[Run]:
        """Those that have not been told to end, the oldest first. Called by the heart's thread too."""
        return [run for run in list(self.runs.values()) if run.stopped is None]

    def wear_out(self) -> None:
        """There is no room, and nothing more to be done about it."""
        if not self.worn_out.is_set():
            self.worn_out.set()
            text = (
                f"{len(self.runs)} runs hang and cannot be stopped: further ones keep their slots "
                "until this process is replaced"
            )
            queues = sorted({run.visit.queue for run in self.runs.values()})
            log.error("worker.worn_out", extra={"queues": queues, "text": text})

    def take_kept(self) -> list[Run]:
        """Those that may hang now that there is room."""
        kept, self.kept = self.kept, []
        return kept

    @property
    def slots(self) -> set[Any]:
        """Slots of runs that ought to hang: nobody waits for them."""
        return {run.slot for run in self.kept}

    def ended(self, run: Run) -> None:
        self.runs.pop(run.token, None)

    def listed(self) -> list[dict[str, Any]]:
        """As operators are told. Called by the heart's thread too."""
        return [
            {
                "queue": run.visit.queue,
                "key": run.visit.key,
                "run": str(run.token),
                "started_at": instant(run.started).isoformat(),
                "reason": run.stopped or "overtaken",
            }
            for run in list(self.runs.values())
        ]
