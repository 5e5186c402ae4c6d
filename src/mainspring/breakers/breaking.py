"""Tells the database of runs that failed, or succeeded while their breaker counts. Of one worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from mainspring.breakers.counts import Count, Key
from mainspring.breakers.judgement import DEFAULT, BreakerTuning, Counted, Judgement
from mainspring.breakers.statements import SQL
from mainspring.db.shared import SharedLine
from mainspring.db.sql import numbers
from mainspring.kernel import QueueState, Run

log = logging.getLogger("mainspring")


class Breaking(Judgement):
    """A judgement that tells the database, for as long as there is something to be told."""

    def __init__(
        self,
        line: SharedLine,
        queues: Mapping[str, QueueState],
        *,
        look: Callable[[], None],
        tuning: BreakerTuning = DEFAULT,
    ) -> None:
        super().__init__(queues, look=look, tuning=tuning)
        self._line = line
        self._sending: asyncio.Task[None] | None = None

    def ended(self, runs: Sequence[Run]) -> None:
        super().ended(runs)
        if self._tally and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._tally:
                taken = self.take()
                try:
                    answers = await self._tell(taken)
                except Exception as error:
                    log.warning("breaker.waiting", extra={"error": str(error)})
                    self.not_told(taken)
                    await asyncio.sleep(self._tuning.again)
                else:
                    self.answered(taken, answers)
        finally:
            self._sending = None

    async def _tell(self, taken: Sequence[tuple[Key, Count]]) -> Sequence[Counted]:
        bad = [(key, count) for key, count in taken if count.is_bad]
        good = [(key, count) for key, count in taken if not count.is_bad]
        answers: Sequence[Counted] = ()
        async with self._line.use() as connection, connection.atomic():
            if bad:
                queues, groups = _split(bad)
                await connection.run(SQL["make_breakers"], queues=queues, groups=groups)
                answers = await connection.rows(
                    SQL["count_failures"],
                    Counted,
                    queues=queues,
                    groups=groups,
                    counts=numbers([count.failures for _, count in bad]),
                    anew=[count.succeeded for _, count in bad],
                    began=numbers([count.failed_at for _, count in bad]),
                    rests=numbers([count.rest for _, count in bad]),
                    reasons=[count.reason for _, count in bad],
                )
            if good:
                queues, groups = _split(good)
                began = numbers([count.succeeded_at for _, count in good])
                trusted = self._tuning.trusted
                await connection.run(
                    SQL["count_successes"],
                    queues=queues,
                    groups=groups,
                    counts=numbers([count.successes for _, count in good]),
                    began=began,
                    trusted=trusted,
                )
        return answers

    async def close(self) -> None:
        """Tell nothing more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)


def _split(counts: Sequence[tuple[Key, Count]]) -> tuple[list[str], list[str]]:
    return [key[0] for key, _ in counts], [key[1] for key, _ in counts]
