"""Routes of params: read, waited for, advanced and moved back. The ETag of a param is its revision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.server.handlers import checks
from mainspring.server.handlers.params import MOST_PARAMS
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.routes import values
from mainspring.server.http.routes.route import (
    AnyRoute,
    HeaderPlace,
    HttpAsked,
    NoQuery,
    Route,
    Told,
)
from mainspring.v1 import param_service_pb2 as messages

Integer = Annotated[int, msgspec.Meta(ge=-values.INT64 - 1, le=values.INT64)]
Version = Annotated[str, msgspec.Meta(min_length=1, max_length=checks.WHY_BYTES)]
Why = Annotated[str, msgspec.Meta(max_length=checks.WHY_BYTES)]
Revision = Annotated[int, msgspec.Meta(ge=0, le=values.INT64)]
ETAG = HeaderPlace("ETag", "The param's revision: it changes with every change.")


class ValueOfParam(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The value of a param: one of the three."""

    instant: values.Instant | None = None
    integer: Integer | None = None
    version: Version | None = None


class NewValue(msgspec.Struct, forbid_unknown_fields=True):
    """A value to advance a param to. `if_greater`: a lower one is left alone instead of refused."""

    value: ValueOfParam
    if_greater: bool = False
    why: Why = ""


class NamedValue(msgspec.Struct, forbid_unknown_fields=True):
    """A param and its new value."""

    name: str
    value: ValueOfParam


class NewValues(msgspec.Struct, forbid_unknown_fields=True):
    """Values to advance several params to, all or none."""

    params: Annotated[list[NamedValue], msgspec.Meta(min_length=1, max_length=MOST_PARAMS)]
    if_greater: bool = False
    why: Why = ""


class MovedParam(msgspec.Struct):
    """Whether a param has moved: one that has the value already has not."""

    name: str
    moved: bool


class MovedParams(msgspec.Struct):
    """In the order of the request."""

    params: list[MovedParam]


class ParamNow(msgspec.Struct):
    """A param as it stands; one that was never set has no value."""

    name: str
    value: ValueOfParam | None
    revision: int
    changed_at: datetime | None
    changed_by: str


class ParamsNow(msgspec.Struct):
    """In the order of the names. `revision` rises when any of them changes."""

    params: list[ParamNow]
    revision: int


class ParamQuery(msgspec.Struct, forbid_unknown_fields=True):
    """With `newer_than`, the revision that was seen, and `wait` the answer comes when it has moved on."""

    newer_than: Revision = 0
    wait: values.Wait = 0.0


class ParamsQuery(ParamQuery, forbid_unknown_fields=True, kw_only=True):
    """The same for several, each named once: name=a.b&name=c.d."""

    name: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_PARAMS)]


class Restated(msgspec.Struct, forbid_unknown_fields=True):
    """Where a param goes back to, and which chunks of its data were restated."""

    to: ValueOfParam
    chunks: list[ValueOfParam] = []
    why: Why = ""


class ConcernedTask(msgspec.Struct):
    """A task that saw more of the param than it has now."""

    task: str
    seen: ValueOfParam | None
    in_flight: bool
    running: bool
    repair: str


class ConcernedTasks(msgspec.Struct):
    """Whom the rewind concerns."""

    affected: list[ConcernedTask]


def _message(given: ValueOfParam, field: str) -> messages.Value:
    if sum(one is not None for one in (given.instant, given.integer, given.version)) > 1:
        raise HttpRefused(
            422,
            "invalid_request",
            f"{field} has several values: give an instant, an integer or a version",
            field=field,
        )
    found = messages.Value()
    if given.instant is not None:
        found.instant.CopyFrom(values.timestamp(given.instant))
    elif given.integer is not None:
        found.integer = given.integer
    elif given.version is not None:
        found.version = given.version
    return found


def _value(message: messages.Value) -> ValueOfParam | None:
    match message.WhichOneof("kind"):
        case "instant":
            return ValueOfParam(instant=values.moment_of(message.instant))
        case "integer":
            return ValueOfParam(integer=message.integer)
        case "version":
            return ValueOfParam(version=message.version)
        case _:
            return None


def _now(param: messages.Param) -> ParamNow:
    return ParamNow(
        param.name,
        _value(param.value),
        param.revision,
        values.moment_of(param.changed_at) if param.HasField("changed_at") else None,
        param.changed_by,
    )


def _seen(asked: HttpAsked[None, ParamQuery]) -> int:
    """The revision that the caller has: in the query, or as the ETag that he does not want again."""
    tag = asked.header("if-none-match")
    if asked.query.newer_than or tag is None:
        return asked.query.newer_than
    return values.version_of(tag, "If-None-Match")


def _ask_one(asked: HttpAsked[None, ParamQuery]) -> messages.GetParamsRequest:
    return messages.GetParamsRequest(
        names=[asked.path["name"]],
        newer_than=_seen(asked),
        wait=values.duration(asked.query.wait),
    )


def _tell_one(asked: HttpAsked[None, ParamQuery], response: messages.GetParamsResponse) -> Told:
    [param] = response.params
    headers = {"etag": values.etag(param.revision)}
    if asked.header("if-none-match") is not None and param.revision == _seen(asked):
        return Told(304, None, headers)
    return Told(200, _now(param), headers)


