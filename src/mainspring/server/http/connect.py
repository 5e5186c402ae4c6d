"""The same calls in Connect's way: `POST /mainspring.v1.TaskService/EnqueueTasks`, a message as body.

The message is JSON, as protobuf maps it, or bytes.
For generated clients of Connect, and for whoever has the messages already. Unary calls only: params are
watched by asking again with `newer_than`.
"""

from __future__ import annotations

import re

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message

from mainspring.errors import InvalidRequest
from mainspring.server.handlers.methods import Method
from mainspring.server.handlers.statuses import Answered
from mainspring.server.http.accept import media_type
from mainspring.server.http.answer import JSON, HttpAnswer
from mainspring.server.http.problems import HttpRefused

PROTO = "application/proto"
_TIMEOUT = re.compile(r"\d{1,10}")

# HTTP's status of each of Connect's codes.
_STATUSES = {
    "invalid_argument": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "failed_precondition": 400,
    "resource_exhausted": 429,
    "unavailable": 503,
    "deadline_exceeded": 504,
    "internal": 500,
}
# What HTTP refuses before there is a call, in Connect's words.
_CODES = {
    400: "invalid_argument",
    403: "permission_denied",
    408: "deadline_exceeded",
    413: "resource_exhausted",
    431: "resource_exhausted",
    422: "invalid_argument",
    503: "unavailable",
}


class ConnectError(msgspec.Struct, omit_defaults=True):
    """An error as Connect writes it; `reason` is our own code."""

    code: str
    message: str
    reason: str


def form_of(content_type: str | None) -> str:
    """JSON or bytes."""
    found = media_type(content_type)
    if found not in (JSON, PROTO):
        raise HttpRefused(415, "unsupported_media_type", f"the body must be {JSON} or {PROTO}")
    return found


def seconds_of(header: str | None) -> float | None:
    """For how long the caller waits for the answer."""
    if header is None:
        return None
    if not _TIMEOUT.fullmatch(header):
        raise InvalidRequest("Connect-Timeout-Ms", "must be a number of milliseconds")
    return int(header) / 1000


def read(method: Method, form: str, body: bytes) -> Message:
    """The request of a body; fields that nobody knows are refused."""
    if form == PROTO:
        return method.read(body)
    request = method.request()
    try:
        json_format.Parse(body or b"{}", request, max_recursion_depth=50)
    except (json_format.ParseError, UnicodeError, ValueError, RecursionError) as error:
        name = request.DESCRIPTOR.full_name
        raise InvalidRequest("the request", f"is no {name} as JSON: {str(error)[:300]}") from None
    return request


def written(response: Message, form: str) -> HttpAnswer:
    """The answer of a call."""
    if form == PROTO:
        return HttpAnswer(200, response.SerializeToString(), {"content-type": PROTO})
    try:
        text = json_format.MessageToJson(response, indent=None)
    except TypeError:  # a state's message, of a type that only its stage knows
        raise HttpRefused(
            406,
            "not_acceptable",
            f"the answer has a message of an unknown type: ask for it as {PROTO}",
        ) from None
    return HttpAnswer(200, text.encode(), {"content-type": JSON})


def failed(answer: Answered, told: HttpRefused) -> HttpAnswer:
    """An error of a call; its headers are those of any other."""
    code = answer.status.lower()
    return _error(ConnectError(code, answer.message[:1000], answer.code), _STATUSES[code], told)


def refused(told: HttpRefused) -> HttpAnswer:
    """What HTTP refuses before there is a call."""
    code = _CODES.get(told.status, "unknown")
    return _error(ConnectError(code, str(told)[:1000], told.code), told.status, told)


def _error(error: ConnectError, status: int, told: HttpRefused) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode(error), {"content-type": JSON, **told.headers})
