"""Ids as text and back: the key of an entity's visits, states and events; ids of users' own types (S25).

An id is written as the text that PostgreSQL prints for its column, under fixed settings; the columns of
a composite key as a JSON array of such texts. One entity has one text: `7`, `007` and `+7` are the same
number, so every id that comes from outside passes through the type of its column (`canonical`), and what
the type refuses is refused here. Pure but for that one question to the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from mainspring.db.tx import Tx
from mainspring.entities.declare.model import Model
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKey, InvalidKind

T = TypeVar("T")
KEY_BYTES = 1300  # what a visit's key may have


def id_text(value: object, columns: Sequence[str]) -> str:
    """The text of an id as it is given: one value, or a tuple with one for each key column.

    A str for a composite key is taken as its whole text, as visits and events show it.
    """
    if len(columns) == 1:
        if isinstance(value, tuple | list) and len(value) == 1:
            value = value[0]
        return check_key(_value_text(value))
    if isinstance(value, str):
        return check_key(join(split(value, columns)))
    if not isinstance(value, tuple | list) or len(value) != len(columns):
        raise InvalidKey(
            f"an id must be a tuple of {len(columns)} values ({', '.join(columns)}), got {value!r}"
        )
    return check_key(join([_value_text(part) for part in value]))


def _value_text(value: object) -> str:
    match value:
        case Enum():
            return _value_text(value.value)
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | UUID() | IPv4Address() | IPv6Address():
            return str(value)
        case float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"{value.days} days {value.seconds}.{value.microseconds:06} seconds"
    raise InvalidKey(
        f"an id must be a text, number, UUID, date or bytes, got {type(value).__name__}: {value!r}"
    )


def join(parts: Sequence[str]) -> str:
    """The text of a key from the texts of its columns; as PostgreSQL prints a jsonb array."""
    return parts[0] if len(parts) == 1 else json.dumps(list(parts), ensure_ascii=False)


def split(text: str, columns: Sequence[str]) -> list[str]:
    """The texts of the columns of a key."""
    if len(columns) == 1:
        return [text]
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != len(columns) or not all(map(_is_part, parts)):
        example = json.dumps([f"the {column}" for column in columns], ensure_ascii=False)
        raise InvalidKey(
            f"the id {text!r} is not a JSON array of {len(columns)} texts ({', '.join(columns)}); "
            f"write it as {example}"
        )
    return [str(part) for part in parts]


def _is_part(part: object) -> bool:
    """Whether somebody may mean a column's value by it: the number 7 as the text '7'."""
    return isinstance(part, str | int) and not isinstance(part, bool)


def check_key(text: str) -> str:
    """The text, if it can be a visit's key."""
    if not text:
        raise InvalidKey("an id must not be empty")
    if "\x00" in text:
        raise InvalidKey(
            f"the id {text!r} contains the character NUL, which PostgreSQL cannot store"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidKey(f"the id {text!r} contains a lone surrogate, which is no text") from None
    if size > KEY_BYTES:
        raise InvalidKey(f"the id {text[:40]!r}... is {size} bytes, the limit is {KEY_BYTES}")
    return text


async def canonical(tx: Tx, kind: str, texts: Sequence[str]) -> list[str]:
    """The one text of each id, in the order given; the kind must be registered."""
    try:
        return await tx.rows(SQL["canonical_keys"], str, kind=kind, ids=list(texts))
    except asyncpg.DataError as error:
        raise refused(kind, texts, error) from None


def refused(kind: str, texts: Sequence[str], error: Exception) -> InvalidKey:
    """The error for ids that are no values of the key's type."""
    shown = ", ".join(repr(text) for text in texts[:3]) + (", ..." if len(texts) > 3 else "")
    return InvalidKey(f"no id of kind {kind!r}: {shown} ({str(error).splitlines()[0]})")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How ids of a type of one's own are written and read; given with the kind.

    `to_text` returns what the key's column prints, `from_text` takes it. A str is always taken as
    that text.

        listing = app.entities("listing", table="public.listing", id=Codec(str, ListingId.parse))
    """

    to_text: Callable[[T], str]
    from_text: Callable[[str], T]

    def __post_init__(self) -> None:
        for name in ("to_text", "from_text"):
            if not callable(function := getattr(self, name)):
                raise InvalidKind(f"{name} of a Codec must be a function, got {function!r}")

    def text(self, kind: str, id: T | str) -> str:
        """The text of an id."""
        if isinstance(id, str):
            return id
        try:
            text = self.to_text(id)
        except Exception as error:
            raise InvalidKey(
                f"no id of kind {kind!r}: its codec cannot write {type(id).__name__} {id!r} "
                f"({type(error).__name__}: {error})"
            ) from error
        if not isinstance(text, str):
            raise InvalidKey(
                f"no id of kind {kind!r}: to_text of its codec must return a text, got {text!r}"
            )
        return text

    def id(self, kind: str, text: str) -> T:
        """The id of a text."""
        try:
            return self.from_text(text)
        except Exception as error:
            raise InvalidKey(
                f"no id of kind {kind!r}: its codec cannot read {text!r} "
                f"({type(error).__name__}: {error})"
            ) from error


class IdKind(Protocol):
    """What an id is read by: its kind."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> Sequence[str]: ...

    @property
    def model(self) -> Model: ...

    @property
    def codec(self) -> Codec[Any] | None: ...


def typed_id(kind: IdKind, key: str, fields: Mapping[str, object] | None = None) -> object:
    """The id of a visit's key: by the kind's codec; by the types of the model; else as the row has it;
    else its text."""
    if kind.codec is not None:
        return kind.codec.id(kind.name, key)
    types = kind.model.types
    texts = zip(kind.keys, split(key, kind.keys), strict=True)
    values = tuple(
        _typed(text, types[name]) if name in types else (fields or {}).get(name, text)
        for name, text in texts
    )
    return values[0] if len(values) == 1 else values


def _typed(text: str, type_: type[object]) -> object:
    try:
        return msgspec.convert(text, type_, strict=False)
    except msgspec.ValidationError:
        return text
