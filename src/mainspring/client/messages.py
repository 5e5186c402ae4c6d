"""Values as messages and back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from mainspring.errors import InvalidArguments, InvalidTime
from mainspring.v1 import body_pb2

Seconds: TypeAlias = float | timedelta


def new_id() -> str:
    """A UUID of version 7: ids that were made one after another lie side by side in the database."""
    stamp = int(time.time() * 1000).to_bytes(6, "big")
    random = bytearray(os.urandom(10))
    random[0] = 0x70 | random[0] & 0x0F
    random[2] = 0x80 | random[2] & 0x3F
    return str(UUID(bytes=stamp + bytes(random)))


def to_json(value: object) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"this cannot be written as JSON: {error}") from None


def to_object(value: Mapping[str, object] | None) -> str:
    """Arguments by name as JSON text."""
    return "" if value is None else to_json(dict(value))


def from_json(text: str) -> Any:
    return json.loads(text)


def to_time(value: datetime | None) -> Timestamp | None:
    """A moment; one without a zone means another on every machine."""
    if value is None:
        return None
    if value.tzinfo is None:
        raise InvalidTime(f"a time must have a zone, got {value!r}; use datetime.now(UTC)")
    found = Timestamp()
    found.FromDatetime(value)
    return found


def from_time(message: Any, field: str) -> datetime | None:
    found: datetime | None = None
    if message.HasField(field):
        found = getattr(message, field).ToDatetime(tzinfo=UTC)
    return found


def seconds_of(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def to_span(value: Seconds | None) -> Duration | None:
    """A length of time, in seconds."""
    if value is None:
        return None
    found = Duration()
    found.FromTimedelta(value if isinstance(value, timedelta) else timedelta(seconds=float(value)))
    return found


def to_body(value: object) -> body_pb2.Body:
    """A value of a state: a message stays one, all else is JSON."""
    if isinstance(value, Packed):
        return body_pb2.Body(message=value)
    if isinstance(value, Message):
        packed = Packed()
        packed.Pack(value)
        return body_pb2.Body(message=packed)
    return body_pb2.Body(json=to_json(value))


def from_body(body: body_pb2.Body) -> Any:
    """A state's value: what JSON says, or the message with its type."""
    if body.WhichOneof("form") == "message":
        return body.message
    return from_json(body.json)
