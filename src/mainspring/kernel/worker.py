"""A worker: reads, runs and settles the visits of its pool's queues.

Puts the parts together: the heart (leases), the reader, the runner's slots, the settler, the
listener. Each part is a file of its own; here is only who tells whom.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mainspring import clock
from mainspring.db.batcher import Batcher
from mainspring.db.database import Database
from mainspring.db.reconnecting import Line, until_reachable
from mainspring.db.shared import Haste
from mainspring.kernel.layer import Layer
from mainspring.kernel.lease.doubts import Doubts
from mainspring.kernel.lease.heart import Heart
from mainspring.kernel.lease.holds import Timed, hold_arguments
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.outcome import Outcome
from mainspring.kernel.owned import Owned
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.read.listener import Listener
from mainspring.kernel.read.reader import READS_IN_ORDER, Reader
from mainspring.kernel.retry import judge
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.run.runner import Runner
from mainspring.kernel.settings import REMOTE, QueueSettings, WorkerSettings
from mainspring.kernel.settle.settler import Settler
from mainspring.kernel.statements import SQL, register_queues
from mainspring.kernel.tuning import DEFAULT, LEASE, Tuning
from mainspring.kernel.visit import Run

log = logging.getLogger("mainspring")


class Worker:
    """One worker of a pool, inside the running event loop."""

    def __init__(
        self,
        database: Database,
        queues: Iterable[QueueSettings],
        settings: WorkerSettings,
        layers: Sequence[Layer] = (),
        tuning: Tuning = DEFAULT,
        port: WorkerPort | None = None,
    ) -> None:
        self.settings = settings
        self.port = port or WorkerPort.to(database, settings)
        self._closes = port is None  # nobody else uses it
        self._layers = layers
        self._tuning = tuning
        self._database = database
        listed = list(queues)
        self._declared = [q for q in listed if q.pool == settings.pool and q.kind != REMOTE]
        served = {q.name for q in self._declared}
        # Served by others, whose policies a layer wants to know all the same.
        watched = {
            q.name: QueueState(q) for q in listed if q.name not in served and q.terms is not None
        }
        self.owned = Owned()
        self.buffer = Buffer(
            self._declared, self.owned.gate, slots=settings.concurrency, tuning=tuning
        )
        line = self.port.line
        self._listening = Line(database, "listener")
        self._side = line()
        self._holding = Batcher(self._hold_all)  # of runs that are held before they start
        self.reader = Reader(
            database,
            # It writes only notes (reach, sleep): they need not survive a crash of the server.
            line("reader", Haste.FIRST, {"synchronous_commit": "off"} | READS_IN_ORDER),
            self.owned,
            self.buffer,
            settings,
            unsettled=lambda: self.settler.unsettled,
            filled=self.filled,
        )
        self.settler = Settler(
            # One locked visit must not hold up a batch for long.
            [line("settler", h, {"lock_timeout": "50ms"}) for h in (Haste.FIRST, Haste.SHORT)],
            self.owned,
            page=settings.page,
            settled=self._settled,
            failed=self._refused,
            # Behind a pooler nobody is told of what was offered in a settle: the reader looks for it.
            wrote=self.reader.wake if database.pooled else self.reader.has_room,
            tuning=tuning,
        )
        judges = (x.judge(self.buffer.queues, lambda: self.heart.poke_beat()) for x in layers)
        judge = next((found for found in judges if found is not None), None)
        self.runner = Runner(
            self.owned,
            self.buffer,
            concurrency=settings.concurrency,
            hold=self._hold_now,
            finished=self.settler.add,
            told=self.port.told_of_ends,
            wants_more=self._slot_idle,
            left=self.reader.left,
            judge=judge,
        )
        self._doubts = Doubts(
            self._side,
            self.owned,
            self.runner,
            begin=self._begin,
            stop=lambda runs: self.loop_port.overtaken(runs, void=True),
            cancel=lambda runs: self.loop_port.stop_called_off(runs),
        )
        self.loop_port = LoopPort(
            self.owned,
            self.buffer,
            self.reader,
            self.runner,
            pool=settings.pool,
            watched=watched,
            leave=self._leave_pool,
            end=lambda: self.heart.end(),
            look_again=lambda: self.heart.poke_beat(),
            layers=layers,
            judge=judge,
        )
        self.heart = Heart(database, self.owned, self.loop_port, settings, self._declared, watched)
        for queue in self._declared:
            if queue.endpoint is not None:
                queue.endpoint.when_back(self._endpoint_is_back)
        self._tasks: list[asyncio.Task[None]] = []
        self.port.attach(self)
        self._sharing = False  # a look whether another worker is idle is on its way

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
        async with self._side.use() as connection:
            await register_queues(connection, self._declared, update=True)

    def _loops(self) -> list[Any]:
        loops: list[Coroutine[Any, Any, None]] = [
            self.reader.run(),
            *self.settler.loops(),
            self._watch_lease(),
        ]
        if not self._database.pooled:
            listener = Listener(
                self._listening,
                offered=self.reader.hint,
                shards_freed=self._shards_freed,
                settings_changed=self._settings_changed,
                called_off=self._called_off,
                connected=self._catch_up,
            )
            loops.append(listener.run())
        return loops

    async def ready(self) -> None:
        """Wait until the worker has its shards and has read once."""
        while not (self.heart.joined.is_set() and self.owned.shards and self.reader.intake.passes):
            self._check_welcome()
            await asyncio.sleep(self._tuning.ready_look)

    async def rejected(self) -> None:
        """Wait for ever; raises when the pool turns out to be another application's."""
        while True:
            self._check_welcome()
            await asyncio.sleep(self._tuning.welcome_look)

    def _check_welcome(self) -> None:
        if self.loop_port.turned_away_by is not None:
            raise self.loop_port.turned_away_by

    async def drained(self) -> None:
        """Wait until nothing is due in these queues and nothing is under way here."""
        while True:
            self._check_welcome()
            # A run that begins and ends while we look may leave more to do than the look has seen.
            started = self.owned.started_at
            rests = self._at_rest() and not await self._anything_due() and self._at_rest()
            if rests and self.owned.started_at == started:
                return
            await asyncio.sleep(self._tuning.drained_look)

    def _at_rest(self) -> bool:
        return not (self.owned.runs or self.settler.unsettled)

    async def _anything_due(self) -> bool:
        try:
            async with self._side.use() as connection:
                return await connection.one(SQL["any_due"], bool, queues=list(self.buffer.queues))
        except Exception as error:
            log.warning("drain.waiting", extra={"error": str(error)})
            return True

    async def worn_out(self) -> None:
        """Wait until this worker has so many runs that hang that it should be replaced."""
        await self.runner.hanging.worn_out.wait()

    async def _watch_lease(self) -> None:
        """The heart fences the worker when it cannot beat; this does when the heart itself hangs."""
        while True:
            self.heart.loop.turned()
            await asyncio.sleep(self.settings.lease * LEASE.loop_look)
            now = clock.local()
            if now > self.owned.good_until:
                if self.owned.active():
                    self.loop_port.stop_fenced()
                self.heart.watchdog.call_off_if_idle()
                self.heart.cut_if_hung()

    def _leave_pool(self) -> None:
        """From any thread: the heart gives this worker's shards to others at its next beat."""
        self.heart.leaving.set()
        self.heart.poke_beat()

    async def stop(self, *, grace: float | None = None) -> None:
        """Stop in order (T10): take nothing new, let runs end, give back what is left at once."""
        grace = self.settings.grace if grace is None else grace
        began = clock.local()
        log.info("worker.stopping", extra={"worker": str(self.owned.worker_id), "grace": grace})
        self.owned.close()
        self.runner.close()
        self._leave_pool()
        await self.runner.ended(grace)
        self.runner.stop_all("stopping")
        self.loop_port.interrupt(self.owned.snapshot())
        await self.runner.ended(min(self._tuning.stopped_seconds, 1.0 + grace))
        await self._settle_rest(max(1.0, grace - (clock.local() - began)))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._holding.close()
        self.heart.end()
        await self._in_time(self.heart.join)
        try:
            if self.owned.worker_id is not None:
                await self._in_time(self.heart.leave)
        except Exception as error:
            log.warning("worker.left_in_haste", extra={"error": str(error)})
        await self._listening.close()
        if self._closes:
            await self.port.close()
        log.info(
            "worker.stopped",
            extra={"worker": str(self.owned.worker_id), "seconds": round(clock.local() - began, 3)},
        )

    async def _in_time(self, part: Callable[[], None]) -> None:
        """A part of the end that may hang in a statement, as long as the server does: it is cut then."""
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(self._tuning.end_seconds, self.heart.cut)
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
            await asyncio.sleep(self._tuning.ready_look)

    # -- the life of a run

    async def _hold_now(self, run: Run, work_timeout: float | None) -> bool:
        if await self._holding((run, work_timeout)):
            run.hold()
        return run.held

    async def _hold_all(self, runs: Sequence[Timed]) -> Sequence[bool]:
        values = hold_arguments(runs, self.owned.worker_id)
        async with self._side.use() as connection:
            held = set(await connection.rows(SQL["hold"], int, **values))
        return [run.token in held for run, _ in runs]

    def filled(self) -> None:
        """Visits were read: start what can be; what must wait may be for another worker."""
        self.runner.fill()
        if self.buffer.wants_part():
            self.heart.poke_parts()
        if not self._sharing and self._is_overfull():
            self._sharing = True
            asyncio.get_running_loop().call_later(LEASE.share_after, self._share)

    def _endpoint_is_back(self) -> None:
        """Whom some queues need is there again: what was not read is read, and what waits starts."""
        self.reader.wake()
        self.runner.fill()

    def _is_overfull(self) -> bool:
        return self.runner.free < self.buffer.choice.startable(clock.local())

    def _share(self) -> None:
        self._sharing = False
        if self._is_overfull():
            self.heart.poke_share()

    def _called_off(self, versions: frozenset[int]) -> None:
        """Somebody says that these versions are gone."""
        self._forget(versions)  # of what waits in hand: it is read when it starts
        self.runner.doubted.add(versions, clock.local())
        self._doubts.add(versions)

    def _forget(self, versions: frozenset[int] | None) -> None:
        for layer in self._layers:
            layer.forget(versions)

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
        """The database has answered for these: places are free, and visits that go on are read again."""
        self.owned.end(runs)
        placed = runs
        if self.runner.hanging.had_any:
            # The places of those that were overtaken were given up then: others may have them.
            placed = [run for run in runs if not run.hangs or run.stopped is not None]
        freed = self.buffer.settled(placed)
        if self.reader.settled(runs, answer) or freed:
            self.runner.fill()

    def _catch_up(self) -> None:
        """Listening from now on: what was said before is found by looking."""
        self._forget(None)
        self.reader.restart()
        self.heart.poke_beat()

    def _settings_changed(self) -> None:
        self.heart.poke_beat()
        self.port.news.set()

    def _shards_freed(self, pool: str) -> None:
        if pool == self.settings.pool:
            self.heart.poke_beat()
