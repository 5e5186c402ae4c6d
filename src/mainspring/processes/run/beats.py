"""Beats: the signs of life that running tasks give of themselves, written a few times a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mainspring.kernel import KERNEL_SQL, Run, WorkerPort
from mainspring.processes.connections import Lines

log = logging.getLogger("mainspring")
EVERY = 0.5  # seconds


class Beats:
    """Of one worker. A run that is not held yet needs none: its hold begins a fresh work timeout."""

    def __init__(
        self,
        lines: Lines,
        work_timeout: Callable[[Run], float | None],
        worker: WorkerPort,
    ) -> None:
        self._lines = lines
        self._work_timeout = work_timeout
        self._worker = worker
        self._beating: dict[int, Run] = {}  # since the last write
        self._writer: asyncio.Task[None] | None = None

    def beat(self, run: Run) -> None:
        """From any thread; one that beats all the time says it once until it is written."""
        if run.token not in self._beating:
            self._worker.call_soon(self._note, run)

    def _note(self, run: Run) -> None:
        self._beating[run.token] = run
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._beating:
                runs, self._beating = list(self._beating.values()), {}
                try:
                    await self._lines.run(KERNEL_SQL["beat_visits"], **self._values(runs))
                except Exception as error:
                    log.warning("beat.failed", extra={"error": str(error)})
                await asyncio.sleep(EVERY)
        finally:
            self._writer = None

    def _values(self, runs: list[Run]) -> dict[str, object]:
        return {
            "shards": [run.visit.shard for run in runs],
            "keys": [run.visit.key for run in runs],
            "queues": [run.visit.queue for run in runs],
            "passes": [run.token for run in runs],
            "work_timeouts": [self._work_timeout(run) for run in runs],
        }

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
