"""The OpenAPI 3.1 document, written from the table of routes: `python -m mainspring.server.http.openapi`.

It is checked in and served as it is; a test compares it with what the routes say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import msgspec

from mainspring.server.http import problems
from mainspring.server.http.answer import JSON
from mainspring.server.http.problems import ProblemDetails
from mainspring.server.http.routes.route import AnyRoute, HeaderPlace
from mainspring.server.http.routes.table import ROUTES

Json = dict[str, object]
_REF = "#/components/schemas/{name}"
_NAMES = re.compile(r"{(\w+)}")
# What any call may be answered with besides its own answers.
_ANY_REFUSAL = (400, 401, 403, 404, 406, 408, 414, 422, 429, 431, 500, 503, 504)
_OF_BODIES = (413, 415)
_MEANINGS = {
    "task": "The task's name.",
    "id": "The id.",
    "name": "The name.",
    "type": "The process type's name.",
    "process": "The process's id, or key: and the key that its starter gave.",
    "kind": "The kind of entities.",
    "stage": "The stage's name.",
    "wait": "Seconds for which the answer may wait for what is asked for.",
    "key": "The key that the call was enqueued with, as it was answered.",
    "newer_than": "The revision that was seen.",
    "state": "Only those in this state.",
    "attrs": "Only those with these search attributes: a JSON object.",
    "limit": "At most so many.",
    "cursor": "The `next_cursor` of the page before.",
}
_SPACES = (
    ("livez", "Whether the process is alive; restart by it."),
    ("readyz", "Whether the database answered within 10 seconds; route by it."),
    (
        "metrics",
        "The engine's numbers and this process's own, as OpenMetrics text; scope `metrics`.",
    ),
    ("openapi.json", "This document."),
)


def document() -> Json:
    """The whole document."""
    structs = list(dict.fromkeys(_structs()))
    _, components = msgspec.json.schema_components(structs, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mainspring",
            "version": "1",
            "description": "Tasks, params, processes and states of a Mainspring, for any language. "
            "Every call may be sent again: give it an Idempotency-Key where it has one.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token (mainspring tokens create). Over TLS a client certificate "
                    "whose name has scopes will do.",
                }
            },
            "responses": {
                f"Problem{status}": _problem(status)
                for status in sorted({*_ANY_REFUSAL, *_OF_BODIES, 409, 412, 428})
            },
        },
    }


def text() -> str:
    """The document as it is kept in openapi.json."""
    raw = msgspec.json.encode(document(), order="deterministic")
    return msgspec.json.format(raw, indent=1).decode() + "\n"


def _structs() -> Iterator[type[msgspec.Struct]]:
    yield ProblemDetails
    for route in ROUTES:
        if route.body is not None:
            yield route.body
        yield from (body for _, body in route.answers.values() if body is not None)


def _paths() -> Json:
    found: dict[str, Json] = {}
    for route in ROUTES:
        found.setdefault(route.path, {})[route.verb.lower()] = _operation(route)
    for name, meaning in _SPACES:
        found[f"/{name}"] = {"get": _space(name, meaning)}
    return dict(found)


def _operation(route: AnyRoute) -> Json:
    told: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.call.partition("Service")[0].lower() + "s"],
        "parameters": [*_path(route), *_query(route), *map(_header, route.headers)],
        "responses": _responses(route),
    }
    if route.body is not None:
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(route.body)}}}
    return told


def _path(route: AnyRoute) -> Iterator[Json]:
    for name in _NAMES.findall(route.path):
        schema = {"type": "string", "minLength": 1}
        meaning = _MEANINGS[name]
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": meaning,
            "schema": schema,
        }


def _query(route: AnyRoute) -> Iterator[Json]:
    schema = msgspec.json.schema(route.query, ref_template=_REF)
    fields = schema["$defs"][route.query.__name__]
    for name, field in fields["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in fields.get("required", ()),
            "description": _MEANINGS[name],
            "schema": {key: value for key, value in field.items() if key != "description"},
        }


def _header(place: HeaderPlace) -> Json:
    return {
        "name": place.name,
        "in": "header",
        "required": place.required,
        "description": place.meaning,
        "schema": {"type": "string"},
    }


def _responses(route: AnyRoute) -> Json:
    found: Json = {}
    headers = {
        place.name: {"description": place.meaning, "schema": {"type": "string"}}
        for place in route.answer_headers
    }
    for status, (meaning, body) in route.answers.items():
        answer: Json = {"description": meaning}
        if headers:
            answer["headers"] = headers
        if body is not None:
            answer["content"] = {JSON: {"schema": _ref(body)}}
        found[str(status)] = answer
    bodies = _OF_BODIES if route.body is not None else (413,)
    for status in sorted({*_ANY_REFUSAL, *bodies, *route.refusals}):
        found[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    return found


def _problem(status: int) -> Json:
    told: Json = {
        "description": problems.title(status),
        "content": {problems.MEDIA_TYPE: {"schema": _ref(ProblemDetails)}},
    }
    if status in (401, 403):
        told["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    if status in (429, 503):
        told["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
    return told


def _space(name: str, meaning: str) -> Json:
    kind = JSON if name.endswith("json") else "text/plain"
    if name == "metrics":
        kind = "application/openmetrics-text"
    told: Json = {
        "operationId": name.partition(".")[0],
        "summary": meaning,
        "tags": ["server"],
        "responses": {"200": {"description": meaning, "content": {kind: {}}}},
    }
    refusals = {
        "livez": (403, 503),
        "readyz": (403, 503),
        "metrics": (401, 403, 429, 503, 504, 500),
    }
    for status in refusals.get(name, (403, 503)):
        told["responses"][str(status)] = {  # type: ignore[index]
            "$ref": f"#/components/responses/Problem{status}"
        }
    if name != "metrics":
        told["security"] = []
    return told


def _ref(struct: type[msgspec.Struct]) -> Json:
    return {"$ref": _REF.format(name=struct.__name__)}


if __name__ == "__main__":
    sys.stdout.write(text())
