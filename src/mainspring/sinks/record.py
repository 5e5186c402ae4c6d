"""An event as a CloudEvents 1.0 record. Pure, no I/O.

`id` and `source` together are unique for ever: the id is the event's number. `sequence` is the same number,
padded, so that texts compare as numbers do. Consumers keep the highest that they have seen of an entity and
drop what is not above it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC
from typing import NamedTuple

import msgspec

from mainspring.entities.declare.event import Saved
from mainspring.errors import InvalidSetting

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
_encode = msgspec.json.Encoder().encode
_PARTS = ("entity", "state", "changed")


class EventRecord(NamedTuple):
    """What is sent of an event. `key` is the entity's id: records of one key stay in order."""

    key: str
    attributes: dict[str, str]
    data: bytes


class RecordShape(NamedTuple):
    """What of an event a sink sends."""

    source: str  # the kind's name is added
    prefix: str = ""  # before the kind's name, in the record's type
    state: bool = True  # whether the state is sent
    fields: frozenset[str] | None = None  # of the entity; None: all


def record_shape(
    source: str, prefix: str, state: bool, fields: Collection[str] | None
) -> RecordShape:
    """The shape that a sink was asked for."""
    if not source or not source.isprintable() or " " in source:
        raise InvalidSetting(f"source must be printable and without spaces, got {source!r}")
    if isinstance(fields, str):
        raise InvalidSetting(f"fields must be a list of names, got the text {fields!r}")
    return RecordShape(source, prefix, state, None if fields is None else frozenset(fields))


def record_of(event: Saved, wanted: RecordShape, *, slim: bool = False) -> EventRecord:
    """The record of an event. `slim`: without entity and state, because it was too large."""
    attributes = {
        "specversion": "1.0",
        "id": str(event.number),
        "source": f"{wanted.source}/{event.kind}",
        "type": f"{wanted.prefix}{event.kind}.{event.what}",
        "subject": event.key,
        "time": event.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "sequence": f"{event.number:019d}",
        "idempotencykey": event.idempotency_key,
    }
    for name, value in (
        ("stage", event.stage),
        ("entityversion", event.entity_version),
        ("stateversion", event.state_version),
        ("replay", event.replay),
        ("slim", "true" if slim else None),
    ):
        if value is not None:
            attributes[name] = str(value)
    return EventRecord(event.key, attributes, _data(event, wanted, slim))


def _data(event: Saved, wanted: RecordShape, slim: bool) -> bytes:
    """Entity, state and changed fields as the database has them. Only what is left out is decoded."""
    body = _decode(event.body) if event.body else {}
    parts = {name: body[name] for name in _PARTS if name in body}
    if slim or not wanted.state:
        parts.pop("state", None)
    if slim:
        parts.pop("entity", None)
        parts.pop("changed", None)
    if wanted.fields is not None:
        for name in ("entity", "changed"):
            if name in parts:
                found = _fields(parts[name])
                kept = {f: v for f, v in (found or {}).items() if f in wanted.fields}
                parts[name] = msgspec.Raw(_encode(kept)) if found is not None else parts[name]
    return _encode(parts)
