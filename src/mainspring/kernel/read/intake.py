"""The intake: what is read next, and when. Pure, no I/O.

Each level (a queue and a priority) is read from its cursor on while its queue has room. A *look back*
reads the last moments again, for transactions that commit behind a cursor; a *sweep* reads all that lies
behind the cursors, for visits that nobody told of. A worker with nothing to do *sleeps*: it says so in
its row, so that offers notify it, looks once more, asks when the next visit is due, and waits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from mainspring.kernel.outcome import Again, Postponed, Retry
from mainspring.kernel.read.orders import (
    Ask,
    Flag,
    LevelName,
    Order,
    Pages,
    Read,
    ReadGroups,
    Reading,
    Rest,
    Room,
)
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.fairness import BACKGROUND_BELOW
from mainspring.kernel.run.queue import Cursor, QueueState
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import (
    DEFAULT_PRIORITY,
    END,
    PRIORITIES,
    START,
    Position,
    Run,
    Visit,
    instant,
)


class Intake:
    """All cursors of a worker, and when each is read."""

    def __init__(
        self,
        buffer: Buffer,
        settings: WorkerSettings,
        tuning: Tuning,
        time_at: Callable[[float], float],
    ) -> None:
        self._buffer = buffer
        self._settings = settings
        self._tuning = tuning
        self._time_at = time_at  # the database's time at a local moment
        self.levels = {queue: self._cursors_of(queue) for queue in buffer.queues}
        self.cursors = [cursor for levels in self.levels.values() for cursor in levels]
        self._page = min(settings.page, max(tuning.first_page, 2 * settings.concurrency))
        self._bytes = tuning.first_bytes  # of a payload, on average
        self._look_at = 0.0
        self._look_cost = 0.0  # seconds of the last read; many small ones after it do not hide it
        self._sweep_at = 0.0
        self._sweep_again = False  # asked for since the last one began
        self._sweeping: dict[Cursor, tuple[Position, Position]] | None = None  # after and up to
        self._sweep_began = 0.0
        self._sweeps_all = False  # to the end of each level: no read of them need follow
        # Just now: levels are read before the next sweep and the next groups, however soon those are.
        self._has_swept = self._has_read_groups = False
        self._flagged_at = 0.0
        self._watch_until = 0.0
        self._read_as_of = 0.0  # the database's time of the last read, as we know it
        self._rest_until: float | None = None  # None: nobody asked when the next visit is due
        # The local moment at which it is, if nobody told of others.
        self._next_at: float | None = None
        self._is_asking = False
        self.passes = 0  # full passes from the start of every level: what a drain waits for

    def _cursors_of(self, queue: str) -> Sequence[Cursor]:
        return [Cursor(queue, priority) for priority in PRIORITIES]

    @property
    def complete(self) -> bool:
        """Whether every level was read to its end since the shards last changed."""
        return all(cursor.complete for cursor in self.cursors)

    # -- what it is told

    def hint(self, queue: str, due: float) -> None:
        """A visit of this queue was offered, due at this time: it may lie behind the cursors."""
        for cursor in self.levels.get(queue, ()):
            cursor.step_back(due - self._tuning.moment)
        self.told()

    def left(self, visit: Visit) -> None:
        """A visit of mine is free again, due as it was when it was read."""
        self._step_back(visit, visit.due - self._tuning.moment)
        self.told()

    def settled(self, run: Run, answer: str, now: float) -> bool:
        """The database has answered for a run of mine. Returns whether its visit goes on."""
        if answer in ("superseded", "rerun"):
            self.left(run.visit)
            return True
        # Nothing is made due before the end of its run (by the database's clock as it was, or as it is
        # should it have jumped): what was due before that is not read again.
        ended = min(run.started, self._time_at(run.began)) + run.seconds
        match run.outcome:
            case Retry(after=after) | Postponed(after=after) | Again(after=after, at=None):
                self.goes_on(run.visit, ended + after, now)
            case Again(at=at) if at is not None:
                self.goes_on(run.visit, max(ended, at.timestamp()), now)
            case _:
                return False
        return True

    def goes_on(self, visit: Visit, due: float, now: float) -> None:
        """A visit of mine is due at this time of the database's, as far as we know it, or later."""
        due -= self._tuning.clock_error
        if due <= self._time_at(now):
            self._step_back(visit, due)
        self.told()

    def _step_back(self, visit: Visit, due: float) -> None:
        # An offer may have raised its priority meanwhile.
        for cursor in self.levels[visit.queue][visit.priority :]:
            cursor.step_back(due)

    def restart(self) -> None:
        """Shards or the database's clock have changed: every level is read anew."""
        for cursor in self.cursors:
            cursor.restart()
        self.told()

    def sweep_soon(self) -> None:
        """Visits behind the cursors may have become free, and a sweep under way may have passed them."""
        self._sweep_again = True
        self._sweep_at = 0.0
        self.told()

    def told(self) -> None:
        """A sleeper asks anew when the next visit is due; an answer that is on its way may not know it."""
        self._rest_until = self._next_at = None
        self._is_asking = False

    def look_back(self, now: float) -> None:
        """Read the last moments again: transactions may have committed behind the cursors."""
        close = self._time_at(now) - self._tuning.overlap
        for cursor in self.cursors:
            cursor.step_back(close)

    # -- what is next

    def due(self, now: float, room: Room) -> Order:
        """The next thing to do."""
        if not self._has_read_groups and (hungry := self._buffer.hungry_groups()):
            self._has_read_groups = True
            return ReadGroups(hungry[: self._tuning.most_groups])
        self._has_read_groups = False
        if self._sweeping is not None or (now >= self._sweep_at and not self._has_swept):
            return self._sweep(now, room)
        self._has_swept = False
        wanting = self._wanting(now, room)
        if wanting:
            levels = [*wanting, *self._more_urgent(wanting, room)]
            page = max(
                self._tuning.least_page, self._page // len({cursor.queue for cursor in wanting})
            )
            return self._read([(c, c.position, END, self._most(c, page, now)) for c in levels], now)
        if self._buffer.size or room.unsettled > self._tuning.few_unsettled:
            return self._stay_busy(now, room)
        return self._sleep(now, room)

    def _read(
        self,
        levels: Sequence[tuple[Cursor, Position, Position, int]],
        now: float,
        *,
        is_sweep: bool = False,
    ) -> Read:
        self._rest_until = None
        if not is_sweep:
            for cursor, *_ in levels:
                cursor.sent()
        return Read([Reading(*level) for level in levels], now, self._time_at(now), is_sweep)

    def _wanting(self, now: float, room: Room) -> list[Cursor]:
        """Levels with unread visits and room for them in their queue's part of the buffer."""
        # Whoever is busy is not told of offers; and of a visit whose time has come nobody is, but only who
        # has nothing at hand asks when that will be.
        look = now >= self._look_at and (not room.asleep or self._buffer.size > 0)
        if look:
            self.look_back(now)
        if room.unsettled > self._tuning.unsettled_pages * self._page:
            return []
        gives_way = self._buffer.fairness.gives_way(now)
        wanting = [
            cursor
            for name, queue in self._buffer.queues.items()
            if (unread := [cursor for cursor in self.levels[name] if cursor.more])
            for least in (self._least(queue, gives_way),)
            for cursor in unread
            if cursor.priority > least
        ]
        if look and wanting:
            looks = max(1.0, len(self._buffer.queues) / self._tuning.queues_a_look)
            pause = min(self._tuning.look_part * self._look_cost, self._tuning.dearest_look)
            self._look_at = now + max(self._tuning.look_every * looks, pause)
        return wanting

    def _least(self, queue: QueueState, gives_way: bool) -> int:
        """Levels of a queue up to this priority are not read: it is paused, or has enough of them."""
        if queue.is_shut:
            return PRIORITIES[-1]
        if (buffered := queue.buffered) > self._page // 2:
            return queue.least_priority()
        if gives_way and buffered >= self._tuning.few_background:
            return BACKGROUND_BELOW - 1
        return -1

    def _most(self, cursor: Cursor, page: int, now: float) -> int:
        """How many visits of a level are read at once."""
        if cursor.priority < BACKGROUND_BELOW and self._buffer.fairness.gives_way(now):
            return min(page, self._tuning.few_background)
        return page

    def _more_urgent(self, wanting: Sequence[Cursor], room: Room) -> list[Cursor]:
        """Levels above those that are read now, for a worker that is not told of what comes there."""
        if room.asleep:
            return []
        top = max(cursor.priority for cursor in wanting)
        levels = [
            cursor
            for queue in self._buffer.queues.values()
            if not (queue.is_shut or queue.settings.beside)
            for cursor in self.levels[queue.name][top + 1 :]
            if not cursor.more
        ]
        return levels if len(levels) <= self._tuning.urgent_levels else []

    def _sweep(self, now: float, room: Room) -> Read:
        """Look behind the cursors for visits that nobody told us of, page by page. Who sleeps reads to the
        end of each level: one statement does for both."""
        if self._sweeping is None:
            self._sweep_again = False
            self._sweep_began = now
            self._sweeping = {cursor: (START, cursor.position) for cursor in self.cursors}
            self._sweeps_all = room.asleep and not self._buffer.size
            if self._sweeps_all:
                self.look_back(now)  # of a paused queue: it is read when it goes on
                self._read_as_of = self._time_at(now)
                for cursor in self.cursors:
                    if not self._buffer.queues[cursor.queue].paused:
                        cursor.sent()
                        self._sweeping[cursor] = (START, END)
        most = self._settings.page
        levels = [(c, after, upto, most) for c, (after, upto) in self._sweeping.items()]
        return self._read(levels, now, is_sweep=True)

    def _stay_busy(self, now: float, room: Room) -> Flag | Rest:
        """Full: the runner wakes us when it has room, the sweep is due soon in any case.

        Whoever is busy looks for urgent visits now and then instead of being told of every offer; but
        with nothing at hand that is not put behind the rest, being told too is rare and sooner.
        """
        told = room.is_told and self._buffer.choice.only_below(DEFAULT_PRIORITY)
        if told != room.asleep and now - self._flagged_at > self._tuning.flag_every:
            return Flag(told)
        look_at = max(self._look_at, now + self._tuning.look_every)
        return Rest(max(now + self._tuning.least_rest, min(self._sweep_at, look_at)), for_room=True)

    def _sleep(self, now: float, room: Room) -> Order:
        """Nothing to do: say so, look once more, ask when the next visit is due, then wait."""
        self._flagged_at = now
        if not room.asleep:
            return Flag(True)
        if self._rest_until is None:
            known = room.is_told and now > self._watch_until
            if known and self._next_at is not None and now < self._next_at:
                self._rest_until = min(self._sweep_at, self._next_at)
                return Rest(self._rest_until, for_room=False)
            self._is_asking = True
            return Ask(self._read_as_of - self._tuning.clock_error)
        if now < self._rest_until:
            return Rest(self._rest_until, for_room=False)
        self._rest_until = None
        self.look_back(now)
        return self.due(now, room)

    # -- what came of it

    def answered(self, read: Read, pages: Pages, now: float) -> None:
        """A read of levels was answered: everything due by then, unless a page was full."""
        self._read_as_of = read.as_of
        self._look_cost = max(now - read.sent, self._look_cost / 2)
        most = 0
        for cursor, _, _, asked in read.levels:
            page = pages.get(cursor.level, [])
            last = page[-1].position if page else None
            close = read.as_of - self._tuning.overlap
            cursor.answered(last, full=len(page) >= asked, close=close)
            most = max(most, asked)
        self._fit([visit for page in pages.values() for visit in page], most)

    def swept(self, read: Read, pages: Pages, fresh: Pages, now: float) -> list[LevelName]:
        """A page of the sweep was answered, with so many that are new; returns the levels of which these
        are to be taken in. So many strays (a long transaction's) are read later, as there is room."""
        assert self._sweeping is not None
        taken: list[LevelName] = []
        for cursor, _, upto, asked in read.levels:
            page, new = pages.get(cursor.level, []), fresh.get(cursor.level, [])
            is_full = len(page) >= asked
            if is_full and not new:
                self._sweeping[cursor] = (page[-1].position, upto)
                continue
            del self._sweeping[cursor]
            if upto == END:
                last = page[-1].position if page and page[-1].position > cursor.position else None
                cursor.answered(last, full=False, close=self._read_as_of - self._tuning.overlap)
            if is_full:
                cursor.step_back(new[0].due - self._tuning.moment)
            elif new:
                taken.append(cursor.level)
        if not self._sweeping:
            self._end_sweep(now)
        return taken

    def _end_sweep(self, now: float) -> None:
        self._sweeping = None
        self._has_swept = True
        if not self._sweeps_all:
            self.look_back(now)  # the poll: whatever notifications do, every level is read
        self._sweeps_all = False
        cost = min(now - self._sweep_began, self._tuning.dearest_sweep)
        pause = max(self._settings.poll, self._tuning.sweep_part * cost)
        pause *= random.uniform(1 - self._tuning.spread, 1 + self._tuning.spread)
        self._sweep_at = 0.0 if self._sweep_again else now + pause
        self.passes += 1

    def failed(self) -> None:
        """A read did not come back, or is not to be taken in: nothing was learned."""
        self._sweeping = None
        for cursor in self.cursors:
            cursor.failed()

    def flagged(self, asleep: bool, now: float) -> None:
        """The worker's row says so now. What was offered before that, nobody was told of."""
        self._flagged_at = now
        if asleep:
            self.look_back(now)
            self._watch_until = now + self._tuning.watch_for

    def next_is_due(self, seconds: float | None, now: float) -> None:
        """In so many seconds; None: there is no next. One that is due already is read at once."""
        if seconds is not None and seconds <= 0:
            self._read_as_of = self._time_at(now)  # once: its queue may be paused, and is not read
            self.look_back(now)
            return
        if not self._is_asking:
            return
        self._next_at = now + (math.inf if seconds is None else seconds)
        self._rest_until = min(self._sweep_at, self._next_at)
        if now < self._watch_until:
            self._rest_until = min(self._rest_until, now + self._tuning.watch_every)

    def _fit(self, visits: Sequence[Visit], most: int) -> None:
        """Size the next page: full pages grow it, heavy payloads shrink it."""
        if not visits:
            return
        mean = sum([len(v.payload) for v in visits]) / len(visits)
        self._bytes += self._tuning.newest_bytes * (mean - self._bytes)
        fitting = int(self._tuning.page_bytes / max(1.0, self._bytes))
        limit = max(self._tuning.least_page, min(self._settings.page, fitting))
        self._page = min(limit, self._page * 2 if len(visits) >= most else self._page)


def arguments(levels: Sequence[Reading]) -> dict[str, list[object]]:
    """Of read_due, for these levels."""
    return {
        "queues": [level.cursor.queue for level in levels],
        "priorities": [level.cursor.priority for level in levels],
        "after_due": [instant(level.after[0]) for level in levels],
        "after_key": [level.after[1] for level in levels],
        "upto_due": [instant(level.upto[0]) for level in levels],
        "upto_key": [level.upto[1] for level in levels],
        "most": [level.most for level in levels],
    }


def by_level(visits: Sequence[Visit]) -> Pages:
    """What a read brought, a page a level."""
    pages: dict[LevelName, list[Visit]] = {}
    if visits and visits[0].priority == visits[-1].priority and visits[0].queue == visits[-1].queue:
        return {(visits[0].queue, visits[0].priority): list(visits)}  # a level's come together
    for visit in visits:
        pages.setdefault((visit.queue, visit.priority), []).append(visit)
    return pages
