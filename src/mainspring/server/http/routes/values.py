"""Values that several routes share: waits, times, versions in headers, why something failed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from mainspring.server.http.problems import HttpRefused
from mainspring.v1 import body_pb2

INT32 = 2**31 - 1
INT64 = 2**63 - 1
_LONGEST_SECONDS = 365_000 * 86_400
_TAG = re.compile(r'(?:W/)?"(\d{1,18})"')

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_SECONDS)]
Wait = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=60, description="Seconds for which the answer may wait for what is asked for."
    ),
]
Priority = Annotated[int, msgspec.Meta(ge=0, le=9)]
# Any JSON value; it is passed on as it was written.
JsonObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
NULL = msgspec.Raw(b"null")


class WaitQuery(msgspec.Struct, forbid_unknown_fields=True):
    """For how long the answer may wait."""

    wait: Wait = 0.0


class CallFailure(msgspec.Struct):
    """Why a run failed, or why there will be no result."""

    code: str
    message: str
    final: bool


def failure(problem: body_pb2.Problem) -> CallFailure:
    return CallFailure(problem.code, problem.message, problem.final)


def json_text(raw: msgspec.Raw) -> str:
    """A JSON value as its text; the body was found to be UTF-8."""
    return bytes(raw).decode()


def raw_json(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def nothing() -> msgspec.Raw:
    """What a caller left out."""
    return msgspec.Raw(b"")


def null() -> msgspec.Raw:
    """JSON's null."""
    return NULL


def optional_timestamp(at: datetime | None) -> Timestamp | None:
    return None if at is None else timestamp(at)


def timestamp(at: datetime) -> Timestamp:
    found = Timestamp()
    try:
        found.FromDatetime(at.astimezone(UTC))
    except (ValueError, OverflowError):
        raise HttpRefused(
            422, "invalid_time", "a time must be between the years 1 and 9999"
        ) from None
    return found


def moment_of(found: Timestamp) -> datetime:
    return found.ToDatetime(tzinfo=UTC)


def duration(seconds: float | None) -> Duration | None:
    if seconds is None:
        return None
    found = Duration()
    found.FromTimedelta(timedelta(seconds=seconds))
    return found


def idempotency_key(given: str | None) -> str:
    """The header's UUID, as it is or in quotes; empty: there is none."""
    if given is None:
        return ""
    try:
        return str(UUID(unquoted(given)))
    except ValueError:
        raise HttpRefused(
            422,
            "invalid_request",
            "Idempotency-Key must be a UUID that its caller made",
            field="Idempotency-Key",
        ) from None


def unquoted(text: str) -> str:
    """A header's text, which may stand in quotes."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def seconds_of(found: Duration) -> float:
    return found.seconds + found.nanos / 1e9


def etag(version: int) -> str:
    return f'"{version}"'


def version_of(tag: str, header: str) -> int:
    """The version in If-Match or If-None-Match; one that was never given is none that matches."""
    found = _TAG.fullmatch(tag)
    if found is None:
        raise HttpRefused(
            422,
            "invalid_request",
            f'{header} must be one ETag as it was answered, such as "3"',
            field=header,
        )
    return int(found[1])


def path_of(*parts: str) -> str:
    """The path of something, with what must be escaped in it escaped."""
    return "/v1/" + "/".join(map(escaped, parts))


def escaped(text: str) -> str:
    """A text as it stands in one part of a URL."""
    return quote(text, safe="")
