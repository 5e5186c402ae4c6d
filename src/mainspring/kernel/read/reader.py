"""The reader: brings due visits from the database into the buffer.

What is read next, and when, the intake says; here it is sent, waited for and handed on. Only shards
that are this worker's are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring import clock, crash_points
from mainspring.db.database import Database
from mainspring.db.shared import SharedLine
from mainspring.ids import shard_mask
from mainspring.kernel.outcome import Done
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.intake import Intake, arguments, by_level
from mainspring.kernel.read.orders import UNIT, Ask, Flag, Read, ReadGroups, Rest, Room
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.settings import Prepare, WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run, Visit, instant, visits_of

# Settings of the reader's connection. A page comes in the order of visit_due: with statistics of an
# empty table the planner would rather walk the primary key and sort.
READS_IN_ORDER = {"enable_sort": "off", "enable_bitmapscan": "off"}

log = logging.getLogger("mainspring")


class Reader:
    """What reads for a worker."""

    def __init__(
        self,
        database: Database,
        line: SharedLine,
        owned: Owned,
        buffer: Buffer,
        settings: WorkerSettings,
        unsettled: Callable[[], int],
        filled: Callable[[], None],
    ) -> None:
        self._database = database
        self._line = line
        self._owned = owned
        self._buffer = buffer
        self._poll = settings.poll
        self._unsettled = unsettled  # results that wait to be written
        self._filled = filled  # told when the buffer has something new
        self.intake = Intake(buffer, settings, buffer.tuning, owned.time.at)
        self._prepares = any(queue.settings.prepare for queue in buffer.queues.values())
        self._woken = asyncio.Event()
        self._told = False  # there may be something to read, not only room for it
        self._asleep_as: UUID | None = None  # the worker whose row says that it sleeps
        self._stepped_back = 0.0  # seconds of the database's clock that nobody has followed yet

    def wake(self) -> None:
        """There may be something to read: look at once."""
        self.intake.told()
        self._told = True
        self._woken.set()

    def has_room(self) -> None:
        """A slot is idle, or results were written: who waits for room may go on, who sleeps has it."""
        self._woken.set()

    def hint(self, queue: str, due_at: datetime) -> None:
        """A visit of this queue was offered, due at this time."""
        self.intake.hint(queue, due_at.timestamp())
        self.wake()

    def sweep_soon(self) -> None:
        self.intake.sweep_soon()
        self.wake()

    def restart(self) -> None:
        self.intake.restart()
        self.wake()

    def clock_jumped(self, seconds: float) -> None:
        """All is read anew; after a step back, what was due before it is made due again."""
        self._stepped_back += max(0.0, -seconds)
        self.restart()

    def left(self, visit: Visit) -> None:
        self.intake.left(visit)
        self.wake()

    def settled(self, runs: Sequence[Run], answer: str) -> bool:
        """The database has answered for these runs. Returns whether the slots have anything to look at: a
        visit goes on, or its group has room."""
        if answer == "settled":
            runs = [run for run in runs if type(run.outcome) is not Done or run.visit.group]
        going_on = [self.intake.settled(run, answer, clock.local()) for run in runs]
        if any(going_on) or any(self._buffer.has_behind(run.visit) for run in runs):
            self.wake()
        return bool(runs)

    async def run(self) -> None:
        """Read for ever, through any outage."""
        await self._line.serve(self._step, "read.waiting", self._failed)

    def _failed(self) -> None:
        self._asleep_as = None
        self.intake.failed()

    async def _step(self) -> None:
        self._woken.clear()
        self._told = False
        if not self._owned.shards or clock.local() > self._owned.good_until:
            await self._wait(clock.local() + self._poll)
            return
        if self._stepped_back:
            await self._follow_clock(self._stepped_back)
        asleep = self._asleep_as is not None and self._asleep_as == self._owned.worker_id
        room = Room(self._unsettled(), asleep, is_told=not self._database.pooled)
        match self.intake.due(clock.local(), room):
            case Read() as read:
                await self._read(read)
            case ReadGroups() as read_groups:
                await self._read_groups(read_groups)
            case Flag(asleep=asleep):
                await self._set_asleep(asleep)
            case Ask(since=since):
                self.intake.next_is_due(await self._next_due(since), clock.local())
            case Rest(until=until, for_room=for_room):
                while await self._wait(until) and not (for_room or self._told):
                    self._woken.clear()  # room is what it has

    async def _follow_clock(self, seconds: float) -> None:
        """What was due by the old clock is due by the new one."""
        rows = await self._ask("step_back", queues=list(self._buffer.queues), seconds=seconds)
        self._stepped_back -= seconds
        if rows:
            log.info("clock.followed", extra={"visits": len(rows)})

    async def _read(self, read: Read) -> None:
        changes, found = self._owned.changes, await self._fetch(read)
        if changes != self._owned.changes:
            self.intake.failed()  # what was read may be held by others now
            return
        pages = by_level(found)
        fresh = {level: self._new_of(page) for level, page in pages.items()}
        wanted = list(pages)
        if read.is_sweep:
            wanted = self.intake.swept(read, pages, fresh, clock.local())
        else:
            self.intake.answered(read, pages, clock.local())
        for level in wanted:
            if fresh[level]:
                self._buffer.add_page(*level, fresh[level])
                self._buffer.met(fresh[level][:1], clock.local())
                self._filled()
        await asyncio.sleep(0)  # let the slots take what was read before it is asked for room

    def _new_of(self, visits: Sequence[Visit]) -> list[Visit]:
        """Those that are mine and not in hand yet."""
        return self._buffer.new_of(self._owned.own_of(visits), self._owned.shards)

    async def _fetch(self, read: Read) -> list[Visit]:
        self._buffer.read_sent()
        visits: list[Visit] = []
        queues = [level.cursor.queue for level in read.levels]
        for shards, places in self._owned.by_shards(queues, self._database.shard_count):
            mask = None if shards is None else shard_mask(shards, self._database.shard_count)
            rows = await self._ask(
                "read_due",
                **arguments([read.levels[n] for n in places]),
                shards=mask,
                behind=[f"{queue}{UNIT}{grp}" for queue, grp in self._buffer.behind_groups()],
                worker_id=self._owned.worker_id,
            )
            visits += visits_of(rows, read.sent)
        if crash_points.listener is not None:
            crash_points.passed("page.read")
        if self._prepares and visits:
            await self._prepare(visits)
        return visits

    async def _ask(self, statement: str, **values: object) -> Sequence[Any]:
        async with self._line.use() as connection:
            return await connection.send(SQL[statement], values)

    async def _prepare(self, visits: Sequence[Visit]) -> None:
        """Tell the layers that want to know it what was read, but what may have to wait for a limit."""
        told: dict[Prepare, list[Visit]] = {}
        for visit in self._new_of(visits):
            queue = self._buffer.queues[visit.queue]
            if queue.settings.prepare is not None and not queue.limited:
                told.setdefault(queue.settings.prepare, []).append(visit)
        for prepare, some in told.items():
            await prepare(some)

    async def _read_groups(self, read: ReadGroups) -> None:
        # Runs that are not held yet are still due in the database: read past them.
        under_way = Counter((run.visit.queue, run.visit.group) for run in self._owned.snapshot())
        most = [self._buffer.queues[name[0]].groups.keeps + under_way[name] for name in read.groups]
        self._buffer.read_sent()
        sent, changes = clock.local(), self._owned.changes
        rows = await self._ask(
            "read_group", **read.arguments(), most=most, worker_id=self._owned.worker_id
        )
        if changes != self._owned.changes:
            self.intake.failed()
            return
        found = read.visits(rows, sent)
        for name, limit in zip(read.groups, most, strict=True):
            page = found.get(name, [])
            self._buffer.refill(*name, self._new_of(page), more=len(page) >= limit)
        self._filled()

    async def _next_due(self, since: float) -> float | None:
        """Seconds until the next visit is due that a read as of `since` did not see."""
        queues = list(self._buffer.queues)
        mine = [run.visit for run in self._owned.snapshot() if run.visit.due > since]
        known = [f"{v.queue}{UNIT}{v.key}" for v in mine[: self._buffer.tuning.known]]
        found: list[float] = []
        for shards, places in self._owned.by_shards(queues, self._database.shard_count):
            rows = await self._ask(
                "next_due",
                queues=[queues[n] for n in places],
                shards=None if shards is None else list(shards),
                since=instant(since),
                known_keys=known,
            )
            found += [row["seconds"] for row in rows if row["seconds"] is not None]
        return min(found, default=None)

    async def _set_asleep(self, asleep: bool) -> None:
        worker_id = self._owned.worker_id
        await self._ask("sleep", asleep=asleep, worker_id=worker_id)
        self._asleep_as = worker_id if asleep else None
        self.intake.flagged(asleep, clock.local())

    async def _wait(self, until: float) -> bool:
        """Whether we were woken before the time was up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until - clock.local()):
                await self._woken.wait()
        return self._woken.is_set()
