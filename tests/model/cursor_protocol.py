"""The reader's cursors: what they have passed, and whether a visit can hide behind them.

User transactions offer visits that are due when the transaction began, and commit later, so rows
appear behind a cursor that has moved on. A notification, or a settle's answer, moves the cursor
back; a read that was sent before must not move it forward again. A run that settles its visit with
a new time makes it due when the settle comes to the server; the answer comes later. A page holds
one row. Keys a and b are of the lower priority, c is of the higher. The intake is the engine's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from driven_intake import LEVELS, QUEUE, Driven, Memory, TwoLevels, visit

from mainspring.kernel.read.orders import LevelName, Pages, Read, Reading, Room
from mainspring.kernel.run.queue import Cursor
from mainspring.kernel.visit import END, LAST_KEY, Position, Visit

KEYS = "abc"


class Due(NamedTuple):
    """A committed visit."""

    level: int
    at: int
    key: str

    def position(self) -> Position:
        return (float(self.at), self.key)

    def visit(self) -> Visit:
        return visit(self.level, self.at, self.key)


class Page(NamedTuple):
    """A read under way, by level; `rows` is None until the server has taken its snapshot."""

    levels: tuple[tuple[int, Position, Position, int], ...]
    sent: int
    rows: tuple[Due, ...] | None = None


class Ended(NamedTuple):
    """A run that has ended and whose visit goes on; `moved` is None until the server has settled it."""

    due: Due
    at: int
    moved: Due | None = None


class State(NamedTuple):
    memory: Memory  # of the intake
    clock: int = 1
    open: tuple[int | None, ...] = (None,) * len(KEYS)  # begin time of each open transaction
    committed: frozenset[Due] = frozenset()
    hand: frozenset[Due] = frozenset()
    page: Page | None = None
    notes: frozenset[Due] = frozenset()  # notifications on their way
    lost: int = 0
    returned: int = 0
    ended: Ended | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the cursors; off, each hides a visit."""

    keyset_cursor: bool = True  # off: the due time alone, with ">"
    cursor_per_level: bool = True  # off: one position for all priorities
    notifications_rewind: bool = True  # off: they only wake the reader
    merge_rewinds: bool = True  # off: a read in flight overwrites a rewind
    settle_answers_rewind: bool = True
    settle_rewinds_to_the_end: bool = True  # of the run; off: to when the answer comes
    sweep_pages_past_hand: bool = True  # off: a sweep is one page, even of rows in hand


@dataclass(frozen=True, slots=True)
class Bounds:
    clock: int = 3
    keys: str = KEYS
    lost_notes: int = 0
    returns: int = 0  # settles that leave the row: again, retry, superseded


def intake_by(rules: Rules) -> type[TwoLevels]:
    """The engine's intake, without the rules that are off."""

    class RuledCursor(Cursor):
        def answered(self, last: Position | None, *, full: bool, close: float) -> None:
            if not rules.merge_rewinds:
                self._back = END
            if last is not None and not rules.keyset_cursor:
                last = (last[0], LAST_KEY)
            super().answered(last, full=full, close=close)

    class Ruled(TwoLevels):
        cursor_type = RuledCursor

        def hint(self, queue: str, due: float) -> None:
            super().hint(queue if rules.notifications_rewind else "another", due)

        def left(self, visit: Visit) -> None:
            if rules.settle_answers_rewind:
                super().left(visit)

        def goes_on(self, visit: Visit, due: float, now: float) -> None:
            if rules.settle_answers_rewind:
                super().goes_on(visit, due if rules.settle_rewinds_to_the_end else now, now)

        def answered(self, read: Read, pages: Pages, now: float) -> None:
            super().answered(read, pages, now)
            if not rules.cursor_per_level:
                furthest = max(cursor.position for cursor in self.cursors)
                for cursor in self.cursors:
                    cursor.position = furthest

        def swept(self, read: Read, pages: Pages, fresh: Pages, now: float) -> list[LevelName]:
            if not rules.sweep_pages_past_hand:
                read = Read([level._replace(most=99) for level in read.levels], now, now)
            return super().swept(read, pages, fresh, now)

    return Ruled


