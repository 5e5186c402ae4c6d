"""Chunks of time: half hours, hours, days, weeks, months, quarters, years, any fixed length; in a zone.

    DAY = Chunk("day", "Europe/Berlin")
    DAY.floor(moment), DAY.count(earlier, later)

Starts are the wall-clock multiples of the length since local midnight, for lengths that divide an hour
and whole hours that divide a day; weeks begin on Monday; other fixed lengths count from 1970 UTC.
A day has 46, 48 or 50 half hours, as the zone's clock has it (R4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.errors import InvalidChunk
from mainspring.reactive.model.grid import Grid, grid_of
from mainspring.reactive.model.units import unit_of
from mainspring.reactive.model.values import micros, moment_of
from mainspring.reactive.model.zones import load_zone, local


@dataclass(frozen=True, slots=True)
class Chunk:
    """A way to cut time into chunks. `length` is kept by its plain name: '30 minutes', 'day'."""

    length: str
    zone: str
    _grid: Grid = field(repr=False, compare=False)

    def __init__(self, length: str | timedelta = "day", zone: str = "UTC") -> None:
        unit = unit_of(length)
        if zone != "UTC":
            load_zone(zone)
        object.__setattr__(self, "length", unit.name)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "_grid", grid_of(unit, zone))

    def __reduce__(self) -> tuple[type[Chunk], tuple[str, str]]:
        return Chunk, (self.length, self.zone)

    def __str__(self) -> str:
        return self.length if self.zone == "UTC" else f"{self.length} in {self.zone}"

    def floor(self, moment: datetime) -> datetime:
        """The start of the chunk in which a moment lies."""
        return moment_of(self._grid.floor(micros(moment)))

    def end(self, moment: datetime) -> datetime:
        """The end of that chunk, which is the start of the next one."""
        return moment_of(self._grid.after(micros(moment)))

    def index(self, moment: datetime) -> int:
        """A number of that chunk; only differences have a meaning."""
        return self._grid.index(micros(moment))

    def count(self, earlier: datetime, later: datetime) -> int:
        """How many starts lie after the one and not after the other; negative if they go back."""
        return self.index(later) - self.index(earlier)

    def shift(self, moment: datetime, chunks: int) -> datetime | None:
        """The start of the chunk so many later (or earlier); nothing beyond the calendar."""
        near = micros(moment)
        start = self._grid.start_of(self._grid.index(near) + chunks, near=near)
        return None if start is None else moment_of(start)

    def starts(self, after: datetime, until: datetime) -> list[datetime]:
        """The starts of all chunks later than that of `after`, up to that of `until`, oldest first."""
        found = []
        start = self._grid.after(micros(after))
        last = micros(until)
        while start <= last:
            found.append(moment_of(start))
            start = self._grid.after(start)
        return found

    def show(self, moment: datetime) -> str:
        """The chunk of a moment in few letters, on the zone's clock: '2026-03-10', '2026-03'."""
        start = local(self.floor(moment), self.zone)
        match self.length:
            case "year":
                return f"{start:%Y}"
            case "quarter":
                return f"{start:%Y}-Q{(start.month + 2) // 3}"
            case "month":
                return f"{start:%Y-%m}"
            case "week":
                return f"{start:%G-W%V}"
            case "day":
                return f"{start:%Y-%m-%d}"
        return f"{start:%Y-%m-%d %H:%M}{start:%z}"


def check_chunk(given: object) -> Chunk:
    """A chunk, or the name or length of one in UTC."""
    if isinstance(given, Chunk):
        return given
    if isinstance(given, str | timedelta):
        return Chunk(given)
    raise InvalidChunk(f"a chunk is a Chunk, or a name such as 'day'; got {given!r}")
