"""A route: a path and a verb of HTTP, the call that it means, and how the two are translated.

The table of routes is what is served and what the OpenAPI document is written from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from google.protobuf.message import Message

from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.request import HttpRequest

B = TypeVar("B")
Q = TypeVar("Q", bound=msgspec.Struct)
M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)
_AT = re.compile(r" - at `\$\.?(.*)`$")


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing is asked in the query."""


@dataclass(frozen=True, slots=True)
class HeaderPlace:
    """A header that a route reads or answers with."""

    name: str
    meaning: str
    required: bool = False


IDEMPOTENCY_KEY = HeaderPlace(
    "Idempotency-Key", "A UUID made by the caller: sent again with it, the same is answered."
)


@dataclass(frozen=True, slots=True)
class HttpAsked(Generic[B, Q]):
    """A request, read: what a route translates."""

    path: Mapping[str, str]
    query: Q
    body: B
    request: HttpRequest

    def header(self, name: str) -> str | None:
        return self.request.header(name)


@dataclass(frozen=True, slots=True)
class Told:
    """An answer before it is written. `body` is written as JSON."""

    status: int
    body: msgspec.Struct | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route(Generic[B, Q, M, R]):
    """One operation."""

    verb: str
    path: str
    name: str  # of the operation, in the OpenAPI document
    summary: str
    call: str  # Service/Method
    ask: Callable[[HttpAsked[B, Q]], M]
    tell: Callable[[HttpAsked[B, Q], R], Told]
    answers: Mapping[int, tuple[str, type[msgspec.Struct] | None]]
    query: type[Q]
    body: type[B] | None = None
    headers: Sequence[HeaderPlace] = ()
    answer_headers: Sequence[HeaderPlace] = ()
    prefix: str = ""  # of the fields' names in the message, which the caller has not written
    refusals: Sequence[int] = ()  # besides those that any route has

    def read_query(self, request: HttpRequest) -> Q:
        """The query's fields as values; one that nobody knows is refused."""
        given: dict[str, object] = {}
        hints = get_type_hints(self.query)
        for name, values in request.query.items():
            if get_origin(hints.get(name)) is list:
                given[name] = values
            elif len(values) == 1:
                given[name] = values[0]
            else:
                raise HttpRefused(
                    422, "invalid_request", f"{name} is given more than once", field=name
                )
        try:
            return msgspec.convert(given, self.query, strict=False)
        except msgspec.ValidationError as error:
            raise _not_valid(error) from None

    def read_body(self, text: bytes) -> B:
        """The body as a value: no JSON is 400, JSON that does not fit is 422."""
        assert self.body is not None
        try:
            text.decode()
            return msgspec.json.decode(text, type=self.body)
        except msgspec.ValidationError as error:
            raise _not_valid(error) from None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise HttpRefused(400, "no_json", f"the body is no JSON: {error}") from None
        except RecursionError:
            raise HttpRefused(
                400, "no_json", "the body has values too deep within values"
            ) from None


AnyRoute = Route[Any, Any, Any, Any]


class Routes:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[AnyRoute]) -> None:
        self.all = tuple(routes)
        self._by_place: dict[int, list[tuple[list[str], AnyRoute]]] = {}
        for route in self.all:
            parts = route.path[1:].split("/")
            self._by_place.setdefault(len(parts), []).append((parts, route))

    def find(self, verb: str, segments: Sequence[str]) -> tuple[AnyRoute, dict[str, str]] | None:
        """The route and what stands in its path; None where there is no such path."""
        allowed = []
        for parts, route in self._by_place.get(len(segments), ()):
            found = _matched(parts, segments)
            if found is None:
                continue
            if route.verb == verb or (verb == "HEAD" and route.verb == "GET"):
                return route, found
            allowed.append(route.verb)
        if not allowed:
            return None
        raise not_allowed(verb, allowed)


def not_allowed(verb: str, allowed: Sequence[str]) -> HttpRefused:
    """405, with what the path is there for."""
    more = ["HEAD"] if "GET" in allowed else []
    names = ", ".join(sorted({*allowed, *more}))
    return HttpRefused(
        405, "method_not_allowed", f"{verb} is not for this path: {names}", headers={"allow": names}
    )


def _matched(parts: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    found = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            found[part[1:-1]] = segment
        elif part != segment:
            return None
    return found


def _not_valid(error: msgspec.ValidationError) -> HttpRefused:
    text = str(error)
    place = _AT.search(text)
    field = (place[1] if place else "") or "the request"
    told = _AT.sub("", text)
    return HttpRefused(
        422, "invalid_request", f"{field}: {told[:1].lower()}{told[1:]}", field=field
    )
