"""Requests about tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from mainspring.client.messages import (
    Seconds,
    from_json,
    new_id,
    to_object,
    to_span,
    to_time,
)
from mainspring.client.remote_call import RemoteCall
from mainspring.errors import TaskFailed
from mainspring.v1 import task_service_pb2 as v1

ENDED = ("done", "parked", "cancelled", "expired")


class EnqueueOptions(TypedDict, total=False):
    """How a call is enqueued. `id` is a UUID of yours; without one the client makes one."""

    id: str
    key: str
    group: str
    at: datetime
    delay: Seconds
    priority: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A call that is enqueued. `is_new` is False when it was there already."""

    task: str
    id: str
    key: str = ""
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How a call stands: scheduled, waiting, running, parked, done, cancelled or expired."""

    state: str
    result: Any = None
    error: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


def call_of(task: str, args: Mapping[str, object] | None, options: EnqueueOptions) -> v1.Call:
    """A call to be enqueued."""
    return v1.Call(
        task=task,
        args_json=to_object(args),
        id=options.get("id") or new_id(),
        key=options.get("key"),
        group=options.get("group"),
        at=to_time(options.get("at")),
        delay=to_span(options.get("delay")),
        priority=options.get("priority"),
        expires_at=to_time(options.get("expires_at")),
    )


def enqueue(calls: Iterable[v1.Call]) -> RemoteCall[list[TaskRef]]:
    """Enqueue calls, all or none."""
    return RemoteCall(
        "TaskService/EnqueueTasks",
        v1.EnqueueTasksRequest(calls=calls),
        v1.EnqueueTasksResponse,
        lambda answer: [TaskRef(h.task, h.id, h.key, h.is_new) for h in answer.handles],
    )


def get(call: TaskRef, wait: float) -> RemoteCall[TaskStatus]:
    """How a call stands."""
    return RemoteCall(
        "TaskService/GetTask",
        v1.GetTaskRequest(task=call.task, id=call.id, key=call.key, wait=to_span(wait or None)),
        v1.GetTaskResponse,
        _status,
        wait,
    )


def cancel(call: TaskRef) -> RemoteCall[str]:
    """Call a call off; the state that it has then."""
    return RemoteCall(
        "TaskService/CancelTask",
        v1.CancelTaskRequest(task=call.task, id=call.id, key=call.key),
        v1.CancelTaskResponse,
        lambda answer: str(answer.state),
    )


def _status(answer: v1.GetTaskResponse) -> TaskStatus:
    done = answer.state == "done"
    return TaskStatus(
        answer.state,
        from_json(answer.result_json) if done and answer.result_json else None,
        answer.error.message if answer.HasField("error") else None,
    )


def result_of(call: TaskRef, status: TaskStatus) -> tuple[Any] | None:
    """The result once there is one; raises if there never will be."""
    if status.state == "done":
        return (status.result,)
    if status.has_ended:
        reason = f": {status.error.splitlines()[0]}" if status.error else ""
        raise TaskFailed(
            f"task {call.task!r} {call.id} was {status.state}{reason}",
            outcome=status.state,
            error=status.error,
        )
    return None
