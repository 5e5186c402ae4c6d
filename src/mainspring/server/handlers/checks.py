"""Fields of a request as values; what is missing, too large or no such value is refused by its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from mainspring.errors import InvalidRequest

NAME_BYTES = 200
KEY_BYTES = 1024
ID_BYTES = 200
WHY_BYTES = 2000
JSON_BYTES = 2 * 1024 * 1024
LONGEST_WAIT = 60.0
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
LONGEST_DELAY = timedelta(days=365_000)


class HasFields(Protocol):
    """A message, as far as it tells which of its fields are set."""

    def HasField(self, field_name: str, /) -> bool: ...


def text(field: str, value: str, most: int = NAME_BYTES) -> str:
    """A text that must be there."""
    if not value:
        raise InvalidRequest(field, "is not set")
    return optional_text(field, value, most)


def optional_text(field: str, value: str, most: int = NAME_BYTES) -> str:
    """A text that PostgreSQL can store, or none."""
    if "\x00" in value:
        raise InvalidRequest(field, "contains the character NUL, which PostgreSQL cannot store")
    if (size := len(value.encode())) > most:
        raise InvalidRequest(field, f"has {size} bytes, the limit is {most}")
    return value


def uuid_of(field: str, value: str) -> str:
    """An id that is a UUID, as it is stored."""
    try:
        return str(UUID(text(field, value)))
    except ValueError as error:
        if isinstance(error, InvalidRequest):
            raise
        raise InvalidRequest(field, f"must be a UUID, got {value[:60]!r}") from None


def count(field: str, items: Sequence[object], most: int) -> None:
    """A list that is not empty and not too long."""
    if not items:
        raise InvalidRequest(field, "is empty")
    if len(items) > most:
        raise InvalidRequest(field, f"has {len(items)} items, the limit is {most}")


def no_twice(field: str, names: Iterable[object]) -> None:
    """A list in which nothing is named twice."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise InvalidRequest(field, f"has {name!r} twice")
        seen.add(name)


def moment(field: str, message: HasFields, value: Timestamp) -> datetime | None:
    """A time, if it is set: `field` ends in its name."""
    if not message.HasField(field.rpartition(".")[2]):
        return None
    return instant(field, value)


def instant(field: str, value: Timestamp) -> datetime:
    """A time of the years 1 to 9998."""
    try:
        found = value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        found = None
    if found is None or not EARLIEST <= found < LATEST:
        raise InvalidRequest(field, "must be a time between the years 1 and 9999")
    return found


def span(field: str, message: HasFields, value: Duration) -> timedelta | None:
    """A length of time, if it is set."""
    if not message.HasField(field.rpartition(".")[2]):
        return None
    try:
        found = value.ToTimedelta()
    except (ValueError, OverflowError):
        found = timedelta.max
    if not timedelta(0) <= found <= LONGEST_DELAY:
        raise InvalidRequest(field, f"must be 0 to {LONGEST_DELAY.days} days")
    return found


def wait_of(message: HasFields, value: Duration) -> float:
    """Seconds for which an answer may wait."""
    found = span("wait", message, value)
    seconds = 0.0 if found is None else found.total_seconds()
    if seconds > LONGEST_WAIT:
        raise InvalidRequest("wait", f"must be at most {LONGEST_WAIT:g} s, got {seconds:g}")
    return seconds


def json_of(field: str, value: str) -> object:
    """A JSON text, read; what cannot be stored is found by the database."""
    if len(value) > JSON_BYTES:
        raise InvalidRequest(field, f"has {len(value)} characters, the limit is {JSON_BYTES}")
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRequest(field, f"is no JSON: {error}") from None


def json_object(field: str, value: str) -> dict[str, object]:
    """A JSON object; unset is an empty one."""
    found = json_of(field, value) if value else {}
    if not isinstance(found, dict):
        raise InvalidRequest(field, "must be a JSON object: arguments by name")
    return found


def priority(field: str, message: HasFields, value: int) -> int | None:
    """A priority, if it is set."""
    if not message.HasField(field.rpartition(".")[2]):
        return None
    if not 0 <= value <= 9:
        raise InvalidRequest(field, f"must be 0 to 9, got {value}")
    return value