class CursorProtocol:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.bounds = bounds
        self.driven = Driven(intake_by(rules))

    def start(self) -> State:
        return State(self.driven.memory())

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        if state.clock < self.bounds.clock:
            yield f"the clock shows {state.clock + 1}", state._replace(clock=state.clock + 1)
        yield from self.transact(state)
        yield from self.read(state)
        yield from self.hear(state)
        yield from self.settle(state)

    def transact(self, state: State) -> Iterator[tuple[str, State]]:
        offered = {due.key for due in state.committed}
        for at, key in enumerate(self.bounds.keys):
            began = state.open[at]
            if began is not None:
                due = Due(1 if key == "c" else 0, began, key)
                yield (
                    f"{key} commits, due at {began}, and notifies",
                    state._replace(
                        open=_at(state.open, at, None),
                        committed=state.committed | {due},
                        notes=state.notes | {due},
                    ),
                )
            elif key not in offered:
                opened = state._replace(open=_at(state.open, at, state.clock))
                yield f"{key} is offered at {state.clock}", opened

    def read(self, state: State) -> Iterator[tuple[str, State]]:
        page = state.page
        if page is None:
            order, memory = self.driven.due(state.memory, state.clock, busy=False)
            if isinstance(order, Read):  # else it waits to be told
                levels = tuple((c.priority, *rest) for c, *rest in order.levels)
                sent = Page(levels, state.clock)
                yield (
                    f"a read of {len(levels)} levels is sent",
                    state._replace(memory=memory, page=sent),
                )
        elif page.rows is None:
            rows = tuple(due for level in page.levels for due in _page(state, *level))
            yield (
                f"  server: the read finds {_keys(rows)} at {state.clock}",
                state._replace(page=page._replace(rows=rows)),
            )
        else:
            yield (
                f"the read returns {_keys(page.rows)}",
                state._replace(
                    page=None,
                    hand=state.hand | self._fresh(state, page.rows),
                    memory=self._answered(state, page, page.rows),
                ),
            )

    def _answered(self, state: State, page: Page, rows: tuple[Due, ...]) -> Memory:
        intake = self.driven.recall(state.memory)
        levels = [Reading(intake.cursors[level], *rest) for level, *rest in page.levels]
        intake.answered(Read(levels, page.sent, page.sent), _pages(rows), page.sent)
        return self.driven.memory()

    def hear(self, state: State) -> Iterator[tuple[str, State]]:
        for due in sorted(state.notes):
            heard = state._replace(notes=state.notes - {due})
            if state.lost < self.bounds.lost_notes:
                yield f"the notification of {due.key} is lost", heard._replace(lost=state.lost + 1)
            self.driven.recall(state.memory).hint(QUEUE, float(due.at))
            yield (
                f"the notification of {due.key} rewinds to {due.at}",
                heard._replace(memory=self.driven.memory()),
            )

    def settle(self, state: State) -> Iterator[tuple[str, State]]:
        for due in sorted(state.hand):
            if due not in state.committed or state.returned >= self.bounds.returns:
                continue
            back = state._replace(returned=state.returned + 1)
            self.driven.recall(state.memory).left(due.visit())
            kept = back._replace(hand=state.hand - {due}, memory=self.driven.memory())
            yield f"{due.key} is superseded", kept
            if state.ended is None:
                yield (
                    f"{due.key} ends at {state.clock}",
                    back._replace(ended=Ended(due, state.clock)),
                )
        if state.ended is not None:
            yield from self.settle_again(state, state.ended)

    def settle_again(self, state: State, ended: Ended) -> Iterator[tuple[str, State]]:
        if ended.moved is None:
            moved = ended.due._replace(at=state.clock)
            yield (
                f"  server: {moved.key} is settled, due at {moved.at}",
                state._replace(
                    committed=state.committed - {ended.due} | {moved},
                    ended=ended._replace(moved=moved),
                ),
            )
            return
        intake = self.driven.recall(state.memory)
        intake.goes_on(ended.due.visit(), float(ended.at), float(state.clock))
        yield (
            f"the settle of {ended.due.key} is answered",
            state._replace(ended=None, hand=state.hand - {ended.due}, memory=self.driven.memory()),
        )

    def _fresh(self, state: State, rows: tuple[Due, ...]) -> set[Due]:
        """What is taken in of a page: no key that is in hand, as that of a settle not yet answered."""
        return {due for due in rows if state.ended is None or due.key != state.ended.due.key}

    def nothing_hides(self, state: State) -> str | None:
        """At rest, with every notification heard, each visit not in hand will be read."""
        if not _at_rest(state) or state.lost:
            return None
        return self._hidden(state, state.committed - state.hand, "lies behind its cursor")

    def a_sweep_finds_the_rest(self, state: State) -> str | None:
        """At rest, whatever was lost, a cursor read or the next sweep finds each visit."""
        if not _at_rest(state):
            return None
        return self._left_by_sweep(state, asleep=True) or self._left_by_sweep(state, asleep=False)

    def _left_by_sweep(self, state: State, *, asleep: bool) -> str | None:
        """Who sleeps sweeps to the end of each level, others up to the cursors."""
        intake, now = self.driven.recall(state.memory), float(state.clock)
        intake.sweep_soon()
        found: set[Due] = set()
        while True:
            order = intake.due(now, Room(0, asleep=asleep))
            if not (isinstance(order, Read) and order.is_sweep):
                break
            rows = [due for c, *rest in order.levels for due in _page(state, c.priority, *rest)]
            fresh = _pages(tuple(due for due in rows if due not in state.hand))
            taken = intake.swept(order, _pages(tuple(rows)), fresh, now)
            found |= {due for due in rows if (QUEUE, due.level) in taken}
        left = state.committed - state.hand - found
        return self._hidden(
            state._replace(memory=self.driven.memory()), left, "is found by no sweep"
        )

    def _hidden(self, state: State, dues: frozenset[Due], how: str) -> str | None:
        cursors = self.driven.recall(state.memory).cursors
        for due in sorted(dues):
            cursor = cursors[due.level]
            if not (cursor.more or cursor.reading) or cursor.position >= due.position():
                return f"{due.key}, due at {due.at}, {how}"
        return None


def _page(state: State, level: int, after: Position, upto: Position, most: int) -> list[Due]:
    rows = [
        due
        for due in state.committed
        if due.level == level and due.at <= state.clock and after < due.position() <= upto
    ]
    return sorted(rows, key=Due.position)[:most]


def _pages(rows: tuple[Due, ...]) -> Pages:
    pages = {(QUEUE, level): [d.visit() for d in rows if d.level == level] for level in LEVELS}
    return {level: page for level, page in pages.items() if page}


def _at_rest(state: State) -> bool:
    under_way = state.page is not None or state.ended is not None or state.notes
    return not under_way and all(began is None for began in state.open)


def _at(values: tuple[Any, ...], index: int, value: object) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _keys(rows: tuple[Due, ...]) -> str:
    return ", ".join(due.key for due in rows) or "nothing"
