"""Runs that are stopped, and those that hang: overtaken, or told to end, and still under way.

An overtaken run's result may still be the first that comes, so it goes on; a run that was stopped and does
not end (a thread in a call that never returns, a handler that swallows its cancellation) cannot be helped.
Neither may keep a slot: one task that always hangs would take them all, one after the other. But each costs
memory and perhaps a thread, so there are few. For one more the oldest that may still have a result is
stopped; when none of them can be stopped, the worker is worn out and ought to be replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run, instant

log = logging.getLogger("mainspring")
# For whoever has a thread for each run.
MOST_HANGING = DEFAULT.most_hanging


class Hanging:
    """Of one worker, the oldest first."""

    def __init__(self, tuning: Tuning, go_on_without: Callable[[Run], None]) -> None:
        self._tuning = tuning
        self._go_on_without = go_on_without  # told of a run whose slot is others' from now on
        self.runs: dict[int, Run] = {}  # by token
        self._kept: list[Run] = []  # should hang and keep their slots: there is no room
        self._is_closing = False
        self.had_any = False
        self.worn_out = asyncio.Event()

    def stop(self, run: Run, why: str) -> None:
        """End a run from outside; its handler sees a cancellation."""
        if run.slot is not None and run.stopped is None and run.outcome is None:
            run.stop(why)
            if why not in ("fenced", "stopping"):  # a fence has an end of its own
                after = self._tuning.gone_seconds if why == "gone" else self._grace_of(run)
                asyncio.get_running_loop().call_later(after, self.let_hang, run)

    def _grace_of(self, run: Run) -> float:
        grace: float | None = run.settings.grace if run.settings is not None else None
        return self._tuning.stop_seconds if grace is None else grace

    def call_off(self, run: Run) -> None:
        """Nothing will come of it any more."""
        if not run.hangs:
            self.stop(run, "gone")
        elif run.stopped is None:
            run.stop("gone")

    def let_hang(self, run: Run) -> None:
        """A run was overtaken, or told to end, and is still under way: its slot goes on without it, and so
        do its queue, its group and its key. What an overtaken one brings may still count. A worker that
        stops waits no longer for it, and has room for any number."""
        if run.slot is None or run.hangs or run.outcome is not None:
            return
        if len(self.runs) < self._tuning.most_hanging or self._is_closing:
            self._add(run)
            self._go_on_without(run)
        elif run not in self._kept:
            self._kept.append(run)
            self._make_room(run)

    def _add(self, run: Run) -> None:
        run.hangs = self.had_any = True
        self.runs[run.token] = run
        facts = {
            "id": str(run.visit.id),
            "attempt": run.visit.attempt + 1,
            "hanging": len(self.runs),
        }
        log.warning("run.hangs", extra=_told(run) | facts)

    def _make_room(self, run: Run) -> None:
        """Stop the oldest that may still have a result, so that one more may hang; it keeps its slot until
        there is room."""
        if run not in self._kept:
            return
        if run.slot is None:
            self._kept.remove(run)  # it has ended
        elif hopeful := self.hopeful():
            hopeful[0].stop("gone")
            asyncio.get_running_loop().call_later(self._tuning.room_seconds, self._make_room, run)
        else:
            self._wear_out()

    def _wear_out(self) -> None:
        """There is no room, and nothing more to be done about it."""
        if not self.worn_out.is_set():
            self.worn_out.set()
            text = (
                f"{len(self.runs)} runs hang and cannot be stopped: further ones keep their slots "
                "until this process is replaced"
            )
            queues = sorted({run.visit.queue for run in self.runs.values()})
            log.error("worker.worn_out", extra={"queues": queues, "text": text})

    def ended(self, run: Run) -> None:
        """It has ended after all: there is room for one of those that should hang."""
        self.runs.pop(run.token, None)
        kept, self._kept = self._kept, []
        for other in kept:
            self.let_hang(other)

    def close(self) -> None:
        """The worker stops: there is room for any number from now on."""
        self._is_closing = True

    def stop_all(self) -> None:
        """A worker that ends waits for none of them."""
        for run in self.hopeful():
            run.stop("gone")

    # -- what is known of them

    def hopeful(self) -> list[Run]:
        """Those that have not been told to end, the oldest first. Called by the heart's thread too."""
        return [run for run in list(self.runs.values()) if run.stopped is None]

    @property
    def slots(self) -> set[Any]:
        """Slots of runs that ought to hang: nobody waits for them."""
        return {run.slot for run in self._kept}

    def listed(self) -> list[dict[str, Any]]:
        """As operators are told. Called by the heart's thread too."""
        return [{**_told(run), "run": str(run.token)} for run in list(self.runs.values())]


def _told(run: Run) -> dict[str, Any]:
    return {
        "queue": run.visit.queue,
        "key": run.visit.key,
        "started_at": instant(run.started).isoformat(),
        "reason": run.stopped or "overtaken",
    }
