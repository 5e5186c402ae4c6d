"""A worker: reads, runs and settles the visits of its pool's queues.

Puts the parts together: the heart (leases), the reader, the runner's slots, the settler, the
listener. Each part is a file of its own; here is only who tells whom.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.db.until_reachable import until_reachable
from mainspring.kernel import clock
from mainspring.kernel.jobs import flood, upkeep
from mainspring.kernel.layer import Layer
from mainspring.kernel.lease.heart import Heart
from mainspring.kernel.lease.holds import gone_arguments, hold_arguments, lost_of
from mainspring.kernel.lease.loop_port import SHARE_AFTER, LoopPort
from mainspring.kernel.operate.register import register_queues
from mainspring.kernel.outcome import Again, Done, Outcome, Retry
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.listener import Listener
from mainspring.kernel.read.reader import READS_IN_ORDER, Reader
from mainspring.kernel.retry import judge
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.settings import REMOTE, QueueSettings, WorkerSettings
from mainspring.kernel.settle.settler import Settler
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run, Visit

log = logging.getLogger("mainspring")
# Visits and results in memory from which on what a commit of ours adds is left to the reader: a fan-out
# would else wait here as a whole, run and not yet written.
TAKEN_IN = 4000
# A server that does not answer is not waited for longer at the end (seconds).
END_SECONDS = 10.0
# Visits that are said to be gone are looked up at most so often (seconds).
LOOK_UP_EVERY = 0.1


class Worker:
    """One worker of a pool, inside the running event loop."""

    def __init__(
        self,
        database: Database,
        queues: Iterable[QueueSettings],
        settings: WorkerSettings,
        layers: Sequence[Layer] = (),
    ) -> None:
        self.settings = settings
        self._layers = layers
        self._database = database
        listed = list(queues)
        self._declared = [q for q in listed if q.pool == settings.pool and q.kind != REMOTE]
        served = {q.name for q in self._declared}
        # Served by others, whose policies a layer wants to know all the same.
        watched = {
            q.name: QueueState(q) for q in listed if q.name not in served and q.terms is not None
        }
        self.owned = Owned()
        self.buffer = Buffer(self._declared, self.owned.gate, slots=settings.concurrency)
        # The reader writes only notes (reach, sleep): they need not survive a crash of the server.
        self._reading = Line(database, "reader", synchronous_commit="off", **READS_IN_ORDER)
        # One locked visit must not hold up a batch for long.
        self._settling = Line(database, "settler", lock_timeout="50ms")
        self._settling_too = Line(database, "settler", lock_timeout="50ms")
        self._listening = Line(database, "listener")
        self._side = Line(database, "side")
        self.reader = Reader(
            database,
            self._reading,
            self.owned,
            self.buffer,
            settings,
            unsettled=lambda: self.settler.unsettled,
            filled=self._filled,
        )
        self.settler = Settler(
            database,
            self._settling,
            self._settling_too,
            self.owned,
            page=settings.page,
            settled=self._settled,
            failed=self._refused,
            # Behind a pooler nobody is told of what was offered in a settle: the reader looks for it.
            wrote=self.reader.wake if database.pooled else self.reader.has_room,
        )
        self.runner = Runner(
            self.owned,
            self.buffer,
            concurrency=settings.concurrency,
            hold=self._hold_now,
            finished=self.settler.add,
            wants_more=self._slot_idle,
            left=self.reader.left,
        )
        self.loop_port = LoopPort(
            database,
            self.owned,
            self.buffer,
            self.reader,
            self.runner,
            pool=settings.pool,
            watched=watched,
            begin=self._begin,
            leave=self._leave_pool,
            end=lambda: self.heart.end(),
            layers=layers,
        )
        self.heart = Heart(database, self.owned, self.loop_port, settings, self._declared, watched)
        self._tasks: list[asyncio.Task[None]] = []
        self._sharing = False  # a look whether another worker is idle is on its way
        self._filling = False  # a look for what can be started is on its way
        self._doubted: set[int] = set()  # versions that are said to be gone
        self._doubting = False  # a look for them is on its way

    # -- life

    async def start(self) -> None:
        """Register the queues, join the pool, begin to read."""
        self.loop_port.open()
        await until_reachable(self._prepare)
        self.heart.start()
        for part in self._loops():
            self._begin(part)
        log.info(
            "worker.started",
            extra={
                "pool": self.settings.pool,
                "database": self._database.shown,
                "queues": sorted(self.buffer.queues),
            },
        )

    def _begin(self, part: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(part))

    async def _prepare(self) -> None:
        try:
            connection = await self._side.get()
            await upkeep.turn(self._database, connection, history_days=self.settings.history_days)
            await register_queues(self._database, connection, self._declared, update=True)
        except BaseException:
            await self._side.lost()
            raise

    def _loops(self) -> list[Any]:
        loops: list[Coroutine[Any, Any, None]] = [
            self.reader.run(),
            self.settler.run(),
            self.settler.run_second(),
            upkeep.run(
                self._database,
                history_days=self.settings.history_days,
                chores=[chore for layer in self._layers for chore in layer.chores],
            ),
            flood.run(self._database, self._side),
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
        while not (self.heart.joined.is_set() and self.owned.shards and self.reader.passes):
            self._check_welcome()
            await asyncio.sleep(0.01)

    async def rejected(self) -> None:
        """Wait for ever; raises when the pool turns out to be another application's."""
        while True:
            self._check_welcome()
            await asyncio.sleep(0.1)

    def _check_welcome(self) -> None:
        if self.loop_port.turned_away_by is not None:
            raise self.loop_port.turned_away_by

    async def drained(self) -> None:
        """Wait until nothing is due in these queues and nothing is under way here."""
        while True:
            self._check_welcome()
            if self._at_rest() and not await self._anything_due() and self._at_rest():
                return
            await asyncio.sleep(0.05)

    def _at_rest(self) -> bool:
        return not (self.owned.runs or self.settler.unsettled)

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

    async def worn_out(self) -> None:
        """Wait until this worker has so many runs that hang that it should be replaced."""
        await self.runner.hanging.worn_out.wait()

    async def _watch_lease(self) -> None:
        """The heart fences the worker when it cannot beat; this does when the heart itself hangs."""
        while True:
            self.heart.loop.turned()
            await asyncio.sleep(self.settings.lease / 20)
            now = clock.local()
            if now > self.owned.good_until:
                if self.owned.active():
                    self.loop_port.stop_fenced()
                self.heart.watchdog.call_off_if_idle()
                self.heart.cut()

    def _leave_pool(self) -> None:
        """From any thread: the heart gives this worker's shards to others at its next beat."""
        self.heart.leaving.set()
        self.heart.poke_beat()

    async def stop(self, *, grace: float | None = None) -> None:
        """Stop in order (T10): take nothing new, let runs end, give back what is left at once."""
        grace = self.settings.grace if grace is None else grace
        began = clock.local()
        log.info("worker.stopping", extra={"worker": str(self.owned.worker_id), "grace": grace})
        self.owned.closed = True
        self.runner.close()
        self._leave_pool()
        await self.runner.ended(grace)
        self.runner.stop_all("stopping")
        self.loop_port.interrupt(self.owned.snapshot())
        await self.runner.ended(min(2.0, 1.0 + grace))
        await self._settle_rest(max(1.0, grace - (clock.local() - began)))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.heart.end()
        await self._in_time(self.heart.join)
        try:
            if self.owned.worker_id is not None:
                await self._in_time(self.heart.leave)
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
            extra={"worker": str(self.owned.worker_id), "seconds": round(clock.local() - began, 3)},
        )

    async def _in_time(self, part: Callable[[], None]) -> None:
        """A part of the end that may hang in a statement, as long as the server does: it is cut then."""
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(END_SECONDS, self.heart.break_off)
        thread = ThreadPoolExecutor(1)  # its own: those of the loop may all hang in users' calls
        try:
            await loop.run_in_executor(thread, part)
        finally:
            alarm.cancel()
            thread.shutdown(wait=False)

    async def _settle_rest(self, timeout: float) -> None:
        """Results that are in must get out, if the database is there to take them."""
        deadline = clock.local() + timeout
        while self.settler.unsettled and clock.local() < deadline:
            await asyncio.sleep(0.01)

    # -- the life of a run

    async def _hold_now(self, run: Run, work_timeout: float | None) -> bool:
        values = hold_arguments([(run, work_timeout)], self.owned.worker_id)
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
        return self.runner.free < self.buffer.startable(clock.local())

    def _share(self) -> None:
        self._sharing = False
        if self._is_overfull():
            self.heart.poke_share()

    # -- what layers may ask and tell (WorkerPort)

    @property
    def worker_id(self) -> UUID | None:
        return self.owned.worker_id

    def offered(self, queue: str, due_at: datetime) -> None:
        self.reader.hint(queue, due_at)

    def call_soon(self, action: Callable[..., None], *values: Any) -> None:
        self.loop_port.tell(action, *values)

    def take_in(self, visits: Sequence[Visit]) -> None:
        """Visits that this worker has just committed: those of its shards start without a read."""
        room = TAKEN_IN - self.buffer.size - self.settler.unsettled
        known = [v for v in visits[: max(0, room)] if v.queue in self.buffer.queues]
        fresh = self.buffer.new_of(self.owned.own_of(known), self.owned.shards)
        if fresh:
            self.buffer.add(fresh)
            self.reader.met(fresh)
            self._filled()

    def _called_off(self, versions: frozenset[int]) -> None:
        """Somebody says that these versions are gone. Anybody may say so: the database is asked."""
        self._forget(versions)  # of what waits in hand: it is read when it starts
        self._doubted |= versions
        if not self._doubting and self._doubtful():
            self._doubting = True
            self._begin(self._look_up())

    def _forget(self, versions: frozenset[int] | None) -> None:
        for layer in self._layers:
            layer.forget(versions)

    def _doubtful(self) -> list[Run]:
        runs = [*self.owned.active(), *self.runner.hanging.hopeful()]
        found = [run for run in runs if run.visit.version in self._doubted]
        self._doubted &= {run.visit.version for run in found}
        return found

    async def _look_up(self) -> None:
        """Stop the doubted runs that have lost their visits; one look at a time, and not too often."""
        try:
            while runs := self._doubtful():
                self._doubted.clear()
                values = gone_arguments(runs)
                async with self._side.lock:
                    connection = await self._side.get()
                    rows = await self._database.fetch(
                        connection, SQL["find_gone"], *SQL["find_gone"].arguments(values)
                    )
                lost = lost_of(runs, rows)
                void = [run for run in runs if lost.get(run.token) in ("gone", "changed")]
                self.loop_port.overtaken(void, void=True)
                await asyncio.sleep(LOOK_UP_EVERY)
        except Exception as error:  # the heart's next looks find them
            log.warning("call_off.waiting", extra={"error": str(error)})
            await self._side.lost()
        finally:
            self._doubting = False

    def serves(self, queue: str, shard: int) -> bool:
        """Whether a visit of this queue and shard is this worker's to start."""
        return queue in self.buffer.queues and shard in self.owned.shards_of(queue)

    def overtaken(self, visits: Sequence[Visit], *, void: bool) -> None:
        """A layer has freed visits whose runs lasted too long. If one of them is mine, it goes on without
        its slot, or (`void`: its result does not count any more) is stopped. The visit may be run again,
        here too."""
        versions = {visit.version for visit in visits}
        self.loop_port.overtaken(
            [r for r in self.owned.active() if r.visit.version in versions], void
        )
        for visit in visits:
            if visit.queue in self.buffer.queues:
                self.buffer.forget(visit)
                self.reader.left(visit)

    def _slot_idle(self) -> None:
        """A slot found nothing to start: read more, or ask for a part of a limit."""
        self.reader.has_room()
        if self.buffer.wants_part():
            self.heart.poke_parts()

    def _refused(self, run: Run, error: Exception) -> Outcome:
        """The server would not store the outcome: that is a failure of the run."""
        policy = self.buffer.queues[run.visit.queue].settings.retry
        return judge(policy, failures=run.visit.attempt + 1, error=error)

    def _settled(self, runs: Sequence[Run], answer: str) -> None:
        self.owned.end(runs)
        if self.buffer.settled(self._in_place(runs)):
            self._fill_soon()
        if answer == "settled":
            runs = [run for run in runs if type(run.outcome) is not Done or run.visit.group]
        for run in runs:
            self._go_back(run, answer)

    def _in_place(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Without those that were overtaken: their places were given up then, and others may have them."""
        if not self.runner.hanging.had_any:
            return runs
        return [run for run in runs if not run.hangs or run.stopped is not None]

    def _go_back(self, run: Run, answer: str) -> None:
        """Its visit goes on, or a group has room: what the reader and the slots should look at."""
        # Nothing is made due before the end of its run (by the database's clock as it was, or as it is
        # should it have jumped): what was due before that is not read again.
        ended = min(run.started, self.owned.time.at(run.began)) + run.seconds
        match run.outcome, answer:
            case (_, "superseded" | "rerun"):
                self.reader.left(run.visit)
            case (Retry(after=after) | Again(after=after, at=None), _):
                self.reader.settled(run.visit, ended + after)
            case (Again(at=at), _) if at is not None:
                self.reader.settled(run.visit, max(ended, at.timestamp()))
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

    def _catch_up(self) -> None:
        """Listening from now on: what was said before is found by looking."""
        self._forget(None)
        self.reader.restart()
        self.heart.poke_beat()

    def _shards_freed(self, pool: str) -> None:
        if pool == self.settings.pool:
            self.heart.poke_beat()
