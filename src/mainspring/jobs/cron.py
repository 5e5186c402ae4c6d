"""Cron lines: when they come, in the time zone they name. Pure, no I/O.

Where clocks are put forward, a tick in the missing hour comes right after it; where they are put
back, a tick at a fixed time in the doubled hour comes once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from mainspring.errors import InvalidSetting
from mainspring.phrases import nearest

# Clocks are put back by two hours at most: a tick of the doubled time may look later than it is.
_FOLD = timedelta(hours=2)


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
    if isinstance(cron, str) and len(cron.split()) == 6:
        raise InvalidSetting(
            f"cron line {cron!r} has 6 fields, and seconds are no part of one; write minute hour "
            "day-of-month month day-of-week, such as '30 4 * * MON-FRI'"
        )
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except StopIteration:
        raise InvalidSetting(f"cron line {cron!r} never comes: no such day exists") from None
    except (CronSimError, AttributeError, TypeError) as error:
        reason = str(error).lower()
        never = "day-of-month" in reason and isinstance(cron, str) and _has_such_day(cron)
        shown = "never comes: no such day exists in its months" if never else f"has a {reason}"
        raise InvalidSetting(
            f"cron line {cron!r} {shown}; write minute hour day-of-month month day-of-week, "
            "such as '30 4 * * MON-FRI'"
        ) from None


def _has_such_day(cron: str) -> bool:
    """Whether the day of month alone is fine: then it is its month that has no such day."""
    fields = cron.split()
    fields[-2] = "*"
    try:
        CronSim(" ".join(fields), datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


def next_tick(cron: str, zone: str, after: datetime) -> datetime:
    """The first tick after a moment."""
    for tick in CronSim(cron, after.astimezone(_zone(zone))):
        if (moment := tick.astimezone(UTC)) > after:
            return moment
    raise InvalidSetting(f"cron line {cron!r} never comes again")


def last_tick(cron: str, zone: str, *, since: datetime, until: datetime) -> datetime | None:
    """The latest tick after `since` and not after `until`, if there is one."""
    place = _zone(zone)
    begin = until + timedelta(seconds=1) + (_FOLD if place is not UTC else timedelta())
    for tick in CronSim(cron, begin.astimezone(place), reverse=True):
        if (moment := tick.astimezone(UTC)) <= until:
            return moment if moment > since else None
    return None


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
