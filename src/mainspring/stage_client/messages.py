"""Entities as messages, and answers back. What is wrong with an answer is told of that entity alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import msgspec
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from mainspring.entities.declare.outcome import KEEP, Answer, Untouched, Update
from mainspring.entities.declare.state import Stored
from mainspring.entities.remote.items import (
    Asked,
    Bad,
    HeardUpTo,
    Processed,
    Refusal,
    SavedEvent,
    SavedEvents,
    StageItem,
)
from mainspring.errors import InvalidTime, MainspringError
from mainspring.failure_text import clean_text
from mainspring.trace_context import trace_context
from mainspring.v1 import body_pb2
from mainspring.v1 import stage_service_pb2 as v1

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_object = msgspec.json.Decoder(dict[str, object]).decode
_anything = msgspec.json.Decoder().decode
_INT64 = (
    *(FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_SINT64),
    *(FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64),
)
PROBLEM_BYTES = 2000
Read = TypeVar("Read")


class BadAnswer(MainspringError, code="bad_answer"):
    """An answer about one entity that is none."""


# -- what is sent


def to_item(item: StageItem, type_: type[Message] | None) -> v1.Item:
    """An entity: JSON text as it is, or a message of its stage's class."""
    state, stored = None, item.state
    if stored is not None and (stored.body is not None or stored.message is not None):
        state = to_body(stored)
    found = v1.Item(
        id=item.id,
        entity=_entity(item.entity, type_),
        entity_version=item.entity_version or 0,
        state=state,
        state_version=item.state_version,
        state_schema=0 if state is None or stored is None else stored.schema,
        crawl=item.crawl,
    )
    if item.run_of is not None:
        trace = found.trace
        for name, value in trace_context(item.run_of).items():
            trace[name] = value
    return found


def _entity(text: str, type_: type[Message] | None) -> body_pb2.Body:
    if type_ is None:
        return body_pb2.Body(json=text)
    packed = Packed()
    packed.Pack(json_format.Parse(text, type_(), ignore_unknown_fields=True))
    return body_pb2.Body(message=packed)


def to_body(stored: Stored) -> body_pb2.Body:
    """A state as it is stored, not read."""
    if stored.message is None:
        return body_pb2.Body(json=stored.body or "null")
    packed = Packed(type_url=stored.message_type or "", value=stored.message)
    return body_pb2.Body(message=packed)


def to_events(entity: SavedEvents) -> v1.EntityEvents:
    """The events of an entity."""
    return v1.EntityEvents(id=entity.id, events=map(_event, entity.events))


def _event(event: SavedEvent) -> v1.Event:
    created_at = Timestamp()
    created_at.FromDatetime(event.created_at)
    return v1.Event(
        number=event.number,
        what=event.what,
        stage=event.stage or "",
        entity=None if event.entity is None else body_pb2.Body(json=event.entity),
        state=None if event.state is None else to_body(event.state),
        entity_version=event.entity_version or 0,
        state_version=event.state_version or 0,
        changed_json=event.changed,
        created_at=created_at,
        idempotency_key=event.idempotency_key,
    )


# -- what comes back


class Identified(Protocol):
    """What is said of one entity."""

    @property
    def id(self) -> str: ...


OfOne = TypeVar("OfOne", bound=Identified)


def read_each(said: Iterable[OfOne], read: Callable[[OfOne], Read]) -> list[tuple[str, Read | Bad]]:
    """Each answer read by itself: one that is none is its entity's failure."""
    found: list[tuple[str, Read | Bad]] = []
    for one in said:
        try:
            found.append((one.id, read(one)))
        except (MainspringError, ValueError, OverflowError) as error:
            found.append((one.id, Bad(clean_text(str(error), PROBLEM_BYTES))))
    return found


def read_outcome(outcome: v1.Outcome, type_: type[Message] | None) -> Processed:
    """What a stage made of an entity."""
    result = outcome.WhichOneof("result")
    if result == "problem":
        return read_problem(outcome.problem)
    if result is None:
        raise BadAnswer(
            "the outcome says neither untouched nor update nor problem (or the service is newer "
            "than this worker)"
        )
    state = _read_state(outcome.state) if outcome.HasField("state") else KEEP
    visit = outcome.WhichOneof("visit")
    at = _read_time(outcome.visit_at) if visit == "visit_at" else None
    after = outcome.visit_in.ToTimedelta() if visit == "visit_in" else None
    if result == "untouched":
        return Untouched(state=state, visit_at=at, visit_in=after)
    patch = _read_update(outcome.update, type_)
    answer: Answer = Update(patch=patch, state=state, visit_at=at, visit_in=after)
    return answer


