"""The reader's cursor: what it has passed, and whether a visit can hide behind it.

User transactions offer visits that are due when the transaction began, and commit later, so rows
appear behind a cursor that has moved on. A notification, or a settle's answer, moves the cursor
back; a read that was sent before must not move it forward again. A run that settles its visit with
a new time makes it due when the settle comes to the server; the answer comes later. A page holds
one row. Keys a and b are of the lower priority, c is of the higher.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

KEYS = "abc"
LEVELS = (0, 1)
PAGE_ROWS = 1
START = (0, "")  # before every row
NEVER = (99, "")  # after every row

Position = tuple[int, str]  # due time, key


class Due(NamedTuple):
    """A committed visit."""

    level: int
    at: int
    key: str

    def position(self) -> Position:
        return (self.at, self.key)


class Page(NamedTuple):
    """A read under way; `rows` is None until the server has taken its snapshot."""

    level: int
    start: Position
    rows: tuple[Due, ...] | None = None
    now: int = 0


class Ended(NamedTuple):
    """A run that has ended and whose visit goes on; `moved` is None until the server has settled it."""

    due: Due
    at: int
    moved: Due | None = None


class State(NamedTuple):
    clock: int = 1
    open: tuple[int | None, ...] = (None,) * len(KEYS)  # begin time of each open transaction
    committed: frozenset[Due] = frozenset()
    hand: frozenset[Due] = frozenset()
    cursors: tuple[Position, ...] = (START,) * len(LEVELS)
    rewinds: tuple[Position, ...] = (NEVER,) * len(LEVELS)  # earliest since the read was sent
    page: Page | None = None
    notes: frozenset[Due] = frozenset()  # notifications on their way
    lost: int = 0
    returned: int = 0
    ended: Ended | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the cursor; off, each hides a visit."""

    keyset_cursor: bool = True  # off: the due time alone, with ">"
    cursor_per_level: bool = True  # off: one cursor for all priorities
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


@dataclass(frozen=True, slots=True)
class CursorProtocol:
    rules: Rules
    bounds: Bounds

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
            for level in LEVELS if self.rules.cursor_per_level else LEVELS[:1]:
                sent = Page(level, state.cursors[level])
                yield (
                    f"a read of level {level} is sent from {sent.start}",
                    state._replace(page=sent, rewinds=(NEVER,) * len(LEVELS)),
                )
        elif page.rows is None:
            rows = self._page_after(state, page.level, page.start)
            yield (
                f"  server: the read finds {_keys(rows)} at {state.clock}",
                state._replace(page=page._replace(rows=rows, now=state.clock)),
            )
        else:
            full = len(page.rows) == PAGE_ROWS
            cursor = page.rows[-1].position() if full else (page.now - 1, "")
            if self.rules.merge_rewinds:
                cursor = min(cursor, state.rewinds[page.level])
            yield (
                f"the read returns {_keys(page.rows)}, the cursor becomes {cursor}",
                state._replace(
                    page=None,
                    hand=state.hand | self._fresh(state, page.rows),
                    cursors=_at(state.cursors, page.level, cursor),
                ),
            )

    def hear(self, state: State) -> Iterator[tuple[str, State]]:
        for due in sorted(state.notes):
            heard = state._replace(notes=state.notes - {due})
            if state.lost < self.bounds.lost_notes:
                yield f"the notification of {due.key} is lost", heard._replace(lost=state.lost + 1)
            if self.rules.notifications_rewind:
                heard = self._rewind(heard, due)
            yield f"the notification of {due.key} rewinds to {due.at}", heard

    def settle(self, state: State) -> Iterator[tuple[str, State]]:
        for due in sorted(state.hand):
            if due not in state.committed or state.returned >= self.bounds.returns:
                continue
            back = state._replace(returned=state.returned + 1)
            kept = back._replace(hand=state.hand - {due})
            if self.rules.settle_answers_rewind:
                kept = self._rewind(kept, due)
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
        answered = state._replace(ended=None, hand=state.hand - {ended.due})
        at = ended.at if self.rules.settle_rewinds_to_the_end else state.clock
        if self.rules.settle_answers_rewind:
            answered = self._rewind(answered, ended.due._replace(at=at))
        yield f"the settle of {ended.due.key} is answered, the cursor goes back to {at}", answered

    def _fresh(self, state: State, rows: tuple[Due, ...]) -> set[Due]:
        """What is taken in of a page: no key that is in hand, as that of a settle not yet answered."""
        return {due for due in rows if state.ended is None or due.key != state.ended.due.key}

    def nothing_hides(self, state: State) -> str | None:
        """At rest, with every notification heard, a cursor read finds each visit not in hand."""
        if not _at_rest(state) or state.lost:
            return None
        for due in sorted(state.committed - state.hand):
            if not self._is_after(due, self._cursor_of(state, due)):
                return f"{due.key}, due at {due.at}, lies behind {self._cursor_of(state, due)}"
        return None

    def a_sweep_finds_the_rest(self, state: State) -> str | None:
        """At rest, whatever was lost, a cursor read or the next sweep finds each visit."""
        if not _at_rest(state):
            return None
        found = {due for level in LEVELS for due in self._sweep(state, level)}
        for due in sorted(state.committed - state.hand - found):
            if not self._is_after(due, self._cursor_of(state, due)):
                return f"{due.key}, due at {due.at}, is found by no sweep"
        return None

    def _sweep(self, state: State, level: int) -> set[Due]:
        found: set[Due] = set()
        page = self._page_after(state, level, START)
        while page:
            found |= set(page)
            if not self.rules.sweep_pages_past_hand:
                break
            page = self._page_after(state, level, page[-1].position())
        return found

    def _page_after(self, state: State, level: int, start: Position) -> tuple[Due, ...]:
        rows = [
            due
            for due in state.committed
            if due.at <= state.clock
            and self._is_after(due, start)
            and (due.level == level or not self.rules.cursor_per_level)
        ]
        rows.sort(key=lambda due: (-due.level, due.at, due.key))
        return tuple(rows[:PAGE_ROWS])

    def _is_after(self, due: Due, start: Position) -> bool:
        return due.position() > start if self.rules.keyset_cursor else due.at > start[0]

    def _cursor_of(self, state: State, due: Due) -> Position:
        return state.cursors[due.level if self.rules.cursor_per_level else 0]

    def _rewind(self, state: State, due: Due) -> State:
        level = due.level if self.rules.cursor_per_level else 0
        back = (due.at, "") if self.rules.keyset_cursor else (due.at - 1, "")
        return state._replace(
            cursors=_at(state.cursors, level, min(state.cursors[level], back)),
            rewinds=_at(state.rewinds, level, min(state.rewinds[level], back)),
        )


def _at_rest(state: State) -> bool:
    under_way = state.page is not None or state.ended is not None or state.notes
    return not under_way and all(began is None for began in state.open)


def _at(values: tuple[Any, ...], index: int, value: object) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _keys(rows: tuple[Due, ...]) -> str:
    return ", ".join(due.key for due in rows) or "nothing"