def _ask_many(asked: HttpAsked[None, ParamsQuery]) -> messages.GetParamsRequest:
    return messages.GetParamsRequest(
        names=asked.query.name,
        newer_than=asked.query.newer_than,
        wait=values.duration(asked.query.wait),
    )


def _tell_many(asked: HttpAsked[None, ParamsQuery], response: messages.GetParamsResponse) -> Told:
    return Told(200, ParamsNow(list(map(_now, response.params)), response.revision))


def _ask_put(asked: HttpAsked[NewValue, NoQuery]) -> messages.AdvanceParamsRequest:
    body = asked.body
    return _advance({asked.path["name"]: body.value}, ["value"], body.if_greater, body.why)


def _ask_patch(asked: HttpAsked[NewValues, NoQuery]) -> messages.AdvanceParamsRequest:
    body = asked.body
    return messages.AdvanceParamsRequest(
        params=[
            messages.Param(name=one.name, value=_message(one.value, f"params[{n}].value"))
            for n, one in enumerate(body.params)
        ],
        if_greater=body.if_greater,
        why=body.why,
    )


def _advance(
    params: dict[str, ValueOfParam], fields: Sequence[str], if_greater: bool, why: str
) -> messages.AdvanceParamsRequest:
    return messages.AdvanceParamsRequest(
        params=[
            messages.Param(name=name, value=_message(value, field))
            for (name, value), field in zip(params.items(), fields, strict=True)
        ],
        if_greater=if_greater,
        why=why,
    )


def _tell_put(
    asked: HttpAsked[NewValue, NoQuery], response: messages.AdvanceParamsResponse
) -> Told:
    return Told(200, MovedParam(asked.path["name"], response.moved[0]))


def _tell_patch(
    asked: HttpAsked[NewValues, NoQuery], response: messages.AdvanceParamsResponse
) -> Told:
    moved = zip(asked.body.params, response.moved, strict=True)
    return Told(200, MovedParams([MovedParam(one.name, has) for one, has in moved]))


def _ask_rewind(asked: HttpAsked[Restated, NoQuery]) -> messages.RewindParamRequest:
    tag = asked.header("if-match")
    if tag is None:
        raise HttpRefused(
            428,
            "precondition_required",
            "say in If-Match which revision you saw (the ETag), or * for any",
        )
    return messages.RewindParamRequest(
        name=asked.path["name"],
        to=_message(asked.body.to, "to"),
        chunks=[_message(one, f"chunks[{n}]") for n, one in enumerate(asked.body.chunks)],
        why=asked.body.why,
        revision=0 if tag == "*" else values.version_of(tag, "If-Match"),
    )


def _tell_rewind(
    asked: HttpAsked[Restated, NoQuery], response: messages.RewindParamResponse
) -> Told:
    return Told(
        200,
        ConcernedTasks(
            [
                ConcernedTask(one.task, _value(one.seen), one.in_flight, one.running, one.repair)
                for one in response.affected
            ]
        ),
    )


ROUTES: list[AnyRoute] = [
    Route(
        "GET",
        "/v1/params/{name}",
        "getParam",
        "A param as it stands; with `newer_than` (or If-None-Match) and `wait`, when it has moved on.",
        "ParamService/GetParams",
        _ask_one,
        _tell_one,
        {200: ("The param.", ParamNow), 304: ("It has the revision that you have.", None)},
        ParamQuery,
        headers=[HeaderPlace("If-None-Match", "The ETag that you have.")],
        answer_headers=[ETAG],
        prefix="names[0]",
    ),
    Route(
        "GET",
        "/v1/params",
        "getParams",
        "Params as they stand; with `newer_than` and `wait`, when one of them has moved on.",
        "ParamService/GetParams",
        _ask_many,
        _tell_many,
        {200: ("The params.", ParamsNow)},
        ParamsQuery,
    ),
    Route(
        "PUT",
        "/v1/params/{name}",
        "advanceParam",
        "Set a param forward. Sent again it moves nothing.",
        "ParamService/AdvanceParams",
        _ask_put,
        _tell_put,
        {200: ("It has the value, or (if_greater) a greater one.", MovedParam)},
        NoQuery,
        NewValue,
        prefix="params[0].",
        refusals=[409],
    ),
    Route(
        "PATCH",
        "/v1/params",
        "advanceParams",
        "Set params forward, all or none.",
        "ParamService/AdvanceParams",
        _ask_patch,
        _tell_patch,
        {200: ("They have the values, or (if_greater) greater ones.", MovedParams)},
        NoQuery,
        NewValues,
        refusals=[409],
    ),
    Route(
        "POST",
        "/v1/params/{name}/rewind",
        "rewindParam",
        "Move a param back: its data was restated.",
        "ParamService/RewindParam",
        _ask_rewind,
        _tell_rewind,
        {200: ("It is moved back.", ConcernedTasks)},
        NoQuery,
        Restated,
        headers=[
            HeaderPlace(
                "If-Match",
                "The revision that you saw (its ETag), or *: not to be sent again.",
                True,
            )
        ],
        refusals=[409, 412, 428],
    ),
]
