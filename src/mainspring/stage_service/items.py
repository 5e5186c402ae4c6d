"""What a stage is given, and how its answers become messages. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from mainspring.entities.declare.outcome import KEEP, Untouched, Update
from mainspring.errors import InvalidOutcome, MainspringError
from mainspring.v1 import body_pb2
from mainspring.v1 import stage_service_pb2 as v1


class StageProblem(MainspringError, code="stage_problem"):
    """Raised by a stage: it cannot process this entity.

    `final`: it never will, so the visit is parked. `retry_after`: seconds to put it off without counting
    an attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        final: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.problem_code = code
        self.final = final
        self.retry_after = retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ServedItem:
    """An entity as its stage gets it. `entity` and `state` are what JSON says, or messages."""

    id: str
    entity: Any  # the fields that the application declares, or a message packed as Any
    entity_version: int
    state: Any  # None: there is none
    state_version: int
    state_schema: int
    crawl: bool
    now: datetime
    trace: dict[str, str]  # W3C trace context of this run; the trace is the visit's id


@dataclass(frozen=True, slots=True)
class HeardEvent:
    """What was saved of an entity. It may come again, with the same number."""

    id: str
    number: int
    what: str
    stage: str
    entity: Any
    state: Any
    changed: dict[str, Any]  # field -> [before, after]
    created_at: datetime
    idempotency_key: str


def read_item(item: v1.Item, now: datetime) -> ServedItem:
    """An entity of a call."""
    return ServedItem(
        item.id,
        read_body(item.entity) if item.HasField("entity") else None,
        item.entity_version,
        read_body(item.state) if item.HasField("state") else None,
        item.state_version,
        item.state_schema,
        item.crawl,
        now,
        dict(item.trace),
    )


def read_event(id: str, event: v1.Event) -> HeardEvent:
    """An event of a call."""
    return HeardEvent(
        id,
        event.number,
        event.what,
        event.stage,
        read_body(event.entity) if event.HasField("entity") else None,
        read_body(event.state) if event.HasField("state") else None,
        json.loads(event.changed_json or "{}"),
        event.created_at.ToDatetime(tzinfo=UTC),
        event.idempotency_key,
    )


def read_body(body: body_pb2.Body) -> Any:
    """A value: what JSON says, or the message with its type."""
    match body.WhichOneof("form"):
        case "json":
            return json.loads(body.json)
        case "message":
            return body.message
    raise ValueError("a value has neither json nor message")


def body_of(value: object) -> body_pb2.Body:
    """A value as it is sent: a message stays one, all else is JSON."""
    if isinstance(value, Packed):
        return body_pb2.Body(message=value)
    if isinstance(value, Message):
        packed = Packed()
        packed.Pack(value)
        return body_pb2.Body(message=packed)
    return body_pb2.Body(json=json.dumps(value, allow_nan=False, separators=(",", ":")))


def outcome_of(id: str, answer: object, schema: int) -> v1.Outcome:
    """What a stage returned, as it is sent."""
    if not isinstance(answer, Untouched | Update):
        raise InvalidOutcome(
            f"process must return Untouched(...) or Update(...), got {type(answer).__name__}"
        )
    found = v1.Outcome(id=id)
    if isinstance(answer, Untouched):
        found.untouched.SetInParent()
    elif answer.patch is not None:
        found.update.patch.CopyFrom(body_of(answer.patch))
    else:
        found.update.entity.CopyFrom(body_of(answer.entity))
        if isinstance(answer.entity, Message):
            found.update.mask.paths.extend(f.name for f, _ in answer.entity.ListFields())
    if answer.state is not KEEP:
        body = None if answer.state is None else body_of(answer.state)
        found.state.CopyFrom(v1.NewState(body=body, schema=schema))
    if answer.visit_at is not None:
        found.visit_at.FromDatetime(answer.visit_at)
    if answer.visit_in is not None:
        found.visit_in.FromTimedelta(timedelta(seconds=answer.visit_in))
    return found


def verdict_of(id: str, answer: object) -> v1.Verdict:
    """Whether a stage wants an entity, as it is sent."""
    if isinstance(answer, bool):
        return v1.Verdict(id=id, wanted=answer)
    if isinstance(answer, datetime) and answer.utcoffset() is not None:
        found = v1.Verdict(id=id)
        found.visit_at.FromDatetime(answer)
        return found
    raise InvalidOutcome(
        "should_process must return True, False or a datetime with a zone, got "
        f"{type(answer).__name__}"
    )


def problem_of(error: Exception) -> body_pb2.Problem:
    """A stage's failure, as it is sent."""
    if not isinstance(error, StageProblem):
        return body_pb2.Problem(code=type(error).__name__, message=str(error))
    found = body_pb2.Problem(code=error.problem_code, message=str(error), final=error.final)
    if error.retry_after is not None:
        found.retry_after.FromTimedelta(timedelta(seconds=error.retry_after))
    return found
