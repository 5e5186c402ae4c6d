"""Routes of processes: started, looked up, waited for, signalled, cancelled.

A process is named in its path by the engine's id, or as `key:` and the key that its starter gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from mainspring.server.handlers import checks
from mainspring.server.handlers.process_pages import MOST, USUAL
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.routes import values
from mainspring.server.http.routes.route import (
    IDEMPOTENCY_KEY,
    AnyRoute,
    HeaderPlace,
    HttpAsked,
    NoQuery,
    Route,
    Told,
)
from mainspring.v1 import process_service_pb2 as messages

BY_KEY = "key:"
Key = Annotated[str, msgspec.Meta(max_length=checks.KEY_BYTES)]


class ProcessToStart(msgspec.Struct, forbid_unknown_fields=True):
    """A process to start. With a key it is started once for ever; else once for Idempotency-Key."""

    args: values.JsonObject = msgspec.field(default_factory=values.nothing)
    key: Key | None = None
    attrs: values.JsonObject = msgspec.field(default_factory=values.nothing)
    at: values.Instant | None = None
    priority: values.Priority | None = None


class StartedProcess(msgspec.Struct):
    """A process that is started. `is_new`: just now."""

    type: str
    id: str
    is_new: bool
    url: str


class ProcessNow(msgspec.Struct):
    """How a process stands: open, finished or cancelled. `parked` names its first parked task."""

    type: str
    id: str
    state: str
    has_result: bool
    result: msgspec.Raw
    problem: values.CallFailure | None
    parked: str


class ProcessesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which processes of the type, and which page of them."""

    state: Literal["open", "finished", "cancelled"] | None = None
    attrs: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = USUAL
    cursor: str = ""


class ProcessInList(msgspec.Struct):
    """A process in a list. So many of its tasks are parked."""

    id: str
    key: str
    state: str
    attrs: values.JsonObject
    created_at: datetime
    ended_at: datetime | None
    parked: int
    url: str


class ProcessPage(msgspec.Struct):
    """Newest first. Without `next_cursor` it is the last page."""

    processes: list[ProcessInList]
    next_cursor: str | None


class SignalToSend(msgspec.Struct, forbid_unknown_fields=True):
    """What a signal carries: any JSON value."""

    payload: msgspec.Raw = msgspec.field(default_factory=values.null)


class SentSignal(msgspec.Struct):
    """Whether the signal is new: one that is sent again is not."""

    is_new: bool


class CancelRequested(msgspec.Struct):
    """Whether a cancel was asked for: a process that has ended needs none."""

    requested: bool


def _ref(path: Mapping[str, str]) -> messages.Ref:
    type, name = path["type"], path["process"]
    if name.startswith(BY_KEY):
        return messages.Ref(type=type, key=name.removeprefix(BY_KEY))
    return messages.Ref(type=type, id=name)


def _ask_start(asked: HttpAsked[ProcessToStart, NoQuery]) -> messages.StartProcessRequest:
    body, own = asked.body, values.idempotency_key(asked.header("idempotency-key"))
    return messages.StartProcessRequest(
        type=asked.path["type"],
        key=body.key or "",
        id="" if body.key else own,
        args_json=values.json_text(body.args),
        attrs_json=values.json_text(body.attrs),
        at=values.optional_timestamp(body.at),
        priority=body.priority,
    )


def _tell_started(
    asked: HttpAsked[ProcessToStart, NoQuery], response: messages.StartProcessResponse
) -> Told:
    type = asked.path["type"]
    url = values.path_of("processes", type, response.id)
    started = StartedProcess(type, response.id, response.is_new, url)
    return Told(201 if response.is_new else 200, started, {"location": url})


def _ask_status(asked: HttpAsked[None, values.WaitQuery]) -> messages.GetProcessRequest:
    return messages.GetProcessRequest(ref=_ref(asked.path), wait=values.duration(asked.query.wait))


def _tell_status(
    asked: HttpAsked[None, values.WaitQuery], response: messages.GetProcessResponse
) -> Told:
    has_result = response.HasField("result_json")
    return Told(
        200,
        ProcessNow(
            asked.path["type"],
            response.id,
            response.state,
            has_result,
            values.raw_json(response.result_json) if has_result else values.NULL,
            values.failure(response.problem) if response.HasField("problem") else None,
            response.parked,
        ),
    )


