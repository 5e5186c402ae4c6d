"""Values of params: what they may be, how they are compared, stored and written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.errors import InvalidSetting, InvalidValue, UnknownParam
from mainspring.reactive.model.durations import check_duration, show_duration
from mainspring.reactive.model.values import (
    Param,
    check_value,
    compare,
    dump_value,
    is_ahead,
    load_value,
    parse_value,
    split_key,
)

ORDERS = Param("dwh.orders", "loaded_to")
COUNT = Param("dwh.orders", "count", "integer")
SCHEMA = Param("dwh.orders", "schema", "version")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def test_instants_are_kept_in_utc_to_the_microsecond() -> None:
    """R1: the moment counts, not the clock it was read from."""
    berlin = datetime(2026, 3, 10, 13, 0, 0, 1, tzinfo=ZoneInfo("Europe/Berlin"))

    kept = check_value(ORDERS, berlin)
    assert kept == NOW + timedelta(microseconds=1)
    assert isinstance(kept, datetime)
    assert kept.tzinfo is UTC


@given(st.datetimes(datetime(1970, 1, 1), datetime(8999, 12, 31, 23, 59, 59)))
def test_a_stored_instant_comes_back_exactly(moment: datetime) -> None:
    """R1, R3: whole microseconds, never a float."""
    value = moment.replace(tzinfo=UTC)

    stored = dump_value(value)
    assert isinstance(stored, int)
    assert load_value("instant", stored) == value


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.text(min_size=1, max_size=50).filter(lambda t: "\0" not in t),
)
@example(-(2**63), "é" * 500)
def test_integers_and_versions_come_back_exactly(number: int, text: str) -> None:
    assert load_value("integer", dump_value(check_value(COUNT, number))) == number
    assert load_value("version", dump_value(check_value(SCHEMA, text))) == text


@pytest.mark.parametrize(
    ("param", "given", "says"),
    [
        (
            ORDERS,
            datetime(2026, 3, 10),
            "got the naive datetime.datetime(2026, 3, 10, 0, 0); say which",
        ),
        (
            ORDERS,
            datetime(1969, 12, 31, tzinfo=UTC),
            "from 1970 to the end of 8999, got 1969-12-31",
        ),
        (ORDERS, datetime(9000, 1, 1, tzinfo=UTC), "from 1970 to the end of 8999, got 9000-01-01"),
        (ORDERS, datetime.max.replace(tzinfo=timezone(timedelta(hours=-9))), "to the end of 8999"),
        (ORDERS, 5, "is of kind 'instant' and takes an aware datetime"),
        (ORDERS, "2026-03-10", "is of kind 'instant' and takes an aware datetime"),
        (ORDERS, NOW.date(), "is of kind 'instant' and takes an aware datetime"),
        (COUNT, True, "is of kind 'integer' and takes an int; got True"),
        (COUNT, 1.0, "is of kind 'integer' and takes an int; got 1.0"),
        (COUNT, 2**63, "holds integers of 64 bits"),
        (SCHEMA, "", "has 1 to 500 characters"),
        (SCHEMA, "a\0", "has 1 to 500 characters and no NUL"),
        (SCHEMA, "x" * 501, "of 501"),
        (SCHEMA, None, "is of kind 'version' and takes a text"),
    ],
)
def test_other_values_are_refused_by_name(param: Param, given: object, says: str) -> None:
    """R1: the param, the value and the remedy are named."""
    with pytest.raises(InvalidValue) as caught:
        check_value(param, given)
    assert says in str(caught.value)
    assert param.key in str(caught.value)


def test_a_version_may_be_a_uuid() -> None:
    assert check_value(SCHEMA, UUID(int=7)) == str(UUID(int=7))


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        (None, NOW, "greater"),
        (NOW, NOW, "same"),
        (NOW, NOW + timedelta(microseconds=1), "greater"),
        (NOW, NOW - timedelta(microseconds=1), "lower"),
        (5, 4, "lower"),
        (5, 6, "greater"),
        ("b", "a", "greater"),
        ("a", "a", "same"),
    ],
)
def test_an_advance_is_a_step_forward_back_or_none(old: object, new: object, step: str) -> None:
    """R13: unordered versions never go back."""
    assert compare(old, new) == step  # type: ignore[arg-type]


def test_values_are_read_from_text() -> None:
    assert parse_value(ORDERS, "2026-03-10T13:00:00+01:00") == NOW
    assert parse_value(COUNT, "42") == 42
    assert parse_value(SCHEMA, "42") == "42"
    with pytest.raises(InvalidValue, match="got the naive"):
        parse_value(ORDERS, "2026-03-10")
    with pytest.raises(
        InvalidValue, match=r"'soon' cannot be read as one, write it like '2026-03-10T01"
    ):
        parse_value(ORDERS, "soon")
    with pytest.raises(InvalidValue, match="'many' cannot be read as one, write it like '42'"):
        parse_value(COUNT, "many")


def test_a_value_far_ahead_is_told() -> None:
    """R13: a warning, no more."""
    day = timedelta(days=1)

    assert is_ahead(NOW + day + timedelta(microseconds=1), NOW, day)
    assert not is_ahead(NOW + day, NOW, day)
    assert not is_ahead(10**15, NOW, day)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Param("", "loaded_to"), "an object's name is made of letters"),
        (lambda: Param("dwh orders", "loaded_to"), "got 'dwh orders'"),
        (lambda: Param("dwh..orders", "loaded_to"), "got 'dwh..orders'"),
        (lambda: Param("dwh.orders", "loaded.to"), "no dot"),
        (
            lambda: Param("dwh.orders", "loaded_to", "float"),
            "one of 'instant', 'integer', 'version'",
        ),
        (lambda: Param("d" * 190, "loaded_to"[:9] + "x" * 9), "at most 200 characters"),
        (lambda: split_key("loaded_to"), "its object, a dot and its name"),
    ],
)
def test_names_that_cannot_be_are_refused(build: object, says: str) -> None:
    """R1."""
    with pytest.raises(InvalidSetting) as caught:
        build()  # type: ignore[operator]
    assert says in str(caught.value)


def test_a_full_name_is_the_object_and_the_name() -> None:
    assert ORDERS.key == "dwh.orders.loaded_to"
    assert split_key(ORDERS.key) == ("dwh.orders", "loaded_to")
    assert Param("dwh.orders", "loaded_to", external=True) == ORDERS


def test_an_unknown_param_is_named_with_the_nearest() -> None:
    """R1: typos cost more than a declaration."""
    error = UnknownParam("dwh.order.loaded_to", [ORDERS.key, COUNT.key])

    assert "no param is named 'dwh.order.loaded_to'; did you mean 'dwh.orders.loaded_to'?" in str(
        error
    )


@pytest.mark.parametrize(
    ("given", "length", "shown"),
    [
        ("90s", timedelta(seconds=90), "1m 30s"),
        ("1h 30m", timedelta(minutes=90), "1h 30m"),
        ("26h", timedelta(hours=26), "1d 2h"),
        ("1w", timedelta(days=7), "7d"),
        ("250ms", timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=1), timedelta(microseconds=1), "1us"),
    ],
)
def test_durations_are_written_as_people_write_them(
    given: object, length: timedelta, shown: str
) -> None:
    assert check_duration(given, name="debounce") == length
    assert show_duration(length) == shown


@pytest.mark.parametrize(
    "given", ["", "5", "m", "5 minutes", "-5m", 5, None, "0s", timedelta(-1), "9" * 30 + "d"]
)
def test_other_durations_are_refused(given: object) -> None:
    with pytest.raises(InvalidSetting, match="debounce"):
        check_duration(given, name="debounce")