def read_verdict(verdict: v1.Verdict) -> Asked:
    """Whether a stage wants an entity."""
    match verdict.WhichOneof("answer"):
        case "wanted":
            return bool(verdict.wanted)
        case "visit_at":
            return _read_time(verdict.visit_at)
        case "problem":
            return read_problem(verdict.problem)
    raise BadAnswer("the verdict says neither wanted nor visit_at nor problem")


def read_heard(heard: v1.Heard) -> HeardUpTo:
    """How far a stage heard an entity's events."""
    problem = read_problem(heard.problem) if heard.HasField("problem") else None
    return HeardUpTo(heard.number, problem)


def read_problem(problem: body_pb2.Problem) -> Refusal:
    """A stage's own failure."""
    after = None
    if problem.HasField("retry_after"):
        after = min(86_400.0, max(0.0, problem.retry_after.ToTimedelta().total_seconds()))
    code, message = clean_text(problem.code, 200), clean_text(problem.message, PROBLEM_BYTES)
    return Refusal(code, message, problem.final, after)


def _read_time(stamp: Timestamp) -> datetime:
    try:
        return stamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(f"visit_at is no time: {error}") from None


def _read_state(new: v1.NewState) -> Stored:
    schema = new.schema or 1
    if schema < 1:
        raise BadAnswer(f"the state's schema must be 1 or more, got {schema}")
    if not new.HasField("body"):
        return Stored(schema)
    match new.body.WhichOneof("form"):
        case "json":
            _checked("the state", new.body.json, _anything)
            return Stored(schema, body=new.body.json)
        case "message":
            if not new.body.message.type_url:
                raise BadAnswer("the state is a message without a type")
            message = new.body.message
            return Stored(schema, message=message.value, message_type=message.type_url)
    raise BadAnswer("the state has neither json nor message: leave body out to empty it")


def _read_update(update: v1.Update, type_: type[Message] | None) -> dict[str, object]:
    change = update.WhichOneof("change")
    if change is None:
        raise BadAnswer("the update has neither patch nor entity")
    body: body_pb2.Body = getattr(update, change)
    form = body.WhichOneof("form")
    if form == "json":
        fields = _checked("the update", body.json, _object)
        paths = update.mask.paths if change == "entity" and update.HasField("mask") else fields
        return {name: fields.get(name) for name in paths}
    if form is None:
        raise BadAnswer(f"the update's {change} has neither json nor message")
    if type_ is None or change != "entity":
        raise BadAnswer(
            "the update is a message: declare its class with entity=, and send `entity`"
        )
    if not update.HasField("mask"):
        raise BadAnswer("the update has an entity as a message, and no mask that says what changed")
    message = type_()
    if (found := body.message.TypeName()) != (wanted := message.DESCRIPTOR.full_name):
        raise BadAnswer(f"the update has a {found}, not a {wanted}")
    try:
        message.MergeFromString(body.message.value)
    except DecodeError as error:
        raise BadAnswer(f"the update's entity cannot be read: {error}") from None
    return _masked(message, list(update.mask.paths))


def _masked(message: Message, paths: list[str]) -> dict[str, object]:
    """The fields that the mask names, as JSON has them; whole numbers stay numbers."""
    known = message.DESCRIPTOR.fields_by_name
    plain = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    found: dict[str, object] = {}
    for path in paths:
        if path not in known:
            raise BadAnswer(f"the mask names {path!r}, which is no field of the entity's message")
        found[path] = plain.get(path)
        if known[path].type in _INT64 and path in plain:
            value = getattr(message, path)
            found[path] = value if isinstance(value, int) else [int(part) for part in value]
    return found


def _checked(what: str, text: str, decode: Callable[[str], Read]) -> Read:
    """JSON text that the database can hold."""
    if _NUL.search(text):
        raise BadAnswer(f"{what} has a NUL, which the database cannot hold")
    try:
        return decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadAnswer(f"{what} is no JSON that can be read: {error}") from None
