"""Cron lines: when they come, in the time zone they name. Pure, no I/O.

A line has five fields, or six with seconds first. What a change of the clocks does to it:

- Its hour field begins with `*`: it ticks whenever the clock on the wall shows a time of the line. The
  hour that is skipped has no ticks, the hour that comes twice has them twice.
- Any other line: each local time ticks once a day. One that is skipped ticks at the moment the clock
  moves on (several of them: one tick), one that comes twice ticks the first time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from mainspring.errors import InvalidSetting
from mainspring.phrases import nearest

FIELDS = "[second] minute hour day-of-month month day-of-week, such as '30 4 * * MON-FRI'"
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_NONE = timedelta()


def check_schedule(cron: str, zone: str) -> None:
    """Refuse a cron line or a zone that cannot be, or a line that never comes."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        near = nearest(zone, available_timezones()) if isinstance(zone, str) else ""
        raise InvalidSetting(
            f"no time zone is named {zone!r}{near}; names are those of the IANA database, "
            "such as 'Europe/Berlin'"
        ) from None
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except StopIteration:
        raise InvalidSetting(f"cron line {cron!r} never comes: no such day exists") from None
    except (CronSimError, AttributeError, TypeError) as error:
        reason = str(error).lower()
        never = "day-of-month" in reason and isinstance(cron, str) and _has_such_day(cron)
        shown = "never comes: no such day exists in its months" if never else f"has a {reason}"
        raise InvalidSetting(f"cron line {cron!r} {shown}; write {FIELDS}") from None


def _has_such_day(cron: str) -> bool:
    """Whether the day of month alone is fine: then it is its month that has no such day."""
    fields = cron.split()
    fields[-2] = "*"
    try:
        CronSim(" ".join(fields), datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


def ticks(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The moments of a line after a moment, in order."""
    if zone == "UTC":
        for tick in CronSim(cron, after.astimezone(UTC).replace(tzinfo=None)):
            yield tick.replace(tzinfo=UTC)
    elif cron.split()[-4].startswith("*"):
        yield from _shown(cron, ZoneInfo(zone), after)
    else:
        yield from _once_each(cron, ZoneInfo(zone), after)


def next_tick(cron: str, zone: str, after: datetime) -> datetime:
    """The first tick after a moment."""
    for tick in ticks(cron, zone, after):
        return tick
    raise InvalidSetting(f"cron line {cron!r} never comes again")


def last_tick(cron: str, zone: str, *, since: datetime, until: datetime) -> datetime | None:
    """The latest tick after `since` and not after `until`, if there is one."""
    first, second = islice(ticks(cron, zone, since), 2)
    if second > until:
        return first if first <= until else None
    before, back = since, _SECOND
    while until - back > since and before == since:
        if next_tick(cron, zone, until - back) <= until:
            before = until - back
        back *= 2
    # A tick comes after `before`, and none after `none_after`.
    none_after = until
    while none_after - before > _SECOND:
        half = before + (none_after - before) / 2
        if next_tick(cron, zone, half) <= until:
            before = half
        else:
            none_after = half
    return max(takewhile(lambda tick: tick <= until, ticks(cron, zone, before)))


def last_ticks(
    cron: str, zone: str, *, since: datetime, until: datetime, most: int
) -> list[datetime]:
    """The latest ticks after `since` and not after `until`, so many at most, the oldest first."""
    back = _SECOND
    while True:
        begin = max(since, until - back)
        found = takewhile(lambda tick: tick <= until, ticks(cron, zone, begin))
        latest = deque(found, maxlen=most)
        if len(latest) == most or begin == since:
            return list(latest)
        back *= 4


def _shown(cron: str, place: tzinfo, after: datetime) -> Iterator[datetime]:
    """Every moment at which the clock on the wall shows a time of the line."""
    offset = _offset(place, after)
    wall = _wall(after, offset)
    while True:
        for tick in CronSim(cron, wall):
            moment = tick.replace(tzinfo=UTC) - offset
            turn = _turn(place, after, moment, offset)
            if turn is not None:
                break  # the clock is changed before that: look again, from there on
            yield moment
            after = moment
        else:
            return
        after, offset = turn, _offset(place, turn)
        wall = _wall(turn, offset) - _SECOND  # the moment itself may be a tick


def _once_each(cron: str, place: tzinfo, after: datetime) -> Iterator[datetime]:
    """Each local time of the line once."""
    last = after
    for wall in CronSim(cron, _wall(after, _offset(place, after))):
        moment = wall.replace(tzinfo=place, fold=0).astimezone(UTC)
        if moment.astimezone(place).replace(tzinfo=None) != wall:  # it is skipped
            before = moment - 2 * _DAY
            turn = _turn(place, before, moment, _offset(place, before))
            assert turn is not None, "a time is skipped only where a clock is changed"
            moment = turn
        if moment > last:
            yield moment
            last = moment


def _offset(place: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(place).utcoffset() or _NONE


def _wall(moment: datetime, offset: timedelta) -> datetime:
    """What a clock of this offset shows."""
    return moment.astimezone(UTC).replace(tzinfo=None) + offset


def _turn(place: tzinfo, after: datetime, until: datetime, offset: timedelta) -> datetime | None:
    """The first moment after one and not after another at which the offset is no longer this one.

    Looked for day by day: no offset of any zone has lasted less.
    """
    begin = after
    while begin < until:
        end = min(begin + _DAY, until)
        if _offset(place, end) == offset:
            begin = end
            continue
        low, high = int(begin.timestamp()), int(end.timestamp())
        while high - low > 1:  # clocks are changed at whole seconds
            half = (low + high) // 2
            if _offset(place, datetime.fromtimestamp(half, UTC)) == offset:
                low = half
            else:
                high = half
        return datetime.fromtimestamp(high, UTC)
    return None
