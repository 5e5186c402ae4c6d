"""Cron lines against every quarter of an hour of a year, in zones whose clocks are changed in odd ways."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from mainspring.errors import InvalidSetting
from mainspring.jobs.cron import check_schedule, last_tick, last_ticks, next_tick, ticks

QUARTER = timedelta(minutes=15)
BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",  # at midnight
    "America/Santiago",  # at midnight, on the southern half
    "Australia/Lord_Howe",  # by half an hour
    "Africa/Casablanca",  # back for a month, forward again
    "Asia/Kathmandu",
]
Matches = Callable[[datetime], bool]
EVERY: dict[str, Matches] = {
    "*/30 */2 * * *": lambda t: t.minute % 30 == 0 and t.hour % 2 == 0,
    "30 * * * *": lambda t: t.minute == 30,
    "0 */3 * * *": lambda t: t.minute == 0 and t.hour % 3 == 0,
    "15,45 */2 * * SUN": lambda t: t.minute in (15, 45) and t.hour % 2 == 0 and t.weekday() == 6,
    "0 0 * * * *": lambda t: t.minute == 0,
}
ONCE: dict[str, Matches] = {
    "30 2 * * *": lambda t: (t.hour, t.minute) == (2, 30),
    "0 0 * * *": lambda t: (t.hour, t.minute) == (0, 0),
    "15 0,1,2,3 * * *": lambda t: t.hour < 4 and t.minute == 15,
    "*/15 1-2 * * *": lambda t: t.hour in (1, 2),
    "0 30 2 * * *": lambda t: (t.hour, t.minute) == (2, 30),
    "15 0 * 3,4,9,10 SUN": lambda t: (
        (t.hour, t.minute) == (0, 15) and t.month in (3, 4, 9, 10) and t.weekday() == 6
    ),
}


@cache
def year(zone: str) -> list[tuple[datetime, datetime]]:
    """Each quarter of an hour with what a clock of the zone shows."""
    place, found, moment = ZoneInfo(zone), [], BEGIN
    while moment < END:
        found.append((moment, moment.astimezone(place).replace(tzinfo=None)))
        moment += QUARTER
    return found


def shown(zone: str, matches: Matches) -> list[datetime]:
    """Each moment at which the clock shows such a time."""
    return [moment for moment, wall in year(zone) if matches(wall)]


def once_each(zone: str, matches: Matches) -> list[datetime]:
    """Each such local time once; those that are skipped at the moment the clock moves on."""
    found: dict[datetime, None] = {}
    before = year(zone)[0][1] - QUARTER
    latest = before
    for moment, wall in year(zone):
        skipped = before + QUARTER
        while skipped < wall:
            if matches(skipped):
                found[moment] = None
            skipped += QUARTER
        if wall > latest and matches(wall):
            found[moment] = None
        before, latest = wall, max(latest, wall)
    return list(found)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", [*EVERY, *ONCE])
def test_a_year_has_each_tick_that_its_clock_has(line, zone):
    """T13: zones and DST: all ticks of 2026, none left out, none twice."""
    expected = shown(zone, EVERY[line]) if line in EVERY else once_each(zone, ONCE[line])
    after = BEGIN - timedelta(microseconds=1)

    assert expected == list(takewhile(lambda tick: tick < END, ticks(line, zone, after)))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", ["30 2 * * *", "*/30 */3 * * *", "15 0,1,2,3 * * *"])
def test_from_any_moment_the_next_and_the_last_tick_are_neighbours(line, zone):
    """Every moment of the days around each change of the clocks, from in between the ticks too."""
    place = ZoneInfo(zone)
    turns = [
        a for (a, x), (b, y) in zip(year(zone), year(zone)[1:], strict=False) if y - x != b - a
    ]
    expected = list(
        takewhile(lambda tick: tick < END, ticks(line, zone, BEGIN - timedelta(days=3)))
    )
    assert bool(turns) is (place.key not in ("UTC", "Asia/Kathmandu"))
    for turn in turns or [BEGIN + timedelta(days=90)]:
        moment = turn - timedelta(hours=5, seconds=1)
        while moment < turn + timedelta(hours=5):
            place_in = bisect_right(expected, moment)
            assert expected[place_in] == next_tick(line, zone, moment)
            last, since = expected[place_in - 1], moment - timedelta(days=1)
            assert (last if last > since else None) == last_tick(
                line, zone, since=since, until=moment
            )
            moment += timedelta(minutes=12, seconds=30)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [("*/10 * * * * *", [0, 10, 20, 30, 40, 50]), ("7,37 * * * * *", [7, 37]), ("* * * * *", [0])],
)
def test_a_sixth_field_in_front_is_seconds(line, seconds):
    """T13: seconds."""
    check_schedule(line, "UTC")
    after = datetime(2026, 5, 3, 11, 59, 59, 500_000, tzinfo=UTC)
    minute = after.replace(hour=12, minute=0, second=0, microsecond=0)
    for zone in ("UTC", "Europe/Berlin"):
        found = takewhile(
            lambda tick: tick < minute + timedelta(minutes=1), ticks(line, zone, after)
        )
        assert [minute.replace(second=second) for second in seconds] == list(found)


def test_a_day_that_a_zone_left_out_ticks_when_the_next_one_begins():
    """Samoa had no 30 December 2011."""
    line, zone = "0 9 30 12 *", "Pacific/Apia"
    tick = next_tick(line, zone, datetime(2011, 12, 1, tzinfo=UTC))

    assert datetime(2011, 12, 30, 10, tzinfo=UTC) == tick
    assert next_tick(line, zone, tick).year == 2012


@pytest.mark.parametrize("most", [1, 3, 500])
@pytest.mark.parametrize("line", ["*/15 * * * *", "30 2 * * *", "0 0 29 2 *", "*/20 * * * * *"])
def test_the_latest_ticks_are_the_end_of_all(line, most):
    zone, until = "Europe/Berlin", datetime(2026, 10, 25, 9, 0, 5, tzinfo=UTC)
    since = until - timedelta(days=2)
    everything = list(takewhile(lambda tick: tick <= until, ticks(line, zone, since)))

    assert everything[-most:] == last_ticks(line, zone, since=since, until=until, most=most)


def test_a_line_of_seven_fields_is_refused():
    with pytest.raises(InvalidSetting, match="wrong number of fields; write"):
        check_schedule("0 0 0 1 1 * 2027", "UTC")
