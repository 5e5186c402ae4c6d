"""The port between the heart's thread and the event loop: what the heart asks and tells its worker.

Called from the heart's thread. A question is answered at once from what the loop shows; what changes
the loop's state is passed on to the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.db.database import Database
from mainspring.db.steps import Steps
from mainspring.db.until_reachable import until_reachable
from mainspring.errors import MixedPool
from mainspring.kernel import clock
from mainspring.kernel.layer import BlamedVisit, Layer
from mainspring.kernel.limits.bucket import Bucket
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.reader import Reader
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run, Visit

log = logging.getLogger("mainspring")
# A visit that has waited here so long for a slot may be another worker's (seconds): tasks that take no
# time would else go to and fro.
SHARE_AFTER = 0.2


@dataclass(frozen=True, slots=True)
class PartNeed:
    """A limited queue: whether this worker could use (more of) it, and what it runs."""

    queue: str
    wants: bool
    running: int


class LoopPort:
    """A worker's answers to its heart."""

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        database: Database,
        owned: Owned,
        buffer: Buffer,
        reader: Reader,
        runner: Runner,
        *,
        pool: str,
        watched: Mapping[str, QueueState],
        begin: Callable[[Coroutine[Any, Any, None]], None],
        leave: Callable[[], None],
        end: Callable[[], None],
        layers: Sequence[Layer],
    ) -> None:
        self._layers = layers
        self._database = database
        self.owned = owned
        self.buffer = buffer
        self.reader = reader
        self.runner = runner
        self._pool = pool
        self._watched = watched
        self._begin = begin  # a coroutine of the worker's life
        self._leave = leave  # the heart gives everything and takes nothing
        self._end = end  # the heart stops beating
        self._looked_at = 0  # the change of shards that the loop has last looked at
        # The change as of which every visit that a dead worker may have run was looked at.
        self._suspects_done_at = -1
        self.turned_away_by: MixedPool | None = None
        # While the pool's workers have different code: the turn classes of queues, by any of it.
        self.turns_of: Mapping[str, Collection[str]] = {}

    def open(self) -> None:
        """Called in the loop that the heart's thread is to reach."""
        self.loop = asyncio.get_running_loop()

    def tell(self, action: Callable[..., None], *values: Any) -> None:
        """Call something in the event loop. From any thread."""
        try:
            self.loop.call_soon_threadsafe(action, *values)
        except RuntimeError:
            self._end()  # the event loop was closed without a stop: nothing can run any more

    def settings_read(self, rows: Sequence[Any]) -> None:
        self.tell(self._apply_settings, rows)

    def _apply_settings(self, rows: Sequence[Any]) -> None:
        """Operators' settings as they stand now."""
        now = clock.local()
        for row in rows:
            (
                name,
                pool,
                _,
                hold_after,
                work_timeout,
                _,
                concurrency,
                rate,
                group_size,
                group_rate,
                paused,
                policy,
            ) = row
            if (watched := self._watched.get(name)) is not None:
                watched.set_policy(policy)
                continue
            queue = self.buffer.queues[name]
            queue.hold_after = hold_after
            queue.work_timeout = work_timeout
            queue.set_policy(policy)
            # A newer version has put it into another pool, whose workers run it from now on.
            elsewhere = pool != self._pool
            queue.limit(paused=paused or elsewhere, concurrency=concurrency, rate=rate)
            if queue.groups.limit(group_size, group_rate, now):
                self.buffer.release_groups()
        self.buffer.release_turns()
        done = (
            self.reader.complete
            and not (self.runner.suspects.waiting or self.runner.suspects.running)
            and not self.buffer.behind_groups()
            and not self.buffer.holds_any(self.owned.is_suspect)
        )
        self._suspects_done_at = self._looked_at if done else -1
        self.reader.wake()
        self.runner.fill()

    def held_read(self, rows: Sequence[Any]) -> None:
        self.tell(self._apply_held, rows)

    def _apply_held(self, rows: Sequence[Any]) -> None:
        """What runs of other workers hold in my shards counts for turns and groups."""
        groups: dict[str, dict[str, int]] = {name: {} for name in self.buffer.queues}
        turns: set[tuple[str, str]] = set()
        for _, key, queue_name, group, _, holder, _, _, _ in rows:
            if holder == self.owned.worker_id:
                continue
            turns.update((turn, key) for turn in self.turns_of.get(queue_name, ()))
            queue = self.buffer.queues.get(queue_name)
            if queue is None:
                continue
            if group is not None:
                groups[queue_name][group] = groups[queue_name].get(group, 0) + 1
            if queue.settings.turns is not None:
                turns.add((queue.settings.turns, key))
        changed = turns != self.buffer.turns.foreign
        self.buffer.turns.foreign = turns
        for name, held in groups.items():
            changed = changed or held != self.buffer.queues[name].groups.foreign
            self.buffer.queues[name].groups.foreign = held
        if changed:
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
        self.runner.suspects.drop(unwanted)
        self.owned.loop_looked(gone)
        self.reader.restart()

    def overdue(self, rows: Sequence[Any]) -> set[int]:
        """The runs that layers recover by rules of their own."""
        return {token for layer in self._layers for token in layer.take_overdue(rows)}

    def parked(self, visits: Sequence[BlamedVisit]) -> Steps[None]:
        """What layers do about visits that are being parked."""
        for layer in self._layers:
            yield from layer.parked(visits)

    def lost_hold(self, runs: Sequence[Run], *, void: bool) -> None:
        self.tell(self.overtaken, runs, void)

    def overtaken(self, runs: Sequence[Run], void: bool) -> None:
        """Their visits go on without them. What will come of them counts no more (`void`: deleted, or the
        newest run's alone counts), or if it is the first; either way their slots can be free."""
        for run in runs:
            if not void:
                self.runner.let_hang(run)
            elif run.stopped is None:
                log.info("run.called_off", extra={"queue": run.visit.queue, "key": run.visit.key})
                self.runner.call_off(run)

    def clock_jumped(self, seconds: float) -> None:
        log.warning("clock.jumped", extra={"seconds": round(seconds, 3)})
        self.tell(self._follow_clock, seconds)

    def _follow_clock(self, seconds: float) -> None:
        self.reader.restart()
        if seconds < 0:
            self._begin(until_reachable(lambda: self._step_back(-seconds)))

    async def _step_back(self, seconds: float) -> None:
        """What was due by the old clock is due by the new one."""
        connection = await self._database.connect("clock")
        try:
            values = {"queues": list(self.buffer.queues), "seconds": seconds}
            rows = await self._database.fetch(
                connection, SQL["step_back"], *SQL["step_back"].arguments(values)
            )
        finally:
            await connection.close(timeout=5)
        if rows:
            log.info("clock.followed", extra={"visits": len(rows)})
            self.reader.restart()

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
        return self.buffer.waited_by_shard(clock.local(), SHARE_AFTER, queues)

    def hanging_runs(self) -> list[Run]:
        """Those that may still have a result: until their visits are gone."""
        return self.runner.hanging.hopeful()

    def hanging(self) -> list[dict[str, Any]]:
        return self.runner.hanging.listed()

    def free_slots(self) -> int:
        if self.owned.closed:
            return 0
        return max(0, self.runner.free - self.buffer.startable(clock.local()))

    def hold_after(self, run: Run) -> tuple[float, float | None]:
        queue = self.buffer.queues[run.visit.queue]
        return queue.hold_after, queue.work_timeout_of(run.visit)

    def shortest_hold_after(self) -> float:
        return min(
            (q.hold_after for q in self.buffer.queues.values() if q.hold_after > 0), default=1.0
        )

    def part_needs(self) -> list[PartNeed]:
        needs = []
        for queue in self.buffer.queues.values():
            if queue.concurrency is None and queue.rate is None:
                continue
            wants = bool(queue.wants_part or queue.buffered) and not self.owned.closed
            queue.wants_part = False  # set again by the next start that it keeps back
            needs.append(PartNeed(queue.name, wants, queue.running))
        return needs

    def part_shrink(self, queue: str, size: int, rate: float) -> int:
        """At once, so that the heart may lend to others what this worker no longer uses."""
        state = self.buffer.queues[queue]
        with self.owned.gate:
            state.part = size
            if state.bucket is not None:
                state.bucket.change(rate, clock.local())
            return state.running

    def part_set(self, queue: str, size: int, rate: float, anew: bool = False) -> None:
        """Under the gate and at once, so that no later shrink is undone by an earlier word.
        `anew`: begin without a token."""
        state, now = self.buffer.queues[queue], clock.local()
        with self.owned.gate:
            state.part = size
            if state.bucket is None or anew:
                state.bucket = Bucket(rate, now)
            else:
                state.bucket.change(rate, now)
        self.tell(self.runner.fill)

    def suspects_done(self) -> bool:
        # What the heart has just taken over the loop may not have looked at yet.
        return self._suspects_done_at == self.owned.changes
