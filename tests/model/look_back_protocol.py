"""The look back: how a busy reader, whom nobody notifies, finds what committed behind its cursor.

A visit is due when its transaction began and appears when that commits. A read goes on from the last
visit that it brought, so one that commits later and is older lies behind the cursor. The reader
therefore looks back once a tick: it reads again from a span before now on. A transaction of at most
a tick is found so; longer ones are for notifications and the sweep (cursor_protocol). A page holds
one row. The intake is the engine's own: it looks between its reads, never during one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from driven_intake import QUEUE, Driven, Memory, TwoLevels, visit

from mainspring.kernel.read.orders import Read, Reading
from mainspring.kernel.visit import END, Position

SPAN = 2  # ticks: the longest transaction that is to be found, and the time between two looks
LONGEST = 1  # ticks that a transaction lasts at most


class Page(NamedTuple):
    """A read under way; `rows` is None until the server has taken its snapshot."""

    after: Position
    sent: int
    rows: tuple[Position, ...] | None = None


class State(NamedTuple):
    memory: Memory  # of the intake
    clock: int = 1
    open: tuple[tuple[str, int], ...] = ()  # transactions under way: key, begin
    committed: frozenset[Position] = frozenset()
    hand: frozenset[Position] = frozenset()
    page: Page | None = None
    looked_at: frozenset[Position] | None = None  # ghost: what was there at this tick's look
    missed: str = ""  # ghost


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the look back; off, each passes a visit over."""

    looks_back: bool = True  # off: a read goes on from the last visit, and that is all
    reaches_the_span: bool = True  # off: a look goes back only as far as a transaction lasts
    asks_for_a_read: bool = True  # off: the cursor steps back, but nobody reads


@dataclass(frozen=True, slots=True)
class Bounds:
    clock: int = 4
    keys: str = "ab"


def intake_by(rules: Rules) -> type[TwoLevels]:
    """The engine's intake, without the rules that are off."""

    class Ruled(TwoLevels):
        def look_back(self, now: float) -> None:
            if not rules.looks_back:
                return
            wanted = [cursor.more for cursor in self.cursors]
            super().look_back(now if rules.reaches_the_span else now + SPAN - LONGEST)
            for cursor, more in zip(self.cursors, wanted, strict=True):
                cursor.more = cursor.more if rules.asks_for_a_read else more

    return Ruled


class LookBackProtocol:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.bounds = bounds
        self.driven = Driven(intake_by(rules), overlap=SPAN)

    def start(self) -> State:
        return State(self.driven.memory())

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self.transact(state)
        yield from self.read(state)

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
                    committed=state.committed | {(float(began), key)},
                ),
            )

    def read(self, state: State) -> Iterator[tuple[str, State]]:
        page = state.page
        if page is None:
            looked = state.committed if state.looked_at is None else state.looked_at
            order, memory = self.driven.due(state.memory, state.clock, busy=True)
            asked = state._replace(memory=memory, looked_at=looked)
            if isinstance(order, Read):
                after = order.levels[0].after
                yield (
                    f"a read is sent at {state.clock}",
                    asked._replace(page=Page(after, state.clock)),
                )
            else:
                yield from self.tick(asked)
        elif page.rows is None:
            rows = tuple(sorted(row for row in state.committed if page.after < row)[:1])
            yield (
                f"  server: the read finds {_keys(rows)}",
                state._replace(page=page._replace(rows=rows)),
            )
        else:
            intake = self.driven.recall(state.memory)
            level = Reading(intake.cursors[0], page.after, END, 1)
            visits = [visit(0, int(at), key) for at, key in page.rows]
            intake.answered(Read([level], page.sent, page.sent), {(QUEUE, 0): visits}, page.sent)
            yield (
                f"the read returns {_keys(page.rows)}",
                state._replace(
                    page=None, hand=state.hand | set(page.rows), memory=self.driven.memory()
                ),
            )

    def tick(self, state: State) -> Iterator[tuple[str, State]]:
        """Time goes on when the look of this tick was read to its end."""
        on_time = all(state.clock - began < LONGEST for _, began in state.open)
        if state.clock >= self.bounds.clock or not on_time:
            return
        passed = sorted((state.looked_at or frozenset()) - state.hand)
        missed = f"{passed[0][1]}, due at {passed[0][0]:g}, was passed over" if passed else ""
        yield (
            f"the clock shows {state.clock + 1}",
            state._replace(clock=state.clock + 1, looked_at=None, missed=missed),
        )

    def nothing_is_passed_over(self, state: State) -> str | None:
        """What was there when the reader looked back is in hand before the next look."""
        return state.missed or None


def _keys(rows: tuple[Position, ...]) -> str:
    return ", ".join(key for _, key in rows) or "nothing"
