"""The reader: brings due visits from the database into the buffer.

It reads each level from its cursor on while there is room, sweeps behind the cursors now and then
for visits that nobody told it of, and sleeps until it is woken, a visit becomes due, or the poll
comes round. It reads only shards that are this worker's.
Past 400 lines, for reading, sweeping and sleeping share its cursors.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from mainspring.db.database import Database, backoff
from mainspring.db.reconnecting import Line
from mainspring.kernel import clock, crash_points
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.background import BACKGROUND_BELOW, BURST, QUICK_SECONDS, Background
from mainspring.kernel.read.cursor import Cursor
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.settings import Prepare, WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import (
    DEFAULT_PRIORITY,
    END,
    PRIORITIES,
    START,
    Position,
    Visit,
    instant,
    shard_mask,
)

log = logging.getLogger("mainspring")

# While so many pages of results wait to be written nothing more is read: they live in memory only.
UNSETTLED_PAGES = 3
# A busy reader looks at every level this often (for each ten queues), so urgent visits do not wait.
LOOK_SECONDS = 0.05
# But so many times as long as a look takes, up to a limit: it reads again what was handed over in memory.
LOOK_PART = 20
LOOK_MOST_SECONDS = 0.1
# Up to so many quiet levels that are more urgent than what is read are read with it, without a look: in the
# same statement each costs a step down an index.
URGENT_LEVELS = 64
# A level of which a look brought so many visits, all in hand already, is left alone for so long (seconds):
# steps of processes that are handed over in memory were read six times each.
KNOWN_MANY = 100
KNOWN_SECONDS = 0.4
# A step back goes so much further than the time of the visit: times are rounded on their way.
A_MOMENT = 0.000_001
_visit: Callable[..., Visit] = Visit  # a row's columns are its fields, in their order
# Between the queue and the group, or the key, of what a statement passes over; no queue's name contains it.
UNIT = "\x1f"
# Bytes of payload that a page should not much exceed.
PAGE_BYTES = 8_000_000
# Settings of the reader's connection. A page comes in the order of visit_due: with statistics of an
# empty table the planner would rather walk the primary key and sort.
READS_IN_ORDER = {"enable_sort": "off", "enable_bitmapscan": "off"}
# A freshly asleep worker polls this often for a while: an offer may have looked just before it slept.
WATCHFUL_SECONDS = 0.075
WATCHFUL_FOR = 1.0
# The flag that asks for notifications is taken down only after so long a time of work: it is a write.
BUSY_SECONDS = 0.1
# So few results on their way do not make a worker busy: it is told of offers all the same.
FEW_UNSETTLED = 16


# A sweep takes a twentieth of the time, but one that met a stall is not paid for with minutes (seconds).
DEAREST_SWEEP = 0.5

# So many visits that were just read are named to the question what is due next: they are due, but not next.
MOST_KNOWN_KEYS = 50
# The database's time is known to us no better than this (seconds).
CLOCK_ERROR = 0.02


class ShardsChanged(Exception):
    """Shards came or went while a read was under way: its page is not taken in."""


class Reader:
    """All cursors of a worker, on one connection."""

    def __init__(
        self,
        database: Database,
        line: Line,
        owned: Owned,
        buffer: Buffer,
        settings: WorkerSettings,
        unsettled: Callable[[], int] = lambda: 0,
        filled: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._line = line
        self._owned = owned
        self._buffer = buffer
        self._settings = settings
        self._unsettled = unsettled  # results that wait to be written
        self._filled = filled  # told when the buffer has something new
        self._cursors = {
            (queue, priority): Cursor(queue, priority)
            for queue in buffer.queues
            for priority in PRIORITIES
        }
        self._levels = {
            queue: [self._cursors[queue, priority] for priority in PRIORITIES]
            for queue in buffer.queues
        }
        self._prepares = any(queue.settings.prepare for queue in buffer.queues.values())
        self._low = Background()
        self._giving_way = {
            c for levels in self._levels.values() for c in levels[:BACKGROUND_BELOW]
        }
        self._shared = {
            cursor
            for queue in buffer.queues.values()
            if queue.settings.share is not None
            for cursor in self._levels[queue.name][:BACKGROUND_BELOW]
        }
        self._operations = [q for q in buffer.queues.values() if q.settings.kind == "operation"]
        self._low_at = 0.0  # from this local moment on low priorities may be read
        self._woken = asyncio.Event()
        self._told = False  # there may be something to read, not only room for it
        self._sweep_at = 0.0
        self._sweep_again = False  # asked for since the last one began
        self._page = min(settings.page, max(100, 2 * settings.concurrency))
        self._asleep_as: UUID | None = None  # the worker whose row says that it sleeps
        self._idle_at = 0.0
        self._read_as_of = 0.0  # the database's time of the last read, as we know it
        self._look_at = 0.0
        self._look_cost = 0.0  # seconds of the last one
        self._watchful_until = 0.0
        self._bytes = 200.0  # of a payload, on average
        self.passes = 0  # full passes from the start of every level: what a drain waits for

    def wake(self) -> None:
        """There may be something to read: look at once."""
        self._told = True
        self._woken.set()

    def has_room(self) -> None:
        """A slot is idle, or results were written: who waits for room may go on, who sleeps has it."""
        self._woken.set()

    def hint(self, queue: str, due_at: datetime) -> None:
        """A visit of this queue was offered, due at this time: it may lie behind the cursors."""
        if queue in self._buffer.queues:
            for priority in PRIORITIES:
                self._cursors[queue, priority].step_back(due_at.timestamp() - A_MOMENT)
            self.wake()

    def sweep_soon(self) -> None:
        """Visits behind the cursors may have become free, and a sweep under way may have passed them."""
        self._sweep_again = True
        self._sweep_at = 0.0
        self.wake()

    def restart(self) -> None:
        """Shards or the database's clock have changed: every level is read anew."""
        for cursor in self._cursors.values():
            cursor.restart()
        self.wake()

    def left(self, visit: Visit) -> None:
        """A visit of mine is free again, due as it was when it was read."""
        self._step_back(visit, visit.due - A_MOMENT)
        self.wake()

    def settled(self, visit: Visit, due: float) -> None:
        """A visit of mine goes on, due at this time of the database's, as far as we know it, or later."""
        if due - CLOCK_ERROR <= self._now():
            self._step_back(visit, due - CLOCK_ERROR)
        self.wake()  # a sleeper asks anew when the next visit becomes due

    def _step_back(self, visit: Visit, due: float) -> None:
        # An offer may have raised its priority meanwhile.
        for cursor in self._levels[visit.queue][visit.priority :]:
            cursor.step_back(due)

    @property
    def complete(self) -> bool:
        """Whether every level was read to its end since the shards last changed."""
        return all(cursor.complete for cursor in self._cursors.values())

    async def run(self) -> None:
        """Read for ever, through any outage."""
        tries = 0
        while True:
            try:
                await self._step()
                tries = 0
            except ShardsChanged:
                for cursor in self._cursors.values():
                    cursor.failed()
            except Exception as error:
                if tries % 20 == 0:
                    log.warning("read.waiting", extra={"error": str(error)})
                await self._line.lost()
                self._asleep_as = None
                for cursor in self._cursors.values():
                    cursor.failed()
                await asyncio.sleep(backoff(tries))
                tries += 1

    async def _step(self) -> None:
        self._woken.clear()
        self._told = False
        if not self._owned.shards or clock.local() > self._owned.good_until:
            await self._wait(self._settings.poll)
            return
        if clock.local() >= self._sweep_at:
            await self._sweep()
        await self._read_groups()
        levels = self._wanting()
        if levels:
            await self._read_levels(levels, self._more_urgent(levels))
        elif self._buffer.size or self._unsettled() > FEW_UNSETTLED or self._low_at > clock.local():
            await self._stay_busy()
        else:
            await self._sleep()

    async def _stay_busy(self) -> None:
        """Full: the runner wakes us when it has room, the sweep is due soon in any case.

        Whoever is busy looks for urgent visits now and then instead of being told of every offer; but
        with nothing at hand that is not put behind the rest, being told too is rare and sooner.
        """
        is_low = self._buffer.only_below(DEFAULT_PRIORITY) or (
            self._low_at > clock.local() and not self._buffer.has_from(DEFAULT_PRIORITY)
        )
        told = not self._database.pooled and is_low
        if told != self._asleep and clock.local() - self._idle_at > BUSY_SECONDS:
            self._idle_at = clock.local()
            await self._set_asleep(told)
            if told:
                self._look_back()  # what was offered before anybody told us
                return
        now = clock.local()
        if self._low_at > now:
            await self._wait(min(self._low_at - now, LOOK_SECONDS))
            return
        next_look = min(self._sweep_at, max(self._look_at, now + LOOK_SECONDS))
        await self._wait(max(0.01, next_look - now))

    def _wanting(self) -> list[Cursor]:
        """Levels with unread visits and room for them in their queue's part of the buffer."""
        now = clock.local()
        # Whoever is busy is not told of offers; and of a visit whose time has come nobody is, but only who
        # has nothing at hand asks when that will be.
        look = now >= self._look_at and (not self._asleep or self._buffer.size > 0)
        if look:
            self._look_back(at=now)
        self._low_at = 0.0
        if self._unsettled() > UNSETTLED_PAGES * self._page:
            return []
        wanting = [
            cursor
            for queue in self._buffer.queues.values()
            for least in (self._least(queue),)
            for cursor in self._levels[queue.name]
            if cursor.more and cursor.priority > least
        ]
        if self._low.gives_way(now) and not self._giving_way.isdisjoint(wanting):
            self._low_at = self._low_opens_at(now)
            if self._low_at > now:
                owed = self._shared if self._buffer.owed else set()
                kept_back = self._giving_way - owed
                wanting = [cursor for cursor in wanting if cursor not in kept_back]
        if look and wanting:
            every = LOOK_SECONDS * max(1.0, len(self._buffer.queues) / 10)
            self._look_at = now + max(every, min(LOOK_PART * self._look_cost, LOOK_MOST_SECONDS))
        return wanting

    def _more_urgent(self, wanting: Sequence[Cursor]) -> list[Cursor]:
        """Levels above those that are read now, for a worker that is not told of what comes there."""
        if self._asleep:
            return []
        top = max(cursor.priority for cursor in wanting)
        levels = [
            cursor
            for queue in self._buffer.queues.values()
            if not (queue.paused or queue.settings.beside)
            for cursor in self._levels[queue.name][top + 1 :]
            if not cursor.more
        ]
        return levels if len(levels) <= URGENT_LEVELS else []

    def _low_opens_at(self, now: float) -> float:
        unsettled = self._owned.unsettled_below(BACKGROUND_BELOW, now - QUICK_SECONDS)
        waiting = self._buffer.startable_below(BACKGROUND_BELOW, now)
        operating = any(queue.running for queue in self._operations)
        return self._low.opens_at(now, waiting=waiting, unsettled=unsettled, operating=operating)

    def met(self, visits: Sequence[Visit]) -> None:
        """Visits came to be started: whether others have to give way."""
        if any(visit.priority >= BACKGROUND_BELOW for visit in visits):
            self._low.met(clock.local())

    def _least(self, queue: QueueState) -> int:
        """Levels of a queue up to this priority are not read: it is paused, or has enough of them."""
        if queue.paused:
            return PRIORITIES[-1]
        full = queue.buffered > self._page // 2
        return queue.least_priority() if full else -1

    def _look_back(self, at: float = math.inf) -> None:
        """Read every level again from a moment ago on, but those that are left alone; one that was, from
        a moment before that on: what was committed late by then is behind the cursor."""
        now = self._now()
        for cursor in self._cursors.values():
            if cursor.known_until <= at:
                cursor.look_back(now - KNOWN_SECONDS if cursor.known_until else now)
                cursor.known_until = 0.0

    def _now(self) -> float:
        """The database's time, as far as we know it."""
        return self._owned.time.at(clock.local())

    async def _read_levels(self, wanting: Sequence[Cursor], urgent: Sequence[Cursor]) -> None:
        page_size = max(10, self._page // len({c.queue for c in wanting}))
        cursors = [*wanting, *urgent]
        most = self._shares(cursors, page_size)
        for cursor in cursors:
            cursor.sent()
        sent, now = clock.local(), self._now()
        rows = await self._fetch(cursors, [c.position for c in cursors], [END] * len(cursors), most)
        self._read_as_of = now
        pages = _by_level(rows)
        for cursor, asked in zip(cursors, most, strict=True):
            page = pages.get((cursor.queue, cursor.priority), [])
            cursor.answered(page[-1] if page else None, full=len(page) >= asked, now=now)
            if page and self._take_in(page) and cursor in self._giving_way:
                self._low.burst(sent)
        self._fit(rows, page_size)
        # A read of few rows after it does not make the next look cheap.
        self._look_cost = max(clock.local() - sent, self._look_cost / 2)
        await self._let_run()

    def _shares(self, cursors: Sequence[Cursor], page: int) -> list[int]:
        """How many visits are asked for of each level: one that gives way is read by bursts, with a share
        by as many as it is owed."""
        if not self._low.gives_way(clock.local()):
            return [page] * len(cursors)
        low = min(page, BURST)
        shared = min(page, max(BURST, self._buffer.owed))
        return [
            shared if c in self._shared else low if c in self._giving_way else page for c in cursors
        ]

    async def _fetch(
        self,
        cursors: Sequence[Cursor],
        after: Sequence[Position],
        upto: Sequence[Position],
        most: Sequence[int],
    ) -> list[Visit]:
        connection = await self._line.get()
        self._buffer.read_sent()
        sent, changes = clock.local(), self._owned.changes
        visits: list[Visit] = []
        for shards, levels in self._by_shards([c.queue for c in cursors]):
            values = {
                "queues": [cursors[n].queue for n in levels],
                "priorities": [cursors[n].priority for n in levels],
                "after_due": [instant(after[n][0]) for n in levels],
                "after_key": [after[n][1] for n in levels],
                "upto_due": [instant(upto[n][0]) for n in levels],
                "upto_key": [upto[n][1] for n in levels],
                "most": [most[n] for n in levels],
                "shards": None if shards is None else self._mask(shards),
                "behind": [f"{queue}{UNIT}{grp}" for queue, grp in self._buffer.behind_groups()],
                "worker_id": self._owned.worker_id,
            }
            rows = await self._database.fetch(
                connection, SQL["read_due"], *SQL["read_due"].arguments(values)
            )
            visits += [_visit(*row, sent) for row in rows]
        crash_points.passed("page.read")
        if self._prepares and visits:
            await self._prepare(visits)
        if changes != self._owned.changes:
            raise ShardsChanged  # what was read may be held by others now
        return visits

    async def _prepare(self, visits: Sequence[Visit]) -> None:
        """Tell the layers that want to know it what was read, but what may have to wait for a limit."""
        told: dict[Prepare, list[Visit]] = {}
        for visit in self._buffer.new_of(self._owned.own_of(visits), self._owned.shards):
            queue = self._buffer.queues[visit.queue]
            if queue.settings.prepare is not None and not queue.limited:
                told.setdefault(queue.settings.prepare, []).append(visit)
        for prepare, some in told.items():
            await prepare(some)

    def _by_shards(self, queues: Sequence[str]) -> list[tuple[frozenset[int] | None, list[int]]]:
        """The places of these queues, by the shards in which they are mine; None: in all. One statement
        reads each of these: one in a whole pool, about one a band in a pool that is cut."""
        owned = self._owned
        if not owned.by_queue:
            mine = None if owned.all_shards else owned.shards
            return [(mine, list(range(len(queues))))]
        places: dict[frozenset[int], list[int]] = {}
        for n, queue in enumerate(queues):
            places.setdefault(owned.shards_of(queue), []).append(n)
        every = self._database.shard_count
        return [(None if len(s) == every else s, some) for s, some in places.items() if s]

    def _mask(self, shards: frozenset[int]) -> bytes:
        return shard_mask(shards, self._database.shard_count)

    def _take_in(self, visits: Sequence[Visit]) -> bool:
        """Buffer what is mine and not in hand yet, of one level; answers whether anything was."""
        fresh = self._buffer.new_of(self._owned.own_of(visits), self._owned.shards)
        is_known = not fresh and len(visits) >= KNOWN_MANY
        cursor = self._cursors[visits[0].queue, visits[0].priority]
        cursor.known_until = clock.local() + KNOWN_SECONDS if is_known else 0.0
        if fresh:
            self._buffer.add_page(fresh[0].queue, fresh[0].priority, fresh)
            if not self._buffer.queues[cursor.queue].settings.beside:
                self.met(fresh)
            self._filled()
        return bool(fresh)

    async def _let_run(self) -> None:
        """Let the slots take what was read before we look whether there is room."""
        await asyncio.sleep(0)

    def _fit(self, visits: Sequence[Visit], most: int) -> None:
        """Size the next page: full pages grow it, heavy payloads shrink it."""
        if not visits:
            return
        mean = sum(len(v.payload) for v in visits) / len(visits)
        self._bytes = 0.7 * self._bytes + 0.3 * mean
        limit = max(10, min(self._settings.page, int(PAGE_BYTES / max(1.0, self._bytes))))
        if len(visits) >= most:
            self._page = min(limit, self._page * 2)
        self._page = min(limit, self._page)

    async def _read_groups(self) -> None:
        """Groups that had to leave visits in the database and have room again."""
        hungry = self._buffer.hungry_groups()[:500]
        if not hungry:
            return
        # Runs that are not held yet are still due in the database: read past them.
        under_way = Counter((run.visit.queue, run.visit.group) for run in self._owned.snapshot())
        keeps = {queue: self._buffer.queues[queue].groups.keeps for queue, _ in hungry}
        most = {name: keeps[name[0]] + under_way[name] for name in hungry}
        values = {
            "queues": [queue for queue, _ in hungry],
            "groups": [group for _, group in hungry],
            "most": [most[name] for name in hungry],
            "worker_id": self._owned.worker_id,
        }
        connection = await self._line.get()
        self._buffer.read_sent()
        sent, changes = clock.local(), self._owned.changes
        rows = await self._database.fetch(
            connection, SQL["read_group"], *SQL["read_group"].arguments(values)
        )
        if changes != self._owned.changes:
            raise ShardsChanged
        found: dict[tuple[str, str], list[Visit]] = {}
        for row in rows:
            visit = _visit(*row, sent)
            assert visit.group is not None
            found.setdefault((visit.queue, visit.group), []).append(visit)
        for name in hungry:
            page = found.get(name, [])
            fresh = self._buffer.new_of(self._owned.own_of(page), self._owned.shards)
            self._buffer.refill(*name, fresh, more=len(page) >= most[name])
        self._filled()

    async def _sweep(self) -> None:
        """Look behind the cursors for visits that nobody told us of."""
        began = clock.local()
        self._sweep_again = False
        after = dict.fromkeys(self._cursors, START)
        upto = {level: cursor.position for level, cursor in self._cursors.items()}
        pending = list(self._cursors.values())
        while pending:
            levels = [(c.queue, c.priority) for c in pending]
            most = self._settings.page
            rows = await self._fetch(
                pending, [after[x] for x in levels], [upto[x] for x in levels], [most] * len(levels)
            )
            pages = _by_level(rows)
            full = {level for level, page in pages.items() if len(page) >= most}
            for level, page in pages.items():
                after[level] = page[-1].position
                fresh = self._buffer.new_of(self._owned.own_of(page), self._owned.shards)
                if fresh and level in full:
                    # So many strays (a long transaction's) are read as there is room for them.
                    self._cursors[level].step_back(fresh[0].due)
                    full.remove(level)
                else:
                    self._take_in(page)
            pending = [c for c in pending if (c.queue, c.priority) in full]
        self._look_back()  # the poll: whatever notifications do, every level is read
        cost = min(clock.local() - began, DEAREST_SWEEP)
        pause = max(self._settings.poll, 20 * cost) * random.uniform(0.9, 1.1)
        self._sweep_at = 0.0 if self._sweep_again else clock.local() + pause
        self.passes += 1

    async def _sleep(self) -> None:
        """Nothing to do: say so, look once more, then wait."""
        self._idle_at = clock.local()
        if not self._asleep:
            await self._set_asleep(True)
            self._look_back()
            self._watchful_until = clock.local() + WATCHFUL_FOR
            return
        until_sweep = max(0.0, self._sweep_at - clock.local())
        connection = await self._line.get()
        since = self._read_as_of - CLOCK_ERROR
        mine = [run.visit for run in self._owned.snapshot() if run.visit.due > since]
        queues = list(self._buffer.queues)
        found: list[float] = []
        for shards, places in self._by_shards(queues):
            values = {
                "queues": [queues[n] for n in places],
                "shards": None if shards is None else list(shards),
                "since": instant(since),
                "known_keys": [
                    f"{visit.queue}{UNIT}{visit.key}" for visit in mine[:MOST_KNOWN_KEYS]
                ],
            }
            rows = await self._database.fetch(
                connection, SQL["next_due"], *SQL["next_due"].arguments(values)
            )
            found += [row["seconds"] for row in rows if row["seconds"] is not None]
        due_in = min(found, default=None)
        if due_in is not None and due_in <= 0:
            self._read_as_of = self._now()  # once: its queue may be paused, and is not read then
            self._look_back()
            return
        timeout = until_sweep if due_in is None else min(until_sweep, due_in)
        if clock.local() < self._watchful_until:
            timeout = min(timeout, WATCHFUL_SECONDS)
        until = clock.local() + timeout
        while await self._wait(until - clock.local()):
            if self._told:
                return
            self._woken.clear()  # room is what it has: the next visit is due when it was due
        self._look_back()

    @property
    def _asleep(self) -> bool:
        return self._asleep_as is not None and self._asleep_as == self._owned.worker_id

    async def _set_asleep(self, asleep: bool) -> None:
        if asleep == self._asleep:
            return
        worker_id = self._owned.worker_id
        connection = await self._line.get()
        values = {"asleep": asleep, "worker_id": worker_id}
        await self._database.fetch(connection, SQL["sleep"], *SQL["sleep"].arguments(values))
        self._asleep_as = worker_id if asleep else None

    async def _wait(self, timeout: float) -> bool:
        """Whether we were woken before the time was up."""
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True


def _by_level(visits: Sequence[Visit]) -> dict[tuple[str, int], list[Visit]]:
    if not visits:
        return {}
    first, last = visits[0], visits[-1]
    if (first.queue, first.priority) == (last.queue, last.priority):
        return {(first.queue, first.priority): list(visits)}  # a level's visits come together
    pages: dict[tuple[str, int], list[Visit]] = {}
    for visit in visits:
        level = (visit.queue, visit.priority)
        if level in pages:
            pages[level].append(visit)
        else:
            pages[level] = [visit]
    return pages
