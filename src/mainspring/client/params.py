"""Requests about params."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from mainspring.client.messages import from_time, to_span, to_time
from mainspring.client.remote_call import RemoteCall
from mainspring.v1 import param_service_pb2 as v1

Value: TypeAlias = datetime | int | str


@dataclass(frozen=True, slots=True)
class ParamValue:
    """A param as it stands."""

    name: str
    value: Value | None
    revision: int
    changed_at: datetime | None
    changed_by: str


@dataclass(frozen=True, slots=True)
class TaskAffected:
    """A task that saw more of a param than it has now, and what repairs it."""

    task: str
    seen: Value | None
    in_flight: bool
    running: bool
    repair: str


def to_value(value: Value) -> v1.Value:
    if isinstance(value, datetime):
        return v1.Value(instant=to_time(value))
    return v1.Value(version=value) if isinstance(value, str) else v1.Value(integer=value)


def from_value(message: v1.Value) -> Value | None:
    match message.WhichOneof("kind"):
        case "instant":
            return message.instant.ToDatetime(tzinfo=UTC)
        case "integer":
            return message.integer
        case "version":
            return message.version
        case _:
            return None


def param_of(message: v1.Param) -> ParamValue:
    return ParamValue(
        message.name,
        from_value(message.value),
        message.revision,
        from_time(message, "changed_at"),
        message.changed_by,
    )


def advance(values: Mapping[str, Value], if_greater: bool, why: str) -> RemoteCall[dict[str, bool]]:
    """Set params forward, all or none; which of them moved."""
    names = list(values)
    params = [v1.Param(name=name, value=to_value(value)) for name, value in values.items()]
    return RemoteCall(
        "ParamService/AdvanceParams",
        v1.AdvanceParamsRequest(params=params, if_greater=if_greater, why=why),
        v1.AdvanceParamsResponse,
        lambda answer: dict(zip(names, answer.moved, strict=True)),
    )


def rewind(
    name: str, to: Value, chunks: Iterable[Value], why: str, revision: int
) -> RemoteCall[list[TaskAffected]]:
    """Move a param back. Only with the revision that was seen it may be sent again."""
    return RemoteCall(
        "ParamService/RewindParam",
        v1.RewindParamRequest(
            name=name,
            to=to_value(to),
            chunks=[to_value(chunk) for chunk in chunks],
            why=why,
            revision=revision,
        ),
        v1.RewindParamResponse,
        lambda answer: [
            TaskAffected(a.task, from_value(a.seen), a.in_flight, a.running, a.repair)
            for a in answer.affected
        ],
        repeatable=revision != 0,
    )


def get(
    names: Sequence[str], wait: float, newer_than: int
) -> RemoteCall[tuple[list[ParamValue], int]]:
    """Params as they stand, and the revision of all of them together."""
    return RemoteCall(
        "ParamService/GetParams",
        v1.GetParamsRequest(names=names, wait=to_span(wait or None), newer_than=newer_than),
        v1.GetParamsResponse,
        lambda answer: ([param_of(p) for p in answer.params], answer.revision),
        wait,
    )
