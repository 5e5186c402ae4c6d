"""Clocks of time zones, as spans of one offset each. Pure; moments are microseconds since 1970 UTC.

`zoneinfo` answers the offset of a moment but not when it changes; chunks need both. The changes are
found by asking once for every week, and looking closer where two weeks differ: since 1968 no offset
of any zone lasted less than 16 days. That is done in blocks of years, when first needed, and kept.
From 2200 on the last offset is taken to stay.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from mainspring.errors import InvalidChunk
from mainspring.phrases import nearest

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
# A year chunk of 1970 may begin in 1969, by a clock that was changed in 1968.
_FIRST: Final = -2 * 366 * 86_400
_BLOCK: Final = 3_653 * 86_400  # ten years, in seconds
_STEP: Final = 7 * 86_400
_LAST: Final = 7_258_118_400  # 2200-01-01


@dataclass(frozen=True, slots=True)
class Span:
    """The time from one change of a clock to the next. Local time is the moment plus the offset."""

    begin: int
    offset: int


class ZoneClock:
    """The spans of one zone, known up to a moment that grows with the questions asked."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._info = None if zone == "UTC" else load_zone(zone)
        self._gate = threading.Lock()
        self._known = _FIRST  # seconds; spans before this are complete
        first = Span(_FIRST * SECOND, self._offset(_FIRST))
        # Replaced together under the gate, read without it: readers see an old pair or a new one.
        self._spans: tuple[tuple[Span, ...], list[int]] = ((first,), [first.begin])

    def spans(self, until: int) -> tuple[Span, ...]:
        """All spans that begin at or before a moment; perhaps later ones too."""
        self._reach(until)
        return self._spans[0]

    def place(self, moment: int) -> int:
        """The number of the span in which a moment lies; the first reaches back without end."""
        self._reach(moment)
        return max(bisect_right(self._spans[1], moment) - 1, 0)

    def _reach(self, moment: int) -> None:
        if self._info is None or moment < self._known * SECOND:
            return
        with self._gate:
            while self._known * SECOND <= moment and self._known < _LAST:
                self._extend(self._known + _BLOCK)

    def _extend(self, end: int) -> None:
        spans = list(self._spans[0])
        at, offset = self._known, spans[-1].offset
        while at < end:
            after = at + _STEP
            if (new := self._offset(after)) != offset:
                change = self._find(at, after, offset)
                new = self._offset(change)
                spans.append(Span(change * SECOND, new))
                after = change
            at, offset = after, new
        self._spans = (tuple(spans), [span.begin for span in spans])
        self._known = at  # last: a reader that sees it sees the spans

    def _find(self, low: int, high: int, offset: int) -> int:
        """The first second after `low` whose offset is another."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, second: int) -> int:
        if self._info is None:
            return 0
        offset = datetime.fromtimestamp(second, self._info).utcoffset()
        return (offset or timedelta()) // timedelta(microseconds=1)


@cache
def clock_of(zone: str) -> ZoneClock:
    """The one clock of a zone in this process."""
    return ZoneClock(zone)


@cache
def load_zone(zone: str) -> ZoneInfo:
    """The zone of that name; an error that names the nearest otherwise."""
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        near = nearest(zone, available_timezones()) if isinstance(zone, str) else ""
        raise InvalidChunk(
            f"no time zone is named {zone!r}{near or ';'} names are those of the IANA database, such as "
            "'Europe/Berlin'"
        ) from None


def local(moment: datetime, zone: str) -> datetime:
    """A moment on a zone's clock, for showing it."""
    return moment.astimezone(UTC if zone == "UTC" else load_zone(zone))
