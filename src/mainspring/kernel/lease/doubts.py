"""Doubts: runs whose visits somebody says are gone. Anybody may say so, so the database is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mainspring.db.shared import SharedLine
from mainspring.kernel.lease.holds import LostRun, gone_arguments, lost_of
from mainspring.kernel.owned import Owned
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import Run

log = logging.getLogger("mainspring")


class Doubts:
    """Of one worker, in its event loop."""

    def __init__(
        self,
        line: SharedLine,
        owned: Owned,
        runner: Runner,
        *,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        stop: Callable[[Sequence[Run]], None],
        cancel: Callable[[Sequence[Run]], None],
    ) -> None:
        self._line = line
        self._owned = owned
        self._runner = runner
        self._begin = begin
        self._stop = stop  # told of runs that have lost their visits
        self._cancel = cancel  # and of those that were called off
        self._versions: set[int] = set()  # that are said to be gone
        self._is_looking = False

    def add(self, versions: frozenset[int]) -> None:
        """Visits of these versions are said to be gone."""
        self._versions |= versions
        if not self._is_looking and self._doubtful():
            self._is_looking = True
            self._begin(self._look_up())

    def _doubtful(self) -> list[Run]:
        runs = [*self._owned.active(), *self._runner.hanging.hopeful()]
        found = [run for run in runs if run.visit.version in self._versions]
        self._versions &= {run.visit.version for run in found}
        return found

    async def _look_up(self) -> None:
        """Stop the doubted runs that have lost their visits; one look at a time, and not too often."""
        try:
            while runs := self._doubtful():
                self._versions.clear()
                async with self._line.use() as connection:
                    rows = await connection.rows(SQL["find_gone"], LostRun, **gone_arguments(runs))
                lost = lost_of(runs, rows)
                self._stop([run for run in runs if lost.get(run.token) in ("gone", "changed")])
                self._cancel([run for run in runs if lost.get(run.token) == "called_off"])
                await asyncio.sleep(LEASE.doubts_every)
        except Exception as error:  # the heart's next looks find them
            log.warning("call_off.waiting", extra={"error": str(error)})
        finally:
            self._is_looking = False
