"""Routes of tasks: calls enqueued, looked up, waited for and called off."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainspring.server.handlers import checks
from mainspring.server.handlers.tasks import GROUP_BYTES, MOST_CALLS
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.routes import values
from mainspring.server.http.routes.route import (
    IDEMPOTENCY_KEY,
    AnyRoute,
    HeaderPlace,
    HttpAsked,
    Route,
    Told,
)
from mainspring.server.http.routes.route import NoQuery as Nothing
from mainspring.v1 import task_service_pb2 as messages

Key = Annotated[str, msgspec.Meta(max_length=checks.KEY_BYTES)]
Group = Annotated[str, msgspec.Meta(max_length=GROUP_BYTES)]


class NewCall(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A call of a task. `args` are its arguments by name."""

    args: values.JsonObject = msgspec.field(default_factory=values.nothing)
    id: str | None = None  # a UUID made by the caller; Idempotency-Key says the same
    key: Key | None = None
    group: Group | None = None
    at: values.Instant | None = None
    delay: values.Seconds | None = None
    priority: values.Priority | None = None
    expires_at: values.Instant | None = None


class NamedCall(NewCall, forbid_unknown_fields=True, kw_only=True):
    """A call, with the task that it is of."""

    task: str


class NewCalls(msgspec.Struct, forbid_unknown_fields=True):
    """Calls of one or several tasks, enqueued together: all or none."""

    calls: Annotated[list[NamedCall], msgspec.Meta(min_length=1, max_length=MOST_CALLS)]


class EnqueuedCall(msgspec.Struct):
    """A call that is enqueued. `is_new`: just now; else it was there, or has ended already."""

    task: str
    id: str
    key: str
    is_new: bool
    url: str


class EnqueuedCalls(msgspec.Struct):
    """In the order of the request."""

    calls: list[EnqueuedCall]


class CallQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which call; a call with a key lies at its key."""

    wait: values.Wait = 0.0
    key: str = ""


class KeyQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The key that the call was enqueued with."""

    key: str = ""


class CallNow(msgspec.Struct):
    """How a call stands: scheduled, waiting, running, parked, done, cancelled or expired."""

    task: str
    id: str
    state: str
    result: msgspec.Raw  # when it is done
    error: values.CallFailure | None  # of the last run that failed


class CancelledCall(msgspec.Struct):
    """How the call stands now: cancelled; running, while its run is told to end; or as it had ended."""

    task: str
    id: str
    state: str


def _call(task: str, given: NewCall, id: str) -> messages.Call:
    return messages.Call(
        task=task,
        args_json=values.json_text(given.args),
        id=id,
        key=given.key or "",
        group=given.group or "",
        at=values.optional_timestamp(given.at),
        delay=values.duration(given.delay),
        priority=given.priority,
        expires_at=values.optional_timestamp(given.expires_at),
    )


def _ask_one(asked: HttpAsked[NewCall, Nothing]) -> messages.EnqueueTasksRequest:
    header, own = values.idempotency_key(asked.header("idempotency-key")), asked.body.id or ""
    if header and own and header != own.lower():
        raise HttpRefused(
            422, "invalid_request", "id and Idempotency-Key differ; give one of them", field="id"
        )
    return messages.EnqueueTasksRequest(
        calls=[_call(asked.path["task"], asked.body, header or own)]
    )


def _tell_one(asked: HttpAsked[NewCall, Nothing], response: messages.EnqueueTasksResponse) -> Told:
    [call] = _enqueued(response)
    return Told(201 if call.is_new else 200, call, {"location": call.url})


def _ask_many(asked: HttpAsked[NewCalls, Nothing]) -> messages.EnqueueTasksRequest:
    if asked.header("idempotency-key") is not None:
        raise HttpRefused(
            422,
            "invalid_request",
            "Idempotency-Key is for one call; here each has an id of its own",
        )
    calls = [_call(call.task, call, call.id or "") for call in asked.body.calls]
    return messages.EnqueueTasksRequest(calls=calls)


def _tell_many(
    asked: HttpAsked[NewCalls, Nothing], response: messages.EnqueueTasksResponse
) -> Told:
    return Told(200, EnqueuedCalls(_enqueued(response)))


def _enqueued(response: messages.EnqueueTasksResponse) -> list[EnqueuedCall]:
    return [
        EnqueuedCall(
            handle.task,
            handle.id,
            handle.key,
            handle.is_new,
            values.path_of("tasks", handle.task, "calls", handle.id)
            + ("" if handle.key == handle.id else f"?key={values.escaped(handle.key)}"),
        )
        for handle in response.handles
    ]


def _ask_state(asked: HttpAsked[None, CallQuery]) -> messages.GetTaskRequest:
    return messages.GetTaskRequest(
        task=asked.path["task"],
        id=asked.path["id"],
        wait=values.duration(asked.query.wait),
        key=asked.query.key,
    )


def _tell_state(asked: HttpAsked[None, CallQuery], response: messages.GetTaskResponse) -> Told:
    return Told(
        200,
        CallNow(
            asked.path["task"],
            asked.path["id"].lower(),
            response.state,
            values.raw_json(response.result_json or "null"),
            values.failure(response.error) if response.HasField("error") else None,
        ),
    )


def _ask_cancel(asked: HttpAsked[None, KeyQuery]) -> messages.CancelTaskRequest:
    return messages.CancelTaskRequest(
        task=asked.path["task"], id=asked.path["id"], key=asked.query.key
    )


def _tell_cancelled(
    asked: HttpAsked[None, KeyQuery], response: messages.CancelTaskResponse
) -> Told:
    return Told(200, CancelledCall(asked.path["task"], asked.path["id"].lower(), response.state))


ROUTES: list[AnyRoute] = [
    Route(
        "POST",
        "/v1/tasks/{task}/calls",
        "enqueueCall",
        "Enqueue a call of a task.",
        "TaskService/EnqueueTasks",
        _ask_one,
        _tell_one,
        {
            201: ("It is enqueued.", EnqueuedCall),
            200: ("It was there, or has ended already.", EnqueuedCall),
        },
        Nothing,
        NewCall,
        headers=[IDEMPOTENCY_KEY],
        answer_headers=[HeaderPlace("Location", "Where the call is looked up.")],
        prefix="calls[0].",
    ),
    Route(
        "POST",
        "/v1/calls",
        "enqueueCalls",
        "Enqueue calls of one or several tasks, all or none.",
        "TaskService/EnqueueTasks",
        _ask_many,
        _tell_many,
        {200: ("They are enqueued.", EnqueuedCalls)},
        Nothing,
        NewCalls,
    ),
    Route(
        "GET",
        "/v1/tasks/{task}/calls/{id}",
        "getCall",
        "How a call stands; with `wait` the answer comes when it has ended.",
        "TaskService/GetTask",
        _ask_state,
        _tell_state,
        {200: ("How it stands.", CallNow)},
        CallQuery,
    ),
    Route(
        "POST",
        "/v1/tasks/{task}/calls/{id}/cancel",
        "cancelCall",
        "Call a call off that no run holds.",
        "TaskService/CancelTask",
        _ask_cancel,
        _tell_cancelled,
        {200: ("How it stands now.", CancelledCall)},
        KeyQuery,
    ),
]
