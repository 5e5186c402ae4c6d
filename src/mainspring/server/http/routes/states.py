"""Routes of states: private states of stages, read and replaced by compare-and-set.

The ETag of a state is its version. A write says which version it replaces, or that there is none.
"""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

import msgspec

from mainspring.server.handlers.states import MOST_STATES
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
from mainspring.v1 import state_service_pb2 as messages

ETAG = HeaderPlace("ETag", "The state's version: it changes with every change.")


class StateMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A protobuf message: its type, and its bytes in base64."""

    type_url: str
    value: Annotated[
        bytes, msgspec.Meta(extra_json_schema={"type": "string", "contentEncoding": "base64"})
    ]


class NewState(msgspec.Struct, forbid_unknown_fields=True):
    """A state: JSON, or a message. With neither the state is empty."""

    json: msgspec.Raw = msgspec.field(default_factory=values.nothing)
    message: StateMessage | None = None
    schema: Annotated[int, msgspec.Meta(ge=1, le=values.INT32)] = 1


class StateNow(msgspec.Struct):
    """A state as it stands. Version 0: there is none."""

    id: str
    version: int
    schema: int
    json: msgspec.Raw
    message: StateMessage | None


class StatesNow(msgspec.Struct):
    """In the order of the ids."""

    states: list[StateNow]


class StatesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which entities: id=1&id=2."""

    id: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_STATES)]


class SavedState(msgspec.Struct):
    """The version that the write made."""

    id: str
    version: int


def _now(state: messages.State) -> StateNow:
    form = state.body.WhichOneof("form")
    packed = state.body.message
    return StateNow(
        state.id,
        state.version,
        state.schema,
        values.raw_json(state.body.json) if form == "json" else values.NULL,
        StateMessage(packed.type_url, packed.value) if form == "message" else None,
    )


def _ask_one(asked: HttpAsked[None, NoQuery]) -> messages.GetStatesRequest:
    path = asked.path
    return messages.GetStatesRequest(kind=path["kind"], stage=path["stage"], ids=[path["id"]])


def _tell_one(asked: HttpAsked[None, NoQuery], response: messages.GetStatesResponse) -> Told:
    [state] = response.states
    if not state.version:
        path = asked.path
        raise HttpRefused(
            404,
            "not_found",
            f"{path['kind']} {path['id']!r} has no state of stage {path['stage']!r}",
        )
    headers = {"etag": values.etag(state.version)}
    if asked.header("if-none-match") == headers["etag"]:
        return Told(304, None, headers)
    return Told(200, _now(state), headers)


def _ask_many(asked: HttpAsked[None, StatesQuery]) -> messages.GetStatesRequest:
    path = asked.path
    return messages.GetStatesRequest(kind=path["kind"], stage=path["stage"], ids=asked.query.id)


def _tell_many(asked: HttpAsked[None, StatesQuery], response: messages.GetStatesResponse) -> Told:
    return Told(200, StatesNow(list(map(_now, response.states))))


def _version(asked: HttpAsked[NewState, NoQuery]) -> int:
    """The version that the write replaces; 0: none."""
    match, none = asked.header("if-match"), asked.header("if-none-match")
    if none == "*" and match is None:
        return 0
    if match is None or none is not None or match == "*":
        raise HttpRefused(
            428,
            "precondition_required",
            "say which version this replaces: If-Match with the ETag that you read, or "
            "If-None-Match: * where there is none",
        )
    return values.version_of(match, "If-Match")


def _ask_put(asked: HttpAsked[NewState, NoQuery]) -> messages.SetStateRequest:
    body = asked.body
    text = values.json_text(body.json)
    if text and body.message is not None:
        raise HttpRefused(
            422, "invalid_request", "json and message are both set; give one", field="json"
        )
    state = messages.State(id=asked.path["id"], version=_version(asked), schema=body.schema)
    if text:
        state.body.json = text
    elif body.message is not None:
        state.body.message.type_url = body.message.type_url
        state.body.message.value = body.message.value
    given = asked.header("idempotency-key")
    return messages.SetStateRequest(
        kind=asked.path["kind"],
        stage=asked.path["stage"],
        state=state,
        request_id=values.unquoted(given) if given else str(uuid4()),
    )


def _tell_put(asked: HttpAsked[NewState, NoQuery], response: messages.SetStateResponse) -> Told:
    headers = {"etag": values.etag(response.version)}
    if response.set:
        return Told(200, SavedState(asked.path["id"], response.version), headers)
    now = f"it has version {response.version}" if response.version else "there is none"
    raise HttpRefused(
        412,
        "moved_on",
        f"the state is not what you saw: {now}; read it again",
        version=response.version,
        headers=headers if response.version else None,
    )


ROUTES: list[AnyRoute] = [
    Route(
        "GET",
        "/v1/states/{kind}/{stage}/{id}",
        "getState",
        "The state of a stage for one entity.",
        "StateService/GetStates",
        _ask_one,
        _tell_one,
        {200: ("The state.", StateNow), 304: ("It has the version that you have.", None)},
        NoQuery,
        headers=[HeaderPlace("If-None-Match", "The ETag that you have.")],
        answer_headers=[ETAG],
        prefix="ids[0]",
    ),
    Route(
        "GET",
        "/v1/states/{kind}/{stage}",
        "getStates",
        "States of a stage for several entities; version 0 where there is none.",
        "StateService/GetStates",
        _ask_many,
        _tell_many,
        {200: ("The states.", StatesNow)},
        StatesQuery,
    ),
    Route(
        "PUT",
        "/v1/states/{kind}/{stage}/{id}",
        "setState",
        "Replace a state, if it still has the version that you saw.",
        "StateService/SetState",
        _ask_put,
        _tell_put,
        {200: ("It is replaced.", SavedState)},
        NoQuery,
        NewState,
        headers=[
            HeaderPlace("If-Match", "The ETag of the state that you saw."),
            HeaderPlace("If-None-Match", "*: there is no state yet."),
            HeaderPlace(
                "Idempotency-Key", "The same when the write is sent again: it is answered as done."
            ),
        ],
        answer_headers=[ETAG],
        prefix="state.",
        refusals=[412, 428],
    ),
]
