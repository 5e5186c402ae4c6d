"""Requests about processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.client.messages import from_json, new_id, to_json, to_object, to_span, to_time
from mainspring.client.remote_call import RemoteCall
from mainspring.errors import ProcessFailed
from mainspring.v1 import process_service_pb2 as v1


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process, by the id that the engine gave or by the key that its starter gave."""

    type: str
    id: str = ""
    key: str = ""
    is_new: bool = False

    def message(self) -> v1.Ref:
        if self.id:
            return v1.Ref(type=self.type, id=self.id)
        return v1.Ref(type=self.type, key=self.key)


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """How a process stands: open, finished or cancelled. `result` is a 1-tuple once there is one."""

    id: str
    state: str
    result: tuple[Any] | None
    error: str | None
    parked: str


def start(
    type: str,
    args: Mapping[str, object] | None,
    *,
    key: str | None,
    attrs: Mapping[str, object] | None,
    at: datetime | None,
    priority: int | None,
) -> RemoteCall[ProcessRef]:
    """Start a process, once for its key; without a key once for this call."""
    request = v1.StartProcessRequest(
        type=type,
        key=key,
        id=None if key else new_id(),
        args_json=to_object(args),
        attrs_json=to_object(attrs),
        at=to_time(at),
        priority=priority,
    )
    return RemoteCall(
        "ProcessService/StartProcess",
        request,
        v1.StartProcessResponse,
        lambda answer: ProcessRef(type, answer.id, key or "", answer.is_new),
    )


def get(process: ProcessRef, wait: float) -> RemoteCall[ProcessStatus]:
    """How a process stands."""
    return RemoteCall(
        "ProcessService/GetProcess",
        v1.GetProcessRequest(ref=process.message(), wait=to_span(wait or None)),
        v1.GetProcessResponse,
        _status,
        wait,
    )


def signal(process: ProcessRef, name: str, payload: object, id: str | None) -> RemoteCall[bool]:
    """Send a signal; whether it is new."""
    request = v1.SignalProcessRequest(
        ref=process.message(), name=name, signal_id=id or new_id(), payload_json=to_json(payload)
    )
    return RemoteCall(
        "ProcessService/SignalProcess",
        request,
        v1.SignalProcessResponse,
        lambda answer: bool(answer.is_new),
    )


def cancel(process: ProcessRef) -> RemoteCall[bool]:
    """Ask for a process to be cancelled; False: it had ended."""
    return RemoteCall(
        "ProcessService/CancelProcess",
        v1.CancelProcessRequest(ref=process.message()),
        v1.CancelProcessResponse,
        lambda answer: bool(answer.requested),
    )


def _status(answer: v1.GetProcessResponse) -> ProcessStatus:
    result = (from_json(answer.result_json),) if answer.HasField("result_json") else None
    problem = answer.problem.message if answer.HasField("problem") else None
    return ProcessStatus(answer.id, answer.state, result, problem, answer.parked)


def result_of(process: ProcessRef, status: ProcessStatus) -> tuple[Any] | None:
    """The result once there is one; raises if there never will be."""
    if status.error is not None or status.state == "cancelled":
        raise ProcessFailed(
            f"process {process.type!r} {status.id} came to no result: "
            f"{status.error or 'it was cancelled'}",
            state=status.state,
        )
    return status.result