def _ask_list(asked: HttpAsked[None, ProcessesQuery]) -> messages.ListProcessesRequest:
    query = asked.query
    return messages.ListProcessesRequest(
        type=asked.path["type"],
        state=query.state or "",
        attrs_json=query.attrs,
        limit=query.limit,
        cursor=query.cursor,
    )


def _tell_list(
    asked: HttpAsked[None, ProcessesQuery], response: messages.ListProcessesResponse
) -> Told:
    return Told(
        200,
        ProcessPage(
            [_listed(asked.path["type"], found) for found in response.processes],
            response.next_cursor or None,
        ),
    )


def _listed(type: str, found: messages.ListedProcess) -> ProcessInList:
    return ProcessInList(
        found.id,
        found.key,
        found.state,
        values.raw_json(found.attrs_json),
        values.moment_of(found.created_at),
        values.moment_of(found.ended_at) if found.HasField("ended_at") else None,
        found.parked,
        values.path_of("processes", type, found.id),
    )


def _ask_signal(asked: HttpAsked[SignalToSend, NoQuery]) -> messages.SignalProcessRequest:
    given = asked.header("idempotency-key")
    if not given:
        raise HttpRefused(
            428,
            "precondition_required",
            "give the signal an Idempotency-Key, the same when it is sent again",
        )
    return messages.SignalProcessRequest(
        ref=_ref(asked.path),
        name=asked.path["name"],
        signal_id=values.unquoted(given),
        payload_json=values.json_text(asked.body.payload),
    )


def _tell_signal(
    asked: HttpAsked[SignalToSend, NoQuery], response: messages.SignalProcessResponse
) -> Told:
    return Told(200, SentSignal(response.is_new))


def _ask_cancel(asked: HttpAsked[None, NoQuery]) -> messages.CancelProcessRequest:
    return messages.CancelProcessRequest(ref=_ref(asked.path))


def _tell_cancel(asked: HttpAsked[None, NoQuery], response: messages.CancelProcessResponse) -> Told:
    return Told(200, CancelRequested(response.requested))


ROUTES: list[AnyRoute] = [
    Route(
        "POST",
        "/v1/processes/{type}",
        "startProcess",
        "Start a process.",
        "ProcessService/StartProcess",
        _ask_start,
        _tell_started,
        {201: ("It is started.", StartedProcess), 200: ("It was started before.", StartedProcess)},
        NoQuery,
        ProcessToStart,
        headers=[IDEMPOTENCY_KEY],
        answer_headers=[HeaderPlace("Location", "Where the process is looked up.")],
        refusals=[409],
    ),
    Route(
        "GET",
        "/v1/processes/{type}",
        "listProcesses",
        "Processes of a type, newest first, page by page.",
        "ProcessService/ListProcesses",
        _ask_list,
        _tell_list,
        {200: ("A page.", ProcessPage)},
        ProcessesQuery,
    ),
    Route(
        "GET",
        "/v1/processes/{type}/{process}",
        "getProcess",
        "How a process stands; with `wait` the answer comes when it has a result.",
        "ProcessService/GetProcess",
        _ask_status,
        _tell_status,
        {200: ("How it stands.", ProcessNow)},
        values.WaitQuery,
        prefix="ref.",
    ),
    Route(
        "POST",
        "/v1/processes/{type}/{process}/signals/{name}",
        "signalProcess",
        "Send a signal, which is kept until the process waits for it.",
        "ProcessService/SignalProcess",
        _ask_signal,
        _tell_signal,
        {200: ("It is kept.", SentSignal)},
        NoQuery,
        SignalToSend,
        headers=[
            HeaderPlace("Idempotency-Key", "The signal's id, the same when it is sent again.", True)
        ],
        prefix="ref.",
        refusals=[428],
    ),
    Route(
        "POST",
        "/v1/processes/{type}/{process}/cancel",
        "cancelProcess",
        "Ask for a process to be cancelled, and what it did to be undone.",
        "ProcessService/CancelProcess",
        _ask_cancel,
        _tell_cancel,
        {200: ("A worker does it next, or it had ended.", CancelRequested)},
        NoQuery,
        prefix="ref.",
    ),
]
