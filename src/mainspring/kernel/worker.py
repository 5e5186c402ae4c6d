"""A worker: reads, runs and settles the visits of its pool's queues.

Puts the parts together: the heart (leases), the reader, the runner's slots, the settler, the
listener. Each part is a file of its own; here is only who tells whom.
It is past 400 lines because it implements every question and answer between the loop and the heart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from mainspring.db.connect import Database
from mainspring.errors import MixedPool
from mainspring.kernel import moment, upkeep
from mainspring.kernel.buffer import Buffer
from mainspring.kernel.config import REMOTE, QueueSettings, WorkerSettings
from mainspring.kernel.hand import Hand
from mainspring.kernel.heart import Heart
from mainspring.kernel.holds import hold_arguments
from mainspring.kernel.insist import insist
from mainspring.kernel.limits import Bucket
from mainspring.kernel.line import Line
from mainspring.kernel.mind import PartNeed
from mainspring.kernel.outcome import Again, Done, Outcome, Retry
from mainspring.kernel.queue_state import QueueState
from mainspring.kernel.reader import Reader
from mainspring.kernel.register import register
from mainspring.kernel.retry import decide
from mainspring.kernel.runner import Runner
from mainspring.kernel.settler import Settler
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run, Visit
from mainspring.kernel.wake import Listener

log = logging.getLogger("mainspring")
# Visits in memory from which on those that a commit of ours adds are left to the reader.
TAKEN_IN = 4000
# A visit that has waited here so long for a slot may be another worker's (seconds): tasks that take no
# time would else go to and fro.
SHARE_AFTER = 0.2


class Worker:
    """One worker of a pool, inside the running event loop."""

    def __init__(
        self, database: Database, queues: Iterable[QueueSettings], settings: WorkerSettings
    ) -> None:
        self.settings = settings
        self._database = database
        listed = list(queues)
        self._declared = [q for q in listed if q.pool == settings.pool and q.kind != REMOTE]
        served = {q.name for q in self._declared}
        # Served by others, whose policies a layer wants to know all the same.
        self._watched = {
            q.name: QueueState(q) for q in listed if q.name not in served and q.terms is not None
        }
        self.hand = Hand()
        self.buffer = Buffer(self._declared, self.hand.gate, slots=settings.concurrency)
        # The reader writes only notes (reach, sleep): they need not survive a crash of the server.
        self._reading = Line(database, "reader", synchronous_commit="off")
        # One locked visit must not hold up a batch for long.
        self._settling = Line(database, "settler", lock_timeout="50ms")
        self._settling_too = Line(database, "settler", lock_timeout="50ms")
        self._listening = Line(database, "listener")
        self._side = Line(database, "side")
        self.reader = Reader(database, self._reading, self.hand, self.buffer, settings)
        self.runner = Runner(
            self.hand,
            self.buffer,
            concurrency=settings.concurrency,
            hold=self._hold_now,
            finished=lambda run: self.settler.add(run),
            wants_more=self._slot_idle,
            left=lambda visit: self.reader.settled(visit, 0),
        )
        self.reader.unsettled = lambda: self.settler.unsettled
        self.reader.filled = self._filled
        self.settler = Settler(
            database,
            self._settling,
            self._settling_too,
            self.hand,
            page=settings.page,
            settled=self._settled,
            failed=self._refused,
        )
        self.settler.wrote = self.reader.wake
        self.heart = Heart(database, self.hand, self, settings, self.buffer.queues, self._watched)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sharing = False  # a look whether another worker is idle is on its way
        self._filling = False  # a look for what can be started is on its way
        self._looked_at = 0  # the change of shards that the loop has last looked at
        # The change as of which every visit that a dead worker may have run was looked at.
        self._suspects_done_at = -1
        self._turned_away: MixedPool | None = None
        # Told when runs must end and cannot be cancelled (threads); set by the executors.
        self.interrupt: Callable[[Sequence[Run]], None] = lambda runs: None
        # Asked, from the heart's thread, for the passes of overdue visits (rows of read_held.sql)
        # that a layer recovers by its own rules.
        self.take_overdue: Callable[[Sequence[Any]], set[int]] = lambda rows: set()
        self.chores: list[upkeep.Chore] = []  # what layers drop by age

    # -- life

    async def start(self) -> None:
        """Register the queues, join the pool, begin to read."""
        self._loop = asyncio.get_running_loop()
        await insist(self._prepare)
        self.heart.start()
        for part in self._loops():
            self._tasks.append(self._loop.create_task(part))
        log.info(
            "worker.started",
            extra={
                "pool": self.settings.pool,
                "database": self._database.shown,
                "queues": sorted(self.buffer.queues),
            },
        )

    async def _prepare(self) -> None:
        try:
            connection = await self._side.get()
            await upkeep.turn(self._database, connection, history_days=self.settings.history_days)
            await register(self._database, connection, self._declared, update=True)
        except BaseException:
            await self._side.lost()
            raise

    def _loops(self) -> list[Any]:
        loops: list[Awaitable[None]] = [
            self.reader.run(),
            self.settler.run(),
            self.settler.run_second(),
            upkeep.run(
                self._database,
                self._side,
                history_days=self.settings.history_days,
                chores=self.chores,
            ),
            self._watch_lease(),
        ]
        if not self._database.pooled:
            listener = Listener(
                self._listening,
                offered=self.reader.hint,
                shards_freed=self._shards_freed,
                settings_changed=self.heart.poke_beat,
                called_off=self._called_off,
                connected=self._catch_up,
            )
            loops.append(listener.run())
        return loops

    async def ready(self) -> None:
        """Wait until the worker has its shards and has read once."""
        while not (self.heart.joined.is_set() and self.hand.shards and self.reader.passes):
            self._check_welcome()
            await asyncio.sleep(0.01)

    async def rejected(self) -> None:
        """Wait for ever; raises when the pool turns out to be another application's."""
        while True:
            self._check_welcome()
            await asyncio.sleep(0.1)

    def _check_welcome(self) -> None:
        if self._turned_away is not None:
            raise self._turned_away

    async def drained(self) -> None:
        """Wait until nothing is due in these queues and nothing is under way here."""
        while True:
            self._check_welcome()
            if self._at_rest() and not await self._anything_due() and self._at_rest():
                return
            await asyncio.sleep(0.05)

    def _at_rest(self) -> bool:
        return not (self.hand.runs or self.settler.unsettled)

    async def _anything_due(self) -> bool:
        try:
            async with self._side.lock:
                connection = await self._side.get()
                rows = await self._database.fetch(
                    connection, SQL["any_due"], list(self.buffer.queues)
                )
            return bool(rows[0]["due"])
        except Exception as error:
            log.warning("drain.waiting", extra={"error": str(error)})
            await self._side.lost()
            return True

    async def _watch_lease(self) -> None:
        """The heart fences the worker when it cannot beat; this does when the heart itself hangs."""
        while True:
            await asyncio.sleep(self.settings.lease / 20)
            now = moment.local()
            if now > self.hand.good_until and self.hand.active():
                self.interrupt(self.hand.active())
                self.runner.stop_all("fenced")
            if now > self.hand.good_until:
                self.heart.cut()

    async def stop(self, *, grace: float | None = None) -> None:
        """Stop in order (T10): take nothing new, let runs end, give back what is left at once."""
        grace = self.settings.grace if grace is None else grace
        began = moment.local()
        log.info("worker.stopping", extra={"worker": str(self.hand.worker_id), "grace": grace})
        self.hand.closed = True
        self.runner.close()
        self.heart.leaving.set()
        self.heart.poke_beat()
        await self.runner.ended(grace)
        self.runner.stop_all("stopping")
        self.interrupt(self.hand.snapshot())
        await self.runner.ended(min(2.0, 1.0 + grace))
        await self._settle_rest(max(1.0, grace - (moment.local() - began)))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.heart.end()
        await asyncio.to_thread(self.heart.join, 10)
        try:
            if self.hand.worker_id is not None:
                await asyncio.to_thread(self.heart.leave)
        except Exception as error:
            log.warning("worker.left_in_haste", extra={"error": str(error)})
        for line in (
            self._reading,
            self._settling,
            self._settling_too,
            self._listening,
            self._side,
        ):
            await line.close()
        log.info(
            "worker.stopped",
            extra={"worker": str(self.hand.worker_id), "seconds": round(moment.local() - began, 3)},
        )

    async def _settle_rest(self, timeout: float) -> None:
        """Results that are in must get out, if the database is there to take them."""
        deadline = moment.local() + timeout
        while self.settler.unsettled and moment.local() < deadline:
            await asyncio.sleep(0.01)

    # -- the life of a run

    async def _hold_now(self, run: Run, work_timeout: float | None) -> bool:
        values = hold_arguments([(run, work_timeout)], self.hand.worker_id)
        async with self._side.lock:
            try:
                connection = await self._side.get()
                rows = await self._database.fetch(
                    connection, SQL["hold"], *SQL["hold"].arguments(values)
                )
            except Exception:
                await self._side.lost()
                raise
        run.held = bool(rows)
        return run.held

    def _filled(self) -> None:
        """Visits were read: start what can be; what must wait may be for another worker."""
        self.runner.fill()
        if self.buffer.wants_part():
            self.heart.poke_parts()
        if not self._sharing and self._is_overfull():
            self._sharing = True
            asyncio.get_running_loop().call_later(SHARE_AFTER, self._share)

    def _is_overfull(self) -> bool:
        return self.runner.free < self.buffer.startable(moment.local())

    def _share(self) -> None:
        self._sharing = False
        if self._is_overfull():
            self.heart.poke_share()

    def take_in(self, visits: Sequence[Visit]) -> None:
        """Visits that this worker has just committed: those of its shards start without a read."""
        room = TAKEN_IN - self.buffer.size
        known = [v for v in visits[: max(0, room)] if v.queue in self.buffer.queues]
        fresh = self.buffer.new_of(known, self.hand.shards)
        if fresh:
            self.buffer.add(fresh)
            self._filled()

    def serves(self, queue: str, shard: int) -> bool:
        """Whether a visit of this queue and shard is this worker's to start."""
        return queue in self.buffer.queues and shard in self.hand.shards

    def overtaken(self, visits: Sequence[Visit]) -> None:
        """A layer has freed visits whose runs lasted too long. If one of them is mine, it goes on; the
        visit may be run again all the same, here too."""
        for visit in visits:
            if visit.queue in self.buffer.queues:
                self.buffer.forget(visit)
                self.reader.settled(visit, 0)

    def _slot_idle(self) -> None:
        """A slot found nothing to start: read more, or ask for a part of a limit."""
        self.reader.wake()
        if self.buffer.wants_part():
            self.heart.poke_parts()

    def _refused(self, run: Run, error: Exception) -> Outcome:
        """The server would not store the outcome: that is a failure of the run."""
        policy = self.buffer.queues[run.visit.queue].settings.retry
        return decide(policy, failures=run.visit.attempt + 1, error=error)

    def _settled(self, run: Run, answer: str) -> None:
        self.hand.end(run)
        freed = self.buffer.settled(run.visit)
        if freed:
            self._fill_soon()
        if answer == "settled" and type(run.outcome) is Done and not run.visit.group:
            return
        match run.outcome, answer:
            case (_, "superseded" | "rerun"):
                self.reader.settled(run.visit, 0)
            case (Retry(after=after) | Again(after=after, at=None), _):
                self.reader.settled(run.visit, after)
            case (Again(at=at), _) if at is not None:
                self.reader.settled(run.visit, at.timestamp() - self.hand.time.at(moment.local()))
            case _:
                pass
        if self._waiting_for_group(run):
            self.reader.wake()
        self._fill_soon()

    def _fill_soon(self) -> None:
        """Start what waited for a turn or a group: once for all runs of a settle."""
        if not self._filling:
            self._filling = True
            asyncio.get_running_loop().call_soon(self._fill_now)

    def _fill_now(self) -> None:
        self._filling = False
        self.runner.fill()

    def _waiting_for_group(self, run: Run) -> bool:
        group = run.visit.group
        return group is not None and self.buffer.queues[run.visit.queue].groups.is_behind(group)

    # -- what the heart asks and tells, from its thread

    def _tell(self, action: Callable[..., None], *values: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(action, *values)
        except RuntimeError:
            self.heart.end()  # the event loop was closed without a stop: nothing can run any more

    def _catch_up(self) -> None:
        """Listening from now on: what was said before is found by looking."""
        self.reader.restart()
        self.heart.poke_beat()

    def _shards_freed(self, pool: str) -> None:
        if pool == self.settings.pool:
            self.heart.poke_beat()

    def settings_read(self, rows: Sequence[Any]) -> None:
        self._tell(self._apply_settings, rows)

    def _apply_settings(self, rows: Sequence[Any]) -> None:
        """Operators' settings as they stand now."""
        now = moment.local()
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
            elsewhere = pool != self.settings.pool
            queue.limit(paused=paused or elsewhere, concurrency=concurrency, rate=rate)
            if queue.groups.limit(group_size, group_rate, now):
                self.buffer.release_groups()
        self.buffer.release_turns()
        done = (
            self.reader.complete
            and not (self.runner.suspects_waiting or self.runner.suspects_running)
            and not self.buffer.behind_groups()
            and not self.buffer.holds_any(self.hand.is_suspect)
        )
        self._suspects_done_at = self._looked_at if done else -1
        self.reader.wake()
        self.runner.fill()

    def held_read(self, rows: Sequence[Any]) -> None:
        self._tell(self._apply_held, rows)

    def _apply_held(self, rows: Sequence[Any]) -> None:
        """What runs of other workers hold in my shards counts for turns and groups."""
        groups: dict[str, dict[str, int]] = {name: {} for name in self.buffer.queues}
        turns: set[tuple[str, str]] = set()
        for _, key, queue_name, group, _, holder, _, _, _ in rows:
            queue = self.buffer.queues.get(queue_name)
            if queue is None or holder == self.hand.worker_id:
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
        self._tell(self._apply_shards)

    def _apply_shards(self) -> None:
        self._looked_at, self._suspects_done_at = self.hand.changes, -1
        shards, gone = self.hand.shards, frozenset(self.hand.let_go_of)

        def unwanted(visit: Visit) -> bool:
            return visit.shard not in shards or visit.shard in gone

        self.buffer.drop(unwanted, shards)
        self.runner.drop_suspects(unwanted)
        self.hand.loop_looked(gone)
        self.reader.restart()

    def overdue(self, rows: Sequence[Any]) -> set[int]:
        return self.take_overdue(rows)

    def gone(self, runs: Sequence[Run]) -> None:
        self._tell(self._stop_gone, runs)

    def _stop_gone(self, runs: Sequence[Run]) -> None:
        """Their visits were deleted: nothing will come of them, so their slots can be free."""
        for run in runs:
            log.info("run.called_off", extra={"queue": run.visit.queue, "key": run.visit.key})
            self.runner.stop_run(run, "fenced")

    def _called_off(self, versions: frozenset[int]) -> None:
        """A layer has deleted the visits of these versions."""
        self._stop_gone([run for run in self.hand.active() if run.visit.version in versions])

    def clock_jumped(self, seconds: float) -> None:
        log.warning("clock.jumped", extra={"seconds": round(seconds, 3)})
        self._tell(self._follow_clock, seconds)

    def _follow_clock(self, seconds: float) -> None:
        self.reader.restart()
        if seconds < 0:
            step_back = insist(lambda: self._step_back(-seconds))
            self._tasks.append(asyncio.get_running_loop().create_task(step_back))

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
        self._tell(self.runner.stop_all, "fenced")
        self.interrupt(self.hand.active())

    def turned_away(self, error: MixedPool) -> None:
        """Take no part any more: nobody should count on this worker for shards."""
        if self._turned_away is None:
            log.error("worker.turned_away", extra={"error": str(error)})
            self._turned_away = error
            self.heart.leaving.set()
            self.heart.poke_beat()

    def waiting_by_shard(self) -> dict[int, int]:
        """Visits that have waited here for a while; what a slot will take at once is not given away."""
        return self.buffer.waited_by_shard(moment.local(), SHARE_AFTER)

    def free_slots(self) -> int:
        if self.hand.closed:
            return 0
        return max(0, self.runner.free - self.buffer.startable(moment.local()))

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
            wants = bool(queue.wants_part or queue.buffered) and not self.hand.closed
            queue.wants_part = False  # set again by the next start that it keeps back
            needs.append(PartNeed(queue.name, wants, queue.running))
        return needs

    def part_shrink(self, queue: str, size: int, rate: float) -> int:
        """At once, so that the heart may lend to others what this worker no longer uses."""
        state = self.buffer.queues[queue]
        with self.hand.gate:
            state.part = size
            if state.bucket is not None:
                state.bucket.change(rate, moment.local())
            return state.running

    def part_set(self, queue: str, size: int, rate: float, anew: bool = False) -> None:
        """Under the gate and at once, so that no later shrink is undone by an earlier word.
        `anew`: begin without a token."""
        state, now = self.buffer.queues[queue], moment.local()
        with self.hand.gate:
            state.part = size
            if state.bucket is None or anew:
                state.bucket = Bucket(rate, now)
            else:
                state.bucket.change(rate, now)
        self._tell(self.runner.fill)

    def suspects_done(self) -> bool:
        # What the heart has just taken over the loop may not have looked at yet.
        return self._suspects_done_at == self.hand.changes
