"""The port between the heart's thread and the event loop: what the heart asks and tells its worker.

Called from the heart's thread. It returns at once what the loop shows, and passes on to the loop what
changes the loop's state.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from mainspring import clock
from mainspring.db.sql import Steps
from mainspring.errors import MixedPool
from mainspring.kernel.layer import HeldVisit, Judge, Layer, NewlyParked
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.reader import Reader
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import Run, Visit
from mainspring.limits import Turn

log = logging.getLogger("mainspring")


class QueueRow(NamedTuple):
    """A queue's settings, as operators have them."""

    name: str
    pool: str
    hold_after: float
    work_timeout: float | None
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None
    group_burst: int | None
    paused: bool
    resumes_in: float | None  # seconds, as of the read; less than none: it has gone on
    policy: str
    breaker_failures: int | None
    breakers: str | None


class LoopPort:
    """What a worker shows its heart, and what it does when told."""

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        owned: Owned,
        buffer: Buffer,
        reader: Reader,
        runner: Runner,
        *,
        pool: str,
        watched: Mapping[str, QueueState],
        leave: Callable[[], None],
        end: Callable[[], None],
        look_again: Callable[[], None],
        layers: Sequence[Layer],
        judge: Judge | None,
    ) -> None:
        self._layers = layers
        self._judge = judge
        self.owned = owned
        self.buffer = buffer
        self.reader = reader
        self.runner = runner
        self._pool = pool
        self._watched = watched
        self._leave = leave  # the heart gives everything and takes nothing
        self._end = end  # the heart stops beating
        self._look_again = look_again  # the heart reads the settings anew
        self._next_look: asyncio.TimerHandle | None = None
        self._looked_at = 0  # the change of shards that the loop has last looked at
        # The change as of which every visit that a dead worker may have run was looked at.
        self._suspects_done_at = -1
        self.turned_away_by: MixedPool | None = None
        # While the pool's workers have different code: the turn classes of queues, by any of it.
        self._turns_of: Mapping[str, Collection[str]] = {}

    def open(self) -> None:
        """Called in the loop that the heart's thread is to reach."""
        self.loop = asyncio.get_running_loop()

    def tell(self, action: Callable[..., None], *values: object) -> None:
        """Call something in the event loop. From any thread."""
        try:
            self.loop.call_soon_threadsafe(action, *values)
        except RuntimeError:
            self._end()  # the event loop was closed without a stop: nothing can run any more

    def settings_read(self, rows: Sequence[QueueRow]) -> None:
        self.tell(self._apply_settings, rows)

    def _apply_settings(self, rows: Sequence[QueueRow]) -> None:
        """Operators' settings as they stand now."""
        now = clock.local()
        self._look_when([row.resumes_in for row in rows if row.paused])
        for row in rows:
            if (watched := self._watched.get(row.name)) is not None:
                watched.set_policy(row.policy)
                continue
            queue = self.buffer.queues[row.name]
            queue.hold_after = row.hold_after
            queue.work_timeout = row.work_timeout
            queue.set_policy(row.policy)
            # A newer version has put it into another pool, whose workers run it from now on.
            paused = row.paused or row.pool != self._pool
            judge, judged = self._judge, row.breaker_failures is not None
            freed = judge is not None and judge.read(queue, row.breaker_failures, row.breakers)
            queue.limit(paused=paused, concurrency=row.concurrency, rate=row.rate, judged=judged)
            if (
                queue.groups.limit(
                    row.group_concurrency, row.group_rate, now, burst=row.group_burst
                )
                or freed
            ):
                self.buffer.release_groups()
        self.buffer.release_turns()
        done = (
            self.reader.intake.complete
            and not (self.runner.suspects.waiting or self.runner.suspects.running)
            and not self.buffer.behind_groups()
            and not self.buffer.holds_any(self.owned.is_suspect)
        )
        self._suspects_done_at = self._looked_at if done else -1
        self.reader.wake()
        self.runner.fill()

    def _look_when(self, times: Sequence[float | None]) -> None:
        """Read the settings again when the first of the pauses ends, so many seconds from now."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        ends = [seconds for seconds in times if seconds is not None]
        if ends:
            rest = max(LEASE.least_sleep, min(ends))
            self._next_look = self.loop.call_later(rest, self._look_again)

    def turns_known(self, turns_of: Mapping[str, Collection[str]]) -> None:
        self._turns_of = turns_of

    def held_read(self, held: Sequence[HeldVisit]) -> None:
        self.tell(self._apply_held, held)

    def _apply_held(self, held: Sequence[HeldVisit]) -> None:
        """What runs of other workers hold in my shards counts for turns and groups."""
        groups: dict[str, Counter[str]] = {name: Counter() for name in self.buffer.queues}
        turns: set[Turn] = set()
        for visit in held:
            if visit.holder == self.owned.worker_id:
                continue
            turns.update((turn, visit.key) for turn in self._turns_of.get(visit.queue, ()))
            if (queue := self.buffer.queues.get(visit.queue)) is None:
                continue
            if visit.grp is not None:
                groups[visit.queue][visit.grp] += 1
            if queue.settings.turns is not None:
                turns.add((queue.settings.turns, visit.key))
        changed = [self.buffer.queues[name].groups.set_foreign(of) for name, of in groups.items()]
        if self.buffer.turns.set_foreign(turns) or any(changed):
            self.buffer.release_groups()
            self.reader.sweep_soon()
            self.runner.fill()

    def shards_changed(self) -> None:
        self.tell(self._apply_shards)

    def _apply_shards(self) -> None:
        self._looked_at, self._suspects_done_at = self.owned.changes, -1
        with self.owned.gate:
            shards, by_queue = self.owned.shards, self.owned.by_queue
            gone = frozenset(self.owned.let_go_of)

        def unwanted(visit: Visit) -> bool:
            mine = by_queue[visit.queue] if by_queue else shards
            return visit.shard not in mine or visit.shard in gone

        self.buffer.drop(unwanted, shards, by_queue)
        now = clock.local()
        for queue in self.buffer.queues.values():
            queue.groups.own(by_queue[queue.name] if by_queue else shards, now)
        self.runner.suspects.drop(unwanted)
        self.owned.loop_looked(gone)
        self.reader.restart()

    def overdue(self, held: Sequence[HeldVisit]) -> set[int]:
        """The runs that layers recover by rules of their own."""
        return {token for layer in self._layers for token in layer.take_overdue(held)}

    def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
        """What layers do about visits that are being parked."""
        for layer in self._layers:
            yield from layer.parked(visits)

    def lost_hold(self, runs: Sequence[Run], *, void: bool) -> None:
        if runs:
            self.tell(self.overtaken, runs, void)

    def called_off(self, tokens: Collection[int]) -> None:
        """Somebody wants these runs ended."""
        if tokens:
            self.tell(self.stop_called_off, [r for r in self.owned.active() if r.token in tokens])

    def stop_called_off(self, runs: Sequence[Run]) -> None:
        """In the loop: they are told to end, and whatever ends them ends their visits."""
        for run in runs:
            if run.stopped is None and run.outcome is None:
                log.info("run.cancelled", extra={"queue": run.visit.queue, "key": run.visit.key})
                self.runner.hanging.stop(run, "cancelled")

    def overtaken(self, runs: Sequence[Run], void: bool) -> None:
        """Their visits go on without them, so their slots can be free.

        Their results count if they are the first. `void`: they count no more, for the visit is deleted or
        only the newest run's counts.
        """
        for run in runs:
            if not void:
                self.runner.hanging.let_hang(run)
            elif run.stopped is None:
                log.info("run.called_off", extra={"queue": run.visit.queue, "key": run.visit.key})
                self.runner.hanging.call_off(run)

    def clock_jumped(self, seconds: float) -> None:
        log.warning("clock.jumped", extra={"seconds": round(seconds, 3)})
        self.tell(self.reader.clock_jumped, seconds)

    def fenced(self) -> None:
        # Told first: a thread that is interrupted ends at once, and its run must be known as stopped.
        self.tell(self.stop_fenced)
        self._break_off(threads_only=True)

    def stop_fenced(self) -> None:
        """In the loop: the lease has ended, and so must every run, whatever it waits for."""
        self.runner.stop_all("fenced")
        self._break_off(threads_only=False)

    def _break_off(self, *, threads_only: bool) -> None:
        self.interrupt(self.owned.active())
        for layer in self._layers:
            layer.cut(threads_only=threads_only)

    def interrupt(self, runs: Sequence[Run]) -> None:
        """End runs that cannot be cancelled: they are in threads."""
        for layer in self._layers:
            layer.interrupt(runs)

    def turned_away(self, error: MixedPool) -> None:
        """Take no part any more: nobody should count on this worker for shards."""
        if self.turned_away_by is None:
            log.error("worker.turned_away", extra={"error": str(error)})
            self.turned_away_by = error
            self._leave()

    def waiting_by_shard(self, queues: Collection[str]) -> dict[int, int]:
        """Visits that have waited here for a while; what a slot will take at once is not given away."""
        return self.buffer.choice.waited_by_shard(clock.local(), LEASE.share_after, queues)

    def free_slots(self) -> int:
        if self.owned.closed:
            return 0
        return max(0, self.runner.free - self.buffer.choice.startable(clock.local()))

    def hold_after(self, run: Run) -> tuple[float, float | None]:
        queue = self.buffer.queues[run.visit.queue]
        return queue.hold_after, queue.work_timeout_of(run.visit)

    def shortest_hold_after(self) -> float:
        return min(
            (q.hold_after for q in self.buffer.queues.values() if q.hold_after > 0), default=1.0
        )

    def limited_queues(self) -> list[QueueState]:
        """Queues of which this worker may start no more than its part of their limits."""
        queues = self.buffer.queues.values()
        return [q for q in queues if q.concurrency is not None or q.rate is not None]

    def suspects_done(self) -> bool:
        # What the heart has just taken over the loop may not have looked at yet.
        return self._suspects_done_at == self.owned.changes
