"""A stage's private state: typed in the code, JSON or a protobuf message in the database.

Written with the schema number of the code that wrote it. State of an older schema goes through the
stage's `upgrade` when it is read, in memory; it is stored with the next save. What can be read neither
way is an error: the visit is parked and the state stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mainspring.entities.declare.model import is_equal
from mainspring.errors import InvalidOutcome, InvalidStage, NewerState, UnreadableState
from mainspring.foreign import pydantic_types
from mainspring.shape import fault, shape

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
TYPE_PREFIX = "type.googleapis.com/"
Upgrade = Callable[[Any, int], object]


@dataclass(frozen=True, slots=True)
class Stored:
    """A state as its row has it: JSON text, or the bytes and the type of a message."""

    schema: int
    body: str | None = None
    message: bytes | None = None
    message_type: str | None = None

    @property
    def size(self) -> int:
        return len(self.body or "") + len(self.message or b"")


def is_same(new: Stored, old: Stored | None) -> bool:
    """Whether a state says what is stored already: then there is nothing to write."""
    if old is None:
        return new.body is None and new.message is None
    if (new.schema, new.message, new.message_type) != (old.schema, old.message, old.message_type):
        return False
    if new.body is None or old.body is None:
        return new.body is old.body
    return is_equal(msgspec.json.decode(old.body), msgspec.json.decode(new.body))


@dataclass(frozen=True, slots=True)
class StateType:
    """How the states of one stage are read and written."""

    stage: str
    type: Any = (
        None  # a dataclass, a Struct, any type msgspec knows, a protobuf message class; None: JSON
    )
    schema: int = 1
    upgrade: Upgrade | None = None
    elsewhere: bool = (
        False  # another service writes and upgrades it: whatever its schema, it passes
    )
    _read_as: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.schema, bool) or not isinstance(self.schema, int) or self.schema < 1:
            raise InvalidStage(
                f"schema of stage {self.stage!r} must be 1 or more, got {self.schema!r}"
            )
        if self.type is not None and not self.is_message:
            object.__setattr__(self, "_read_as", pydantic_types.adapted(self.type))
            try:
                msgspec.json.Decoder(self._read_as, dec_hook=pydantic_types.read)
            except TypeError as error:
                raise InvalidStage(
                    f"state of stage {self.stage!r} cannot be {self.type!r}: {error}"
                ) from error

    @property
    def is_message(self) -> bool:
        """Whether states are protobuf messages (kept as `google.protobuf.Any` would keep them)."""
        return hasattr(self.type, "DESCRIPTOR") and hasattr(self.type, "FromString")

    def _decode(self, text: str) -> object:
        return msgspec.json.decode(text, type=self._read_as, dec_hook=pydantic_types.read)

    def encode(self, value: object) -> Stored:
        """A value as it is stored; None empties the state."""
        if self.elsewhere and isinstance(value, Stored):
            return value
        if value is None:
            return Stored(self.schema)
        if self.is_message:
            return self._encode_message(value)
        try:
            text = msgspec.json.encode(value, enc_hook=pydantic_types.write).decode()
            if self.type is not None:
                self._decode(text)  # what could not be read is not written
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise InvalidOutcome(
                f"the state of stage {self.stage!r} cannot be written: {fault(error)}; got {shape(value)}"
            ) from error
        if _NUL.search(text):
            raise InvalidOutcome(
                f"the state of stage {self.stage!r} has a NUL, which jsonb cannot hold"
            )
        return Stored(self.schema, body=text)

    def _encode_message(self, value: object) -> Stored:
        if not isinstance(value, self.type):
            raise InvalidOutcome(
                f"the state of stage {self.stage!r} must be a {self.type.__name__}, got {shape(value)}"
            )
        name = value.DESCRIPTOR.full_name
        if name == "google.protobuf.Any":
            return Stored(self.schema, message=value.value, message_type=value.type_url)
        packed = value.SerializeToString(deterministic=True)
        return Stored(self.schema, message=packed, message_type=TYPE_PREFIX + name)

    def decode(self, stored: Stored | None) -> object:
        """The value of a stored state; None if there is none."""
        if stored is None or (stored.body is None and stored.message is None):
            return None
        if stored.schema > self.schema and not self.elsewhere:
            raise NewerState(
                f"the state of stage {self.stage!r} has schema {stored.schema} and this worker's code "
                f"reads {self.schema}: newer code wrote it, and a worker of that will read it; if the "
                "newer code was taken back, set the state anew, then restart the visit"
            )
        try:
            if stored.schema == self.schema or self.elsewhere:
                return self._read(stored)
            if self.upgrade is None:
                raise UnreadableState(
                    f"the code reads schema {self.schema} and has no upgrade from {stored.schema}"
                )
            return self._upgraded(stored)
        except Exception as error:
            raise UnreadableState(
                f"the state of stage {self.stage!r} (schema {stored.schema}) cannot be read: "
                f"{fault(error)}; give the stage an upgrade for it, or set the state anew, then restart "
                "the visit"
            ) from error

    def _read(self, stored: Stored) -> object:
        if self.is_message:
            return self._read_message(stored)
        if stored.body is None:
            raise UnreadableState("a message is stored, the code wants JSON")
        if self.type is None:
            return msgspec.json.decode(stored.body)
        return self._decode(stored.body)

    def _read_message(self, stored: Stored) -> object:
        if stored.message is None or stored.message_type is None:
            raise UnreadableState("JSON is stored, the code wants a message")
        wanted = self.type.DESCRIPTOR.full_name
        if wanted == "google.protobuf.Any":
            return self.type(type_url=stored.message_type, value=stored.message)
        found = stored.message_type.rpartition("/")[2]
        if found != wanted:
            raise UnreadableState(f"a {found} is stored, the code wants a {wanted}")
        return self.type.FromString(stored.message)

    def _upgraded(self, stored: Stored) -> object:
        assert self.upgrade is not None
        raw = stored.message if stored.body is None else msgspec.json.decode(stored.body)
        value = self.upgrade(raw, stored.schema)
        if self.type is None or self.is_message or value is None or isinstance(value, self.type):
            return value
        return msgspec.convert(value, self._read_as, dec_hook=pydantic_types.read)
