"""Lengths of time as people write them: timedelta, or a text such as "90s", "5m", "2d". Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

from mainspring.errors import InvalidSetting

Duration: TypeAlias = timedelta | str

LONGEST: Final = timedelta(days=366 * 1000)

_UNITS: Final[dict[str, timedelta]] = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART = re.compile(r"(\d+)(ms|[smhdw])")


def check_duration(given: object, *, name: str, zero: bool = False) -> timedelta:
    """The length; an error that names the setting, the value and the remedy otherwise."""
    if isinstance(given, str):
        length = _parse(given, name)
    elif isinstance(given, timedelta):
        length = given
    else:
        raise InvalidSetting(
            f"{name} takes a timedelta or a text such as '90s', '5m', '26h', '2d'; got {given!r}"
        )
    if length < timedelta() or (not zero and not length):
        raise InvalidSetting(
            f"{name} must be {'zero or more' if zero else 'more than zero'}, got {given!r}"
        )
    if length > LONGEST:
        raise InvalidSetting(f"{name} is at most {LONGEST.days} days, got {given!r}")
    return length


def _parse(text: str, name: str) -> timedelta:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise InvalidSetting(
            f"{name} cannot be read: {text!r}; write numbers with s, m, h, d or w, such as '1h 30m'"
        )
    try:
        return sum((int(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise InvalidSetting(f"{name} is at most {LONGEST.days} days, got {text!r}") from None


def show_duration(length: timedelta) -> str:
    """A length in the largest units that say it exactly: '1d 2h', '90s' as '1m 30s'."""
    if length < timedelta():
        return "-" + show_duration(-length)
    rest, shown = length, []
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            shown.append(f"{count}{unit}")
    if rest:
        shown.append(f"{rest.microseconds}us")
    return " ".join(shown) or "0s"
