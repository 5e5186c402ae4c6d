"""Errors as problem+json (RFC 9457): one table from the statuses that all transports share to HTTP's."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from mainspring.server.handlers.statuses import Answered

MEDIA_TYPE = "application/problem+json"
TOLD_CHARACTERS = 1000
# Of a name that stands in a header: what RFC 6750 lets a scope have.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,300}")

STATUSES = {
    "INVALID_ARGUMENT": 422,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "INTERNAL": 500,
}
# What the caller named as its precondition did not hold; what only an operator can mend.
_BY_CODE = {"moved_on": 412, "missing_rights": 500, "schema": 500}


# Named so by RFC 9110, which Python follows from 3.13 on.
_TITLES = {413: "Content Too Large", 414: "URI Too Long", 422: "Unprocessable Content"}


class FieldProblem(msgspec.Struct):
    """What is wrong with one field of a request."""

    field: str
    detail: str


class ProblemDetails(msgspec.Struct, omit_defaults=True):
    """Why a request was not done. Programs compare `code`, people read `detail`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []
    version: int | None = None  # of what is there, where a precondition did not hold


class HttpRefused(Exception):
    """What HTTP itself, or the shape of a request, makes us refuse. `code` is what programs compare."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        version: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.field = field
        self.version = version
        self.headers = dict(headers or {})
        super().__init__(detail)


def refused_by(answer: Answered, *, had_token: bool, prefix: str = "") -> HttpRefused:
    """An error of a call as HTTP tells it; fields have the names that HTTP's callers gave them."""
    status = _BY_CODE.get(answer.code, STATUSES[answer.status])
    field, detail = answer.field, answer.message
    if field is not None:
        named = field.removeprefix(prefix).removesuffix("_json")
        detail = named + detail.removeprefix(field) if detail.startswith(field) else detail
        field = named
    headers: dict[str, str] = {}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="mainspring"' + (
            ', error="invalid_token"' if had_token else ""
        )
    if status == 403:
        scope = answer.scope or ""
        told = f', scope="{scope}"' if _SCOPE.fullmatch(scope) else ""
        headers["www-authenticate"] = f'Bearer realm="mainspring", error="insufficient_scope"{told}'
    if answer.retry_seconds is not None:
        headers["retry-after"] = str(math.ceil(answer.retry_seconds))
    return HttpRefused(status, answer.code, detail, field=field, headers=headers)


def details(refused: HttpRefused) -> ProblemDetails:
    """The body of a refusal."""
    detail = str(refused)[:TOLD_CHARACTERS]
    return ProblemDetails(
        type=f"urn:mainspring:error:{refused.code}",
        title=title(refused.status),
        status=refused.status,
        detail=detail,
        code=refused.code,
        errors=[] if refused.field is None else [FieldProblem(refused.field, detail)],
        version=refused.version,
    )


def title(status: int) -> str:
    """What HTTP calls a status."""
    return _TITLES.get(status) or HTTPStatus(status).phrase
