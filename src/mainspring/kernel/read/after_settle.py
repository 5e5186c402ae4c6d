"""What follows from a settle: places are free, and visits that go on are read again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mainspring.kernel.outcome import Again, Done, Postponed, Retry
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.reader import Reader
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.visit import Run


class AfterSettle:
    """Tells reader and slots of one worker what they should look at."""

    def __init__(self, owned: Owned, buffer: Buffer, reader: Reader, runner: Runner) -> None:
        self._owned = owned
        self._buffer = buffer
        self._reader = reader
        self._runner = runner
        self._filling = False  # a look for what can be started is on its way

    def __call__(self, runs: Sequence[Run], answer: str) -> None:
        """The database has answered for these runs."""
        self._owned.end(runs)
        if self._buffer.settled(self._in_place(runs)):
            self._fill_soon()
        if answer == "settled":
            runs = [run for run in runs if type(run.outcome) is not Done or run.visit.group]
        for run in runs:
            self._go_back(run, answer)

    def _in_place(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Without those that were overtaken: their places were given up then, and others may have them."""
        if not self._runner.hanging.had_any:
            return runs
        return [run for run in runs if not run.hangs or run.stopped is not None]

    def _go_back(self, run: Run, answer: str) -> None:
        """Its visit goes on, or a group has room: what the reader and the slots should look at."""
        # Nothing is made due before the end of its run (by the database's clock as it was, or as it is
        # should it have jumped): what was due before that is not read again.
        ended = min(run.started, self._owned.time.at(run.began)) + run.seconds
        match run.outcome, answer:
            case (_, "superseded" | "rerun"):
                self._reader.left(run.visit)
            case (Retry(after=after) | Postponed(after=after) | Again(after=after, at=None), _):
                self._reader.settled(run.visit, ended + after)
            case (Again(at=at), _) if at is not None:
                self._reader.settled(run.visit, max(ended, at.timestamp()))
            case _:
                pass
        if self._waiting_for_group(run):
            self._reader.wake()
        self._fill_soon()

    def _fill_soon(self) -> None:
        """Start what waited for a turn or a group: once for all runs of a settle."""
        if not self._filling:
            self._filling = True
            asyncio.get_running_loop().call_soon(self._fill_now)

    def _fill_now(self) -> None:
        self._filling = False
        self._runner.fill()

    def _waiting_for_group(self, run: Run) -> bool:
        group = run.visit.group
        return group is not None and self._buffer.queues[run.visit.queue].groups.is_behind(group)
