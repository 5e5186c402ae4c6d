"""Chunk starts by brute force: the wall clock of `zoneinfo`, asked for every minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MIDNIGHT = datetime(1970, 1, 1)


@cache
def walls(zone: str, begin: datetime, minutes: int) -> list[tuple[datetime, datetime]]:
    """Every minute from `begin` on: the moment, and what the clock on the wall shows."""
    info = ZoneInfo(zone)
    moments = [begin + i * MINUTE for i in range(minutes)]
    return [(moment, moment.astimezone(info).replace(tzinfo=None, fold=0)) for moment in moments]


def starts_of_length(zone: str, length: timedelta, begin: datetime, minutes: int) -> list[datetime]:
    """The starts of wall-clock slots of a length, by the letter of the rule."""
    seen = walls(zone, begin, minutes)
    at: dict[datetime, list[datetime]] = {}
    for moment, wall in seen:
        at.setdefault(wall, []).append(moment)
    found: set[datetime] = set()
    slot = seen[0][1] - (seen[0][1] - MIDNIGHT) % length
    last = max(wall for _, wall in seen)
    while slot <= last:
        if moments := at.get(slot):
            twice = len(moments) == 2 and (moments[1] - moments[0]) % length == timedelta()
            found.update(moments if twice else moments[:1])
        elif slot > seen[0][1]:  # in a gap: its end
            found.add(next(moment for moment, wall in seen if wall > slot))
        slot += length
    return sorted(found)


def starts_of_dates(zone: str, dates: list[date], begin: datetime, minutes: int) -> list[datetime]:
    """The moments at which the clock on the wall first reaches these dates."""
    found = []
    for day in dates:
        reached = (moment for moment, wall in walls(zone, begin, minutes) if wall.date() >= day)
        if (moment := next(reached, None)) is not None and moment > begin:
            found.append(moment)
    return sorted(set(found))


def changes(zone: str, year: int) -> list[datetime]:
    """When the clock of a zone is changed in a year, to the minute, found day by day."""
    info = ZoneInfo(zone)
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=i) for i in range(367)]
    found = []
    for one, next_day in pairwise(days):
        if one.astimezone(info).utcoffset() != next_day.astimezone(info).utcoffset():
            moment = one
            while moment.astimezone(info).utcoffset() == one.astimezone(info).utcoffset():
                moment += MINUTE
            found.append(moment)
    return found
