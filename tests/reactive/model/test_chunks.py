"""Chunks of time against a brute-force oracle, and on the days when clocks are changed."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from chunk_oracle import changes, starts_of_dates, starts_of_length
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import drawn
from mainspring.errors import InvalidChunk
from mainspring.reactive.model.chunks import Chunk

TICK = timedelta(microseconds=1)
# Zones and years whose clocks are changed in every way there is: by 60, 30, 120 minutes and a day, at
# midnight, just after midnight, before it, over the date line, and for good.
CHANGES = [
    ("Europe/Berlin", 2026),
    ("America/New_York", 2026),
    ("Australia/Lord_Howe", 2026),
    ("America/Havana", 2026),
    ("America/Sao_Paulo", 2018),
    ("America/St_Johns", 2010),
    ("Pacific/Apia", 2011),
    ("Antarctica/Troll", 2026),
    ("Africa/Casablanca", 2026),
    ("Pacific/Chatham", 2026),
    ("Asia/Kathmandu", 1986),
    ("Asia/Pyongyang", 2015),
    ("Asia/Tehran", 2022),
    ("America/Caracas", 2007),
    ("Asia/Colombo", 2006),
]
LENGTHS = [
    timedelta(minutes=m) for m in (5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440)
]


def place(moments: list[datetime], moment: datetime) -> int:
    return bisect_right(moments, moment)


def check_against(chunk: Chunk, starts: list[datetime], probes: list[datetime]) -> None:
    first, last = starts[0], starts[-1]
    inside = [probe for probe in probes if first <= probe < last]
    for probe in inside:
        number = place(starts, probe)
        assert chunk.floor(probe) == starts[number - 1], (chunk, probe)
        assert chunk.end(probe) == starts[number], (chunk, probe)
        assert chunk.count(first, probe) == number - 1, (chunk, probe)


@pytest.mark.parametrize(("zone", "year"), CHANGES)
def test_starts_of_every_length_are_those_that_the_wall_clock_shows(zone: str, year: int) -> None:
    """R4: against every minute of the two days around each change of the clock."""
    for change in changes(zone, year):
        begin = change - timedelta(hours=30)
        probes = [begin + timedelta(minutes=37) * i for i in range(95)]
        probes += [
            change + timedelta(minutes=5) * i + j * TICK for i in range(-30, 30) for j in (-1, 0)
        ]
        for length in LENGTHS:
            try:
                chunk = Chunk(length, zone)
            except InvalidChunk:
                assert length == timedelta(minutes=20), "only these do not divide 30 minutes"
                continue
            check_against(chunk, starts_of_length(zone, length, begin, 60 * 60), probes)


@pytest.mark.parametrize(("zone", "year"), CHANGES)
@pytest.mark.parametrize("name", ["week", "month", "quarter", "year"])
def test_weeks_and_months_start_when_the_wall_first_shows_their_date(
    zone: str, year: int, name: str
) -> None:
    """R4: for the date that is on the wall when the clock is changed, as if it began a chunk there."""
    dates = {
        "week": [c.date() + timedelta(days=i) for c in changes(zone, year) for i in range(-4, 4)],
        "month": [date(year, m, 1) for m in range(1, 13)],
        "quarter": [date(year, m, 1) for m in (1, 4, 7, 10)],
        "year": [date(year, 1, 1)],
    }[name]
    dates = [d for d in dates if name != "week" or d.weekday() == 0]
    chunk = Chunk(name, zone)
    for day in dates:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=30)
        [start] = starts_of_dates(zone, [day], begin, 60 * 60)

        assert chunk.floor(start) == start
        assert chunk.count(start - TICK, start) == 1
        assert chunk.end(start - TICK) == start


zones = st.sampled_from(sorted(available_timezones() - {"localtime", "Factory"}))
names = st.sampled_from(
    ["5 minutes", "30 minutes", "hour", "12 hours", "day", "week", "month", "year"]
)
moments = st.datetimes(datetime(1970, 1, 2), datetime(2199, 12, 30)).map(
    lambda m: m.replace(tzinfo=UTC)
)


@drawn(zones, names, moments, st.integers(-(10**13), 10**13), few=30, many=80)
def test_floors_never_lie_ahead_and_never_fall(
    zone: str, name: str, moment: datetime, far: int
) -> None:
    """R4, I14: floor(t) <= t, floor is monotone, count(a, b) counts starts."""
    chunk = Chunk(name, zone)
    floor, end = chunk.floor(moment), chunk.end(moment)
    other = min(max(moment + far * TICK, datetime(1970, 1, 2, tzinfo=UTC)), moments_end)

    assert floor <= moment < end
    assert chunk.floor(floor) == floor == chunk.floor(end - TICK)
    assert chunk.floor(end) == end
    assert chunk.count(floor, moment) == 0 == chunk.count(moment, end - TICK)
    assert chunk.count(floor - TICK, floor) == 1 == chunk.count(moment, end)
    assert (other >= moment) <= (chunk.floor(other) >= floor)
    assert chunk.count(moment, other) == -chunk.count(other, moment)
    assert chunk.shift(moment, 0) == floor
    assert chunk.shift(moment, 1) == end


moments_end = datetime(2199, 12, 30, tzinfo=UTC)


@settings(deadline=None)
@given(st.sampled_from(["America/New_York", "Europe/Berlin"]), moments, st.integers(-50, 50))
def test_a_shift_by_chunks_is_undone_by_the_count(zone: str, moment: datetime, by: int) -> None:
    chunk = Chunk("6 hours", zone)
    moved = chunk.shift(moment, by)

    assert moved is not None
    assert chunk.count(moment, moved) == by
    assert chunk.floor(moved) == moved


def test_half_past_one_is_where_a_quarter_to_two_begins() -> None:
    """R4: 30 minutes: 01:42:13 -> 01:30:00."""
    moment = datetime(2026, 3, 10, 1, 42, 13, tzinfo=UTC)

    assert Chunk("30 minutes").floor(moment) == datetime(2026, 3, 10, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(("day", "halves"), [((3, 29), 46), ((6, 1), 48), ((10, 25), 50)])
def test_a_day_has_46_or_48_or_50_half_hours(day: tuple[int, int], halves: int) -> None:
    """R4: as the clock of the zone has it."""
    berlin = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, *day, tzinfo=berlin)
    end = begin + timedelta(days=1)  # wall time

    chunk = Chunk("30 minutes", "Europe/Berlin")
    assert chunk.count(begin.astimezone(UTC), end.astimezone(UTC)) == halves
    assert len(chunk.starts(begin.astimezone(UTC) - TICK, end.astimezone(UTC) - TICK)) == halves


def test_days_of_23_and_25_hours_are_one_day() -> None:
    """R4: chunks are counted by their starts, not by hours gone."""
    day = Chunk("day", "Europe/Berlin")
    for month, number, hours in ((3, 29, 23), (10, 25, 25)):
        begin = datetime(2026, month, number, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)

        assert day.end(begin) - begin == timedelta(hours=hours)
        assert day.count(begin, begin + timedelta(hours=hours)) == 1
        assert day.count(begin, begin + timedelta(hours=hours) - TICK) == 0


def test_a_day_begins_where_its_midnight_is_missing() -> None:
    """R4: a start that falls into a gap is the end of the gap."""
    sao_paulo = ZoneInfo("America/Sao_Paulo")
    start = Chunk("day", "America/Sao_Paulo").floor(datetime(2018, 11, 4, 12, tzinfo=sao_paulo))

    assert start.astimezone(sao_paulo).isoformat() == "2018-11-04T01:00:00-02:00"


def test_a_midnight_that_comes_twice_counts_once() -> None:
    """R4: the repeated hour is no whole number of days."""
    havana = ZoneInfo("America/Havana")
    first = datetime(2026, 11, 1, 0, 0, tzinfo=havana)
    second = first.replace(fold=1)
    day = Chunk("day", "America/Havana")

    assert day.count(first.astimezone(UTC) - TICK, second.astimezone(UTC)) == 1
    assert day.floor(second.astimezone(UTC)) == first.astimezone(UTC)


def test_a_half_hour_that_comes_twice_counts_twice() -> None:
    """R4: the repeated hour is a whole number of half hours."""
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin).astimezone(UTC)
    second = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=berlin).astimezone(UTC)

    assert Chunk("30 minutes", "Europe/Berlin").count(first, second) == 2
    assert Chunk("30 minutes", "Europe/Berlin").floor(second) == second


def test_lengths_that_do_not_divide_count_from_1970() -> None:
    """R4: 45 minutes and 7 days have no place on a clock; the zone changes nothing."""
    moment = datetime(2026, 3, 29, 12, 1, tzinfo=UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for length in (timedelta(minutes=45), timedelta(days=7), timedelta(hours=5)):
        chunk = Chunk(length, "Europe/Berlin")
        assert (chunk.floor(moment) - epoch) % length == timedelta()
        assert chunk.index(moment) == (moment - epoch) // length


def test_weeks_begin_on_monday() -> None:
    """R4."""
    assert Chunk("week").floor(datetime(2026, 3, 15, 23, tzinfo=UTC)).isoweekday() == 1
    assert Chunk("week").floor(datetime(1970, 1, 1, tzinfo=UTC)).date() == date(1969, 12, 29)


def test_a_pair_of_zone_and_length_that_does_not_go_together_is_refused() -> None:
    """R4: where 30 minutes are repeated, 20-minute chunks would go back on the wall."""
    with pytest.raises(
        InvalidChunk, match=r"chunks of 20 minutes do not go with zone 'Australia/Lord"
    ):
        Chunk("20 minutes", "Australia/Lord_Howe")
    for zone in available_timezones() & {"Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"}:
        for length in ("5 minutes", "15 minutes", "30 minutes", "hour", "6 hours", "day", "month"):
            Chunk(length, zone)


@pytest.mark.parametrize(
    ("length", "says"),
    [
        ("dya", "no chunk is called 'dya'; did you mean 'day'? take one of '30 minutes', 'hour'"),
        ("3 months", "no chunk is called '3 months'"),
        ("0 hours", "a whole number of seconds"),
        (timedelta(microseconds=5), "a whole number of seconds"),
        (timedelta(seconds=-60), "a whole number of seconds"),
        (7, "no chunk is called 7"),
        ("", "no chunk is called ''"),
    ],
)
def test_an_unknown_chunk_is_refused(length: object, says: str) -> None:
    """Bad input: the chunk is named, with the nearest."""
    with pytest.raises(InvalidChunk) as caught:
        Chunk(length)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_an_unknown_zone_is_refused() -> None:
    """Bad input: the zone is named, with the nearest."""
    with pytest.raises(InvalidChunk, match=r"no time zone is named 'Europe/Berlim'; did you mean"):
        Chunk("day", "Europe/Berlim")


def test_values_far_in_the_future_do_not_overflow() -> None:
    """Trap: a far-future value must not break every check of its consumers."""
    end = datetime(8999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    for name in ("30 minutes", "day", "week", "month", "quarter", "year"):
        for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Niue"):
            chunk = Chunk(name, zone)
            assert chunk.floor(end) <= end < chunk.end(end)
            assert chunk.count(datetime(1970, 1, 1, tzinfo=UTC), end) > 0
    assert Chunk("year").shift(end, 10**9) is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("30min", "30 minutes"),
        ("1h", "hour"),
        ("24 hours", "day"),
        (timedelta(days=1), "day"),
        ("60 minutes", "hour"),
        ("6h", "6 hours"),
        ("1 minute", "1 minute"),
        ("90s", "90 seconds"),
        ("Quarter", "quarter"),
    ],
)
def test_a_length_has_one_plain_name(given: str | timedelta, name: str) -> None:
    chunk = Chunk(given, "Europe/Berlin")

    assert chunk.length == name
    assert Chunk(name, "Europe/Berlin") == chunk
    assert pickle.loads(pickle.dumps(chunk)) == chunk


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("year", "2026"),
        ("quarter", "2026-Q1"),
        ("month", "2026-03"),
        ("week", "2026-W11"),
        ("day", "2026-03-10"),
        ("30 minutes", "2026-03-10 02:30+0100"),
    ],
)
def test_a_chunk_is_shown_on_the_clock_of_its_zone(name: str, shown: str) -> None:
    moment = datetime(2026, 3, 10, 1, 42, tzinfo=UTC)

    assert Chunk(name, "Europe/Berlin").show(moment) == shown
