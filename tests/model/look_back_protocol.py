"""The look back: how a busy reader, whom nobody notifies, finds what committed behind its cursor.

A visit is due when its transaction began and appears when that commits. A read goes on from the last
visit that it brought, so one that commits later and is older lies behind the cursor. The reader
therefore looks back once a tick: it reads again from a span before now on. A transaction of at most
a tick is found so; longer ones are for notifications and the sweep (cursor_protocol). A page holds
one row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

SPAN = 2  # ticks: the longest transaction that is to be found, and the time between two looks
LONGEST = 1  # ticks that a transaction lasts at most
START = (0, "")
NEVER = (99, "")

Position = tuple[int, str]  # due time, key


class Page(NamedTuple):
    """A read under way; `rows` is None until the server has taken its snapshot."""

    start: Position
    now: int  # when it was sent
    rows: tuple[Position, ...] | None = None


class State(NamedTuple):
    clock: int = 1
    open: tuple[tuple[str, int], ...] = ()  # transactions under way: key, begin
    committed: frozenset[Position] = frozenset()
    hand: frozenset[Position] = frozenset()
    cursor: Position = START
    more: bool = True  # there may be something to read after the cursor
    back: Position = NEVER  # the earliest step back since the read was sent
    page: Page | None = None
    looked_at: frozenset[Position] | None = None  # ghost: what was there at this tick's look
    missed: str = ""  # ghost


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the look back; off, each passes a visit over."""

    looks_back: bool = True  # off: a read goes on from the last visit, and that is all
    reaches_the_span: bool = True  # off: a look goes back only as far as a transaction lasts
    asks_for_a_read: bool = True  # off: the cursor steps back, but nobody reads
    merges_with_a_read: bool = True  # off: a read in flight moves the cursor on again


@dataclass(frozen=True, slots=True)
class Bounds:
    clock: int = 4
    keys: str = "ab"


@dataclass(frozen=True, slots=True)
class LookBackProtocol:
    rules: Rules
    bounds: Bounds

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self.tick(state)
        yield from self.transact(state)
        yield from self.look(state)
        yield from self.read(state)

    def tick(self, state: State) -> Iterator[tuple[str, State]]:
        """Time goes on when the look of this tick was read to its end."""
        at_rest = state.page is None and not state.more and state.looked_at is not None
        on_time = all(state.clock - began < LONGEST for _, began in state.open)
        if state.clock >= self.bounds.clock or not at_rest or not on_time:
            return
        passed = sorted((state.looked_at or frozenset()) - state.hand)
        missed = f"{passed[0][1]}, due at {passed[0][0]}, was passed over" if passed else ""
        yield (
            f"the clock shows {state.clock + 1}",
            state._replace(clock=state.clock + 1, looked_at=None, missed=missed),
        )

    def transact(self, state: State) -> Iterator[tuple[str, State]]:
        known = {key for key, _ in state.open} | {key for _, key in state.committed}
        for key in self.bounds.keys:
            if key not in known:
                opened = tuple(sorted((*state.open, (key, state.clock))))
                yield f"{key} is offered at {state.clock}", state._replace(open=opened)
        for key, began in state.open:
            yield (
                f"{key} commits at {state.clock}, due at {began}",
                state._replace(
                    open=tuple(one for one in state.open if one[0] != key),
                    committed=state.committed | {(began, key)},
                ),
            )

    def look(self, state: State) -> Iterator[tuple[str, State]]:
        if state.looked_at is not None:
            return
        looked = state._replace(looked_at=state.committed)
        if self.rules.looks_back:
            span = SPAN if self.rules.reaches_the_span else LONGEST
            back = (state.clock - span, "")
            looked = looked._replace(
                cursor=min(state.cursor, back),
                more=state.more or self.rules.asks_for_a_read,
                back=min(state.back, back),
            )
        yield f"the reader looks back at {state.clock}", looked

    def read(self, state: State) -> Iterator[tuple[str, State]]:
        page = state.page
        if page is None:
            if state.more:
                sent = Page(state.cursor, state.clock)
                yield (
                    f"a read is sent from {state.cursor}",
                    state._replace(page=sent, more=False, back=NEVER),
                )
        elif page.rows is None:
            due = sorted(row for row in state.committed if page.start < row)
            rows = tuple(due[:1])
            yield (
                f"  server: the read finds {_keys(rows)}",
                state._replace(page=page._replace(rows=rows)),
            )
        else:
            close = max(state.cursor, (page.now - SPAN, ""))
            reached = page.rows[-1] if page.rows else close
            back = state.back if self.rules.merges_with_a_read else NEVER
            yield (
                f"the read returns {_keys(page.rows)}, the cursor becomes {min(reached, back)}",
                state._replace(
                    page=None,
                    hand=state.hand | set(page.rows),
                    cursor=min(reached, back),
                    more=bool(page.rows) or back < NEVER,
                    back=NEVER,
                ),
            )

    def nothing_is_passed_over(self, state: State) -> str | None:
        """What was there when the reader looked back is in hand before the next look."""
        return state.missed or None


def _keys(rows: tuple[Position, ...]) -> str:
    return ", ".join(key for _, key in rows) or "nothing"
