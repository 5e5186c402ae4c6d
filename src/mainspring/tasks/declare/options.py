"""The options of a call: when, how urgent, in which group, under which key; each checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mainspring.db.caller import Caller
from mainspring.errors import InvalidKey, InvalidSetting, InvalidTime
from mainspring.kernel import EARLIEST, LATEST
from mainspring.tasks.declare.habits import option_hint
from mainspring.tasks.declare.unique import Unique

KEY_BYTES = 1024
GROUP_BYTES = 255
LONGEST_DELAY = timedelta(days=365_000)


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a call is enqueued."""

    at: datetime | None = None
    delay: timedelta | None = None
    priority: int | None = None
    group: str | None = None
    key: str | None = None
    expires_at: datetime | None = None
    unique: Unique | None = None  # None: as if it were Unique()
    on: Caller | None = None
    keyed: bool = field(init=False, default=False)  # another call may have its key

    def __post_init__(self) -> None:
        check_time("at", self.at)
        check_time("expires_at", self.expires_at)
        if self.at is not None and self.delay is not None:
            raise InvalidTime(f"give at or delay, not both: at={self.at!r}, delay={self.delay!r}")
        if self.delay is not None:
            object.__setattr__(self, "delay", _as_delay(self.delay))
        if self.priority is not None:
            check_priority(self.priority)
        if self.key is not None:
            check_text("key", self.key, KEY_BYTES)
        if self.group is not None:
            check_text("group", self.group, GROUP_BYTES)
        by_arguments = self.unique is not None and bool(self.unique.by)
        object.__setattr__(self, "keyed", self.key is not None or by_arguments)


def _as_delay(given: timedelta | float) -> timedelta:
    if isinstance(given, bool) or not isinstance(given, timedelta | int | float):
        raise InvalidTime(f"delay must be seconds (a number, or a timedelta), got {given!r}")
    try:
        delay = given if isinstance(given, timedelta) else timedelta(seconds=given)
    except (OverflowError, ValueError):
        delay = timedelta.max
    if abs(delay) > LONGEST_DELAY:
        shown = f"{given.days} days" if isinstance(given, timedelta) else f"{given!r} seconds"
        raise InvalidTime(f"delay must be at most {LONGEST_DELAY.days} days, got {shown}")
    return delay


Opted = TypeVar("Opted", bound=CallOptions)


def with_options(
    what: str, options: Opted, given: Mapping[str, Any], unknown: Iterable[str]
) -> Opted:
    """Options with those changed that were given; one that does not exist is refused."""
    for name in unknown:
        raise InvalidSetting(f"{what} has no option {name!r}{option_hint(name, list(given))}")
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def check_priority(priority: int) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 9:
        raise InvalidSetting(f"priority must be 0 to 9 (greater is sooner), got {priority!r}")


def check_time(name: str, at: datetime | None) -> None:
    """A time must say its zone: a naive one means another moment on every machine."""
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise InvalidTime(
            f"{name} must be a datetime with a time zone, got {at!r}; "
            "use datetime.now(UTC) + ... or .replace(tzinfo=...)"
        )
    if at is not None and at >= LATEST:
        raise InvalidTime(f"{name} must be before the year 9999, got {at.isoformat()}")
    if at is not None and at < EARLIEST:
        raise InvalidTime(f"{name} must not be before the year 1 in UTC, got {at.isoformat()}")


def check_text(name: str, value: str, most: int) -> None:
    """Keys and groups are short texts that PostgreSQL can store."""
    if not isinstance(value, str):
        raise InvalidKey(f"{name} must be a str, got {type(value).__name__}: {value!r}")
    if not value:
        raise InvalidKey(f"{name} must not be empty; leave it out to have none")
    if "\x00" in value:
        raise InvalidKey(
            f"{name} {value!r} contains the character NUL, which PostgreSQL cannot store"
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidKey(f"{name} {value!r} contains a lone surrogate, which is no text") from None
    if size > most:
        raise InvalidKey(
            f"{name} {value[:40]!r}... is {size} bytes, the limit is {most}; use a digest"
        )
