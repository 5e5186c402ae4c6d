"""The chunks of one unit in one zone: when they start, and how many lie between two moments. Pure.

The starts are a set of moments, and everything is told from that set alone: the floor of a moment is
the last start not after it, the number of chunks between two moments is the number of starts passed.
So a floor never lies after its moment and never falls as moments rise, whatever the clock does.

Which moments are starts: wherever the wall clock shows the start of a slot. Slots that begin in a gap
(the clock is put forward over them) begin together at its end. Slots that begin twice (the clock is
put back over them) count twice if the repeated time is a whole number of them, else the first time
only: midnight at Havana counts once, the doubled half hours of Berlin count.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from mainspring.errors import InvalidChunk
from mainspring.reactive.model.units import Unit
from mainspring.reactive.model.values import END, micros, moment_of
from mainspring.reactive.model.zones import DAY, Span, ZoneClock, clock_of

_LOWEST: Final = -(10**18)  # below every slot
# How far ahead a zone's changes are looked at when a chunk is declared: 2050-01-01.
_LOOK_UNTIL: Final = 2_524_608_000_000_000
_LAST: Final = micros(END)


@dataclass(frozen=True, slots=True)
class Stretch:
    """How the slots of a span are numbered: a chunk's index is max(slot, floor) + add."""

    begin: int
    offset: int
    add: int  # starts counted so far beyond (or short of) the wall's slot numbers
    floor: int  # the highest slot begun before the clock was put back; later ones count anew


class Grid:
    """The chunks of a unit on a clock. Thread-safe; what is learnt of the clock is kept."""

    def __init__(self, unit: Unit, clock: ZoneClock) -> None:
        self.unit = unit
        self.clock = clock
        self._gate = threading.Lock()
        first = clock.spans(_LOWEST)[0]
        # Grows only at its end; a reader that sees an older tuple sees a true beginning of it.
        self._stretches: tuple[Stretch, ...] = (Stretch(_LOWEST, first.offset, 0, _LOWEST),)

    def index(self, moment: int) -> int:
        """The number of the chunk in which a moment lies. Differences count starts passed."""
        return self._index(self._stretch(moment)[1], moment)

    def _index(self, stretch: Stretch, moment: int) -> int:
        return max(self.unit.slot(moment + stretch.offset), stretch.floor) + stretch.add

    def floor(self, moment: int) -> int:
        """The last start that is not after a moment."""
        while True:
            _, stretch = self._stretch(moment)
            slot = self.unit.slot(moment + stretch.offset)
            if slot > stretch.floor:
                start = self.unit.start(slot) - stretch.offset
                if start >= stretch.begin:
                    return start
                if self._is_start(stretch.begin):
                    return stretch.begin
            moment = stretch.begin - 1

    def after(self, moment: int) -> int:
        """The first start that is after a moment: the end of its chunk."""
        while True:
            number, stretch = self._stretch(moment)
            slot = max(self.unit.slot(moment + stretch.offset), stretch.floor)
            start = self.unit.start(slot + 1) - stretch.offset
            following = self._following(number, start)
            if following is None or start < following.begin:
                return start
            if self._is_start(following.begin):
                return following.begin
            moment = following.begin

    def start_of(self, index: int, *, near: int) -> int | None:
        """The start of the chunk of that number; nothing where that lies outside the calendar."""
        step = self.unit.typical
        low, high = near - step, near
        while self.index(low) >= index:
            low, step = low - step, step * 2
            if low < -_LAST:
                return None
        while self.index(high) < index:
            high, step = high + step, step * 2
            if high > _LAST + 2 * self.unit.typical:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.index(middle) >= index:
                high = middle
            else:
                low = middle
        return high

    def _is_start(self, moment: int) -> bool:
        return self.index(moment) > self.index(moment - 1)

    def _stretch(self, moment: int) -> tuple[int, Stretch]:
        number = self.clock.place(moment)
        if number >= len(self._stretches):
            self._learn()
        return number, self._stretches[number]

    def _following(self, number: int, moment: int) -> Stretch | None:
        """The stretch after that one, if it begins at or before a moment."""
        if number + 1 >= len(self.clock.spans(moment)):
            return None
        return self._stretch(self.clock.spans(moment)[number + 1].begin)[1]

    def _learn(self) -> None:
        with self._gate:
            stretches = list(self._stretches)
            for span in self.clock.spans(_LOWEST)[len(stretches) :]:
                stretches.append(self._continue(stretches[-1], span))
            self._stretches = tuple(stretches)

    def _continue(self, last: Stretch, span: Span) -> Stretch:
        """How the count goes on where the clock is changed."""
        slot = max(self.unit.slot(span.begin - 1 + last.offset), last.floor)
        shift = span.offset - last.offset
        if shift > 0:  # put forward: slots that begin in the gap begin together now
            now = self.unit.slot(span.begin + span.offset)
            starts = 1 if now > slot else 0
            return Stretch(span.begin, span.offset, slot + last.add + starts - now, _LOWEST)
        if self.unit.length and -shift % self.unit.length == 0:
            return Stretch(span.begin, span.offset, last.add - shift // self.unit.length, _LOWEST)
        return Stretch(span.begin, span.offset, last.add, slot)


@cache
def grid_of(unit: Unit, zone: str) -> Grid:
    """The one grid of a unit and a zone in this process; refuses a pair that does not go together."""
    grid = Grid(unit, clock_of(zone if unit.on_wall else "UTC"))
    if unit.on_wall and unit.length and unit.length < DAY:
        _check_folds(grid, zone)
    return grid


def _check_folds(grid: Grid, zone: str) -> None:
    """Refuse short chunks that a repeated span of the wall clock cuts: by that wall, floors go back."""
    length = grid.unit.length
    spans = grid.clock.spans(_LOOK_UNTIL)
    for last, span in pairwise(spans):
        back = last.offset - span.offset
        if span.begin >= 0 and length < back and back % length:
            raise InvalidChunk(
                f"chunks of {grid.unit.name} do not go with zone {zone!r}: its clock was put back by "
                f"{back // 60_000_000} minutes at {moment_of(span.begin).isoformat()}, which is no whole "
                f"number of them; take a length that divides {back // 60_000_000} minutes, or whole "
                "hours, or zone 'UTC'"
            )
