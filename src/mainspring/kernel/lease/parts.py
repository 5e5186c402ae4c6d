"""Parts: this worker's part of the limits of queues.

Asked for on demand, given back when not used, changed only under the queue row's lock. What the
table lends to others this worker has stopped using before it commits.
"""

from __future__ import annotations

import psycopg

from mainspring.kernel import clock
from mainspring.kernel.lease.loop_port import LoopPort, PartNeed
from mainspring.kernel.lease.session import Session
from mainspring.kernel.limits.bucket import Part, next_rate, next_size
from mainspring.kernel.owned import Owned

# While a worker waits for its part of a limit it looks this often (seconds).
EVERY = 0.1


class Parts:
    """The heart's work on limits."""

    def __init__(self, session: Session, owned: Owned, loop_port: LoopPort) -> None:
        self._session = session
        self._owned = owned
        self._loop_port = loop_port
        self._kept_at = 0.0
        self._locked_at: dict[str, float] = {}  # queues whose row somebody had, and when
        self.unmet = False  # a limited queue could use more than it has

    def is_stale(self) -> bool:
        """Whether it is time to look again."""
        return clock.local() - self._kept_at > EVERY

    def keep(self) -> None:
        """Bring every part in line with what is needed and what the others have."""
        self._kept_at = clock.local()
        needs = self._loop_port.part_needs()
        # One row that somebody has is waited for at a look, lest there be no time to beat; in turn.
        for need in sorted(needs, key=lambda need: self._locked_at.get(need.queue, 0.0)):
            try:
                self._keep(need)
            except psycopg.errors.LockNotAvailable:
                self._locked_at[need.queue] = clock.local()
                break
            self._locked_at.pop(need.queue, None)
        self.unmet = any(need.wants for need in needs)

    def lose(self) -> None:
        """The worker's row is gone, and its parts with it."""
        for need in self._loop_port.part_needs():
            self._loop_port.part_shrink(need.queue, 0, 0.0)

    def _keep(self, need: PartNeed) -> None:
        queue, me = need.queue, self._owned.worker_id
        with self._session.transaction():
            # The row's lock also waits for a commit of my own whose answer was lost.
            limits = self._session.fetch("lock_queue", queue=queue)
            if not limits:
                return
            concurrency, rate = limits[0]
            rows = self._session.fetch("read_parts", queue=queue)
            others = {row[0]: Part(row[1], row[2], row[3]) for row in rows}
            mine = others.pop(me, Part(0, 0.0, False))
            part = self._next(need, mine, list(others.values()), concurrency, rate)
            if part != mine:
                self._session.fetch(
                    "keep_part",
                    queue=queue,
                    worker_id=me,
                    size=part.size,
                    rate=part.rate,
                    wants=part.wants,
                )
        # A token that was left over from an earlier part is the others' by now.
        anew = mine.rate == 0 and any(other.rate > 0 for other in others.values())
        self._loop_port.part_set(queue, part.size, part.rate, anew)

    def _next(
        self,
        need: PartNeed,
        mine: Part,
        others: list[Part],
        concurrency: int | None,
        rate: float | None,
    ) -> Part:
        wants, size, share = need.wants, 0, 0.0
        if concurrency is not None:
            size = next_size(concurrency, mine.size, others, wants=wants, running=need.running)
        if rate is not None:
            share = next_rate(rate, mine.rate, others, wants=wants)
        # Shrink before grow: here and now, so that the commit may lend it to others.
        running = self._loop_port.part_shrink(
            need.queue, min(mine.size, size), min(mine.rate, share)
        )
        return Part(max(size, min(mine.size, running)), share, wants)
