"""Parts: this worker's part of the limits of queues.

Asked for on demand, given back when not used, changed only under the lock of the queue's row. What the
table lends to others this worker has stopped using before it commits.
"""

from __future__ import annotations

import psycopg

from mainspring import clock
from mainspring.db.session import Session
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.owned import Owned
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.limits import Part, QueueLimits, fair_size, next_part


class Parts:
    """The heart's work on limits."""

    def __init__(self, session: Session, owned: Owned, loop_port: LoopPort) -> None:
        self._session = session
        self._owned = owned
        self._loop_port = loop_port
        self._kept_at = 0.0
        self._began_at: dict[str, float] = {}  # since when I have a part of a queue's concurrency
        self._locked_at: dict[str, float] = {}  # queues whose row somebody had, and when
        self.unmet = False  # a limited queue could use more than it has

    def is_stale(self) -> bool:
        """Whether it is time to look again."""
        return clock.local() - self._kept_at > LEASE.parts_every

    def keep(self) -> None:
        """Bring every part in line with what is needed and what the others have."""
        self._kept_at = clock.local()
        queues = self._loop_port.limited_queues()
        wants = {queue.name: queue.ask_part() and not self._owned.closed for queue in queues}
        self.unmet = any(wants.values())
        # At most one row that somebody has is waited for, lest there be no time to beat; in turn.
        for queue in sorted(queues, key=lambda queue: self._locked_at.get(queue.name, 0.0)):
            try:
                self._keep(queue, wants[queue.name])
            except psycopg.errors.LockNotAvailable:
                self._locked_at[queue.name] = clock.local()
                break
            self._locked_at.pop(queue.name, None)

    def lose(self) -> None:
        """The worker's row is gone, and its parts with it."""
        for queue in self._loop_port.limited_queues():
            self._give(queue, 0, 0.0)

    def _keep(self, queue: QueueState, wants: bool) -> None:
        session, me = self._session, self._owned.worker_id
        with session.transaction():
            # The row's lock also waits for a commit of my own whose answer was lost.
            limits = session.first(SQL["lock_queue"], QueueLimits, queue=queue.name)
            if limits is None:
                return
            parts = session.rows(SQL["read_parts"], Part, queue=queue.name)
            mine = next((p for p in parts if p.worker_id == me), Part(0, 0.0, False, me))
            others = [part for part in parts if part.worker_id != me]
            had_turn = self._had_turn(queue.name, mine.size)
            part = next_part(
                limits, mine, others, wants=wants, running=queue.running, had_turn=had_turn
            )
            # What runs above my share is mine until it ends, but nothing is started in its place.
            most = part.size
            if wants and limits.concurrency is not None:
                most = fair_size(limits.concurrency, mine.size, others, had_turn=had_turn)
            # Shrink before grow: here and now, so that the commit may lend it to others.
            least = min(mine.rate, part.rate)
            running = self._give(queue, min(mine.size, most), least, burst=limits.burst_of(least))
            part = part._replace(size=max(part.size, min(mine.size, running)))
            if part != mine:
                session.run(SQL["keep_part"], queue=queue.name, **part._asdict())
            alone = not any(other.rate > 0 for other in others)
            if alone and (part.rate > 0) != (mine.rate > 0):
                rests = part.rate == 0
                spared = self._spared(queue, limits.rate) if rests else 0.0
                session.run(SQL["rest_rate"], queue=queue.name, rests=rests, spared=spared)
        # A token that was left over from an earlier part is the others' by now. Where nobody had any,
        # it is known since when; but not if the last who had one died with it.
        rested = None
        if mine.rate == 0 and part.rate > 0:
            rested = (limits.rested or 0.0) if alone else 0.0
        burst = limits.burst_of(part.rate)
        self._give(queue, min(part.size, most), part.rate, burst=burst, rested=rested)
        self._loop_port.tell(self._loop_port.runner.fill)

    def _spared(self, queue: QueueState, rate: float | None) -> float:
        """For how long nothing was taken already, by the tokens that are given back."""
        with self._owned.gate:
            if queue.bucket is None or not rate:
                return 0.0
            return max(0.0, queue.bucket.tokens(clock.local())) / rate

    def _had_turn(self, queue: str, size: int) -> bool:
        """Whether I have had permits for so long that it is others' turn, where there are too few."""
        if not size:
            self._began_at.pop(queue, None)
            return False
        now = clock.local()
        return now - self._began_at.setdefault(queue, now) >= LEASE.parts_turn

    def _give(
        self,
        queue: QueueState,
        size: int,
        rate: float,
        *,
        burst: float | None = None,
        rested: float | None = None,
    ) -> int:
        """Under the gate, so that no start goes by an older part; returns how many run."""
        with self._owned.gate:
            queue.give_part(size, rate, clock.local(), burst=burst, rested=rested)
            return queue.running
