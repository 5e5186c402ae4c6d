"""What a chunk of time is on a wall clock: slots that follow each other, numbered. Pure.

Wall time is counted in microseconds since 1970-01-01 00:00 on the same wall. How the slots of a wall
become chunks of real time, where clocks are changed, is told in `grid`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

from mainspring.errors import InvalidChunk
from mainspring.phrases import nearest
from mainspring.reactive.model.zones import DAY, SECOND

HOUR: Final = 3_600 * SECOND
NAMES: Final = ("30 minutes", "hour", "day", "week", "month", "quarter", "year")
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_ORDINAL_1970: Final = date(1970, 1, 1).toordinal()
_MONDAY: Final = 3  # 1970-01-01 was a Thursday: its week began three days earlier
_LONGEST: Final = 3_660 * DAY
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_SHORT: Final = {
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_TEXT = re.compile(r"(\d*) ?([a-z]+)\Z")


@dataclass(frozen=True, slots=True)
class Unit:
    """One kind of slot. `length`: microseconds, where all slots have the same; else 0."""

    name: str
    length: int = 0
    months: int = 0
    on_wall: bool = True  # False: counted from 1970 UTC, whatever the zone

    def slot(self, wall: int) -> int:
        """The number of the slot in which a wall time lies."""
        if self.length:
            return wall // self.length
        days = wall // DAY
        if not self.months:
            return (days + _MONDAY) // 7
        day = date.fromordinal(days + _ORDINAL_1970)
        return (day.year * 12 + day.month - 1) // self.months

    def start(self, slot: int) -> int:
        """The wall time at which a slot begins."""
        if self.length:
            return slot * self.length
        if not self.months:
            return (slot * 7 - _MONDAY) * DAY
        year, month = divmod(slot * self.months, 12)
        return (date(year, month + 1, 1).toordinal() - _ORDINAL_1970) * DAY

    @property
    def typical(self) -> int:
        """About how long a slot is, in microseconds."""
        return self.length or (30 * DAY * self.months if self.months else 7 * DAY)


@cache
def unit_of(length: str | timedelta) -> Unit:
    """The unit that a user means: a name, a number with a name, or a timedelta."""
    if isinstance(length, timedelta):
        return _fixed(length // timedelta(microseconds=1), length)
    if not isinstance(length, str):
        raise _unknown(length)
    text = length.strip().lower()
    if text == "week":
        return Unit("week")
    if text in _MONTHS:
        return Unit(text, months=_MONTHS[text])
    if (found := _TEXT.match(text)) is None:
        raise _unknown(length)
    number, word = found.groups()
    word = _SHORT.get(word, word.removesuffix("s"))
    if word not in _SECONDS:
        raise _unknown(length)
    return _fixed(int(number or 1) * _SECONDS[word] * SECOND, length)


def _fixed(length: int, given: object) -> Unit:
    if length < SECOND or length % SECOND or length > _LONGEST:
        raise InvalidChunk(
            f"a chunk of fixed length is a whole number of seconds, up to {_LONGEST // DAY} days; "
            f"got {given!r}"
        )
    divides = HOUR % length == 0 or (length % HOUR == 0 and DAY % length == 0)
    return Unit(_name(length), length=length, on_wall=divides)


def _name(length: int) -> str:
    for word in ("day", "hour", "minute"):
        count, rest = divmod(length, _SECONDS[word] * SECOND)
        if not rest:
            return word if count == 1 and word != "minute" else f"{count} {word}{'s'[: count > 1]}"
    count = length // SECOND
    return f"{count} second{'s'[: count > 1]}"


def _unknown(length: object) -> InvalidChunk:
    near = nearest(length, NAMES) if isinstance(length, str) else ""
    return InvalidChunk(
        f"no chunk is called {length!r}{near or ';'} take one of {', '.join(map(repr, NAMES))}, or a fixed "
        "length such as '15 minutes', '6 hours' or a timedelta"
    )
