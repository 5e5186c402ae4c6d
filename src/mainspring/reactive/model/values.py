"""Params and their values: instants, integers, versions. Pure, exact, no I/O.

A param is a named value of an object of the data platform ("dwh.orders is loaded up to ...").
It is a value, not an event: only what is true now counts, however often it was set.
An instant is an aware `datetime`, kept in UTC to the microsecond; an integer fits a bigint; a version
is a text without an order, of which only a difference can be told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args
from uuid import UUID

from mainspring.errors import InvalidSetting, InvalidValue

V = TypeVar("V")
Kind: TypeAlias = Literal["instant", "integer", "version"]
Value: TypeAlias = datetime | int | str
Raw: TypeAlias = int | str  # a value as tables and JSON have it: instants in microseconds
Step: TypeAlias = Literal["same", "greater", "lower"]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
END: Final = datetime(9000, 1, 1, tzinfo=UTC)  # exclusive; leaves room for arithmetic below 9999
MICROSECOND: Final = timedelta(microseconds=1)
LONGEST_NAME: Final = 200
LONGEST_VERSION: Final = 500

_OBJECT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")
_INTEGERS: Final = range(-(2**63), 2**63)
_SAMPLE: Final[dict[str, str]] = {
    "instant": "an aware datetime such as datetime(2026, 3, 10, tzinfo=UTC)",
    "integer": "an int",
    "version": "a text, or a UUID",
}


@dataclass(frozen=True, slots=True)
class Param(Generic[V]):
    """A named value of an object: `app.data("dwh.orders").param("loaded_to")`.

    A checker knows its type by its kind: `Param[datetime]`, `Param[int]` or, for a version, `Param[str]`.

    `external` says that no task of this application sets it, so that `mainspring check` does not
    look for a producer.
    """

    object: str
    name: str
    kind: Kind = "instant"
    external: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.object, str) or not _OBJECT.match(self.object):
            raise InvalidSetting(
                f"an object's name is made of letters, digits, '_' and '-', in parts joined by dots, "
                f"such as 'dwh.orders'; got {self.object!r}"
            )
        if not isinstance(self.name, str) or not _NAME.match(self.name):
            raise InvalidSetting(
                f"a param's name is made of letters, digits, '_' and '-' (no dot, at most 63), such as "
                f"'loaded_to'; got {self.name!r}"
            )
        if len(self.key) > LONGEST_NAME:
            raise InvalidSetting(
                f"a param's full name has at most {LONGEST_NAME} characters, {self.key!r} has "
                f"{len(self.key)}"
            )
        if self.kind not in KINDS:
            raise InvalidSetting(
                f"a param is one of {', '.join(map(repr, KINDS))}, not {self.kind!r}"
            )

    @property
    def key(self) -> str:
        """The full name, unique in the database: the object, a dot, the name."""
        return f"{self.object}.{self.name}"

    def __str__(self) -> str:
        return self.key


AnyParam: TypeAlias = Param[Any]


class RawSeen(NamedTuple):
    """A value as a check saw it, in JSON: with the number of rewinds that its param had."""

    value: Raw | None
    rewinds: int


@dataclass(frozen=True, slots=True)
class Product:
    """A param that a run sets when it succeeds."""

    param: AnyParam
    value: Value
    if_greater: bool = False
    is_rewind: bool = False
    chunks: tuple[int, ...] = ()
    why: str | None = None


def split_key(key: str) -> tuple[str, str]:
    """Object and name of a full name; the name is what follows the last dot."""
    before, dot, name = key.rpartition(".")
    if not dot or not before or not name:
        raise InvalidSetting(
            f"a param's full name is its object, a dot and its name, such as 'dwh.orders.loaded_to'; "
            f"got {key!r}"
        )
    return before, name


def check_value(param: AnyParam, given: object) -> Value:
    """The value as it is kept; an error that names the param, the value and the remedy otherwise."""
    match param.kind, given:
        case "instant", datetime():
            return check_instant(given, what=f"param {param.key!r}")
        case "integer", int() if not isinstance(given, bool):
            if given not in _INTEGERS:
                raise InvalidValue(
                    f"param {param.key!r} holds integers of 64 bits, {given} is out of range"
                )
            return given
        case "version", str() | UUID():
            return _check_version(param, str(given))
    raise InvalidValue(
        f"param {param.key!r} is of kind {param.kind!r} and takes {_SAMPLE[param.kind]}; got {given!r}"
    )


def check_instant(given: datetime, *, what: str = "an instant") -> datetime:
    """An aware instant of the years 1970 to 8999, in UTC."""
    if given.tzinfo is None or given.utcoffset() is None:
        raise InvalidValue(
            f"{what} takes instants with a time zone, got the naive {given!r}; say which moment is "
            "meant: .replace(tzinfo=UTC), or ZoneInfo('Europe/Berlin'); in text +00:00"
        )
    try:
        moment = given.astimezone(UTC)
    except OverflowError:
        moment = None
    if moment is None or not EPOCH <= moment < END:
        raise InvalidValue(
            f"{what} takes instants from 1970 to the end of 8999, got {given.isoformat()}"
        )
    return moment


def _check_version(param: AnyParam, text: str) -> str:
    if not text or len(text) > LONGEST_VERSION or "\0" in text:
        raise InvalidValue(
            f"a version of param {param.key!r} has 1 to {LONGEST_VERSION} characters and no NUL; "
            f"got {text[:60]!r} of {len(text)}"
        )
    return text


def parse_value(param: AnyParam, text: str) -> Value:
    """A value written as text, as the command line and SQL literals have it."""
    try:
        match param.kind:
            case "instant":
                return check_value(param, datetime.fromisoformat(text))
            case "integer":
                return check_value(param, int(text))
            case "version":
                return check_value(param, text)
    except InvalidValue:
        raise
    except ValueError:
        sample = "'2026-03-10T01:00:00+00:00'" if param.kind == "instant" else "'42'"
        raise InvalidValue(
            f"param {param.key!r} is of kind {param.kind!r}; {text!r} cannot be read as one, write it "
            f"like {sample}"
        ) from None


def dump_value(value: Value) -> Raw:
    """A value for tables and JSON; `load_value` gives back the same."""
    return micros(value) if isinstance(value, datetime) else value


def load_value(kind: Kind, stored: object) -> Value:
    """A value from JSON, exactly as it was dumped."""
    if kind != "version" and isinstance(stored, int):
        return moment_of(stored) if kind == "instant" else stored
    if kind == "version" and isinstance(stored, str):
        return stored
    raise InvalidValue(f"{stored!r} is no stored value of kind {kind!r}")


def from_raw(kind: Kind, raw: Raw) -> Value:
    """A value from a table, which has numbers as texts too."""
    return moment_of(int(raw)) if kind == "instant" else int(raw) if kind == "integer" else str(raw)


def compare(old: Value | None, new: Value) -> Step:
    """What an advance from `old` to `new` is. A version has no order: any difference is news."""
    if old is None:
        return "greater"
    if old == new:
        return "same"
    if isinstance(old, datetime) and isinstance(new, datetime):
        return "greater" if new > old else "lower"
    if isinstance(old, int) and isinstance(new, int):
        return "greater" if new > old else "lower"
    return "greater"


def is_ahead(value: Value, now: datetime, by: timedelta) -> bool:
    """Whether an instant lies suspiciously far ahead of the clock."""
    return isinstance(value, datetime) and value - now > by


def micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exact."""
    return (moment - EPOCH) // MICROSECOND


def moment_of(count: int) -> datetime:
    """The instant of so many microseconds since 1970 UTC."""
    return EPOCH + timedelta(microseconds=count)


def later(moment: datetime, by: timedelta) -> datetime | None:
    """`moment + by`, or nothing where that lies beyond the calendar."""
    try:
        return moment + by
    except OverflowError:
        return None
