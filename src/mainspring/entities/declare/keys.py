"""Ids as text and back: the key of an entity's visits, states and events (S25).

An id is written as the text that PostgreSQL prints for its column, under fixed settings; the columns of
a composite key as a JSON array of such texts. One entity has one text: `7`, `007` and `+7` are the same
number, so every id that comes from outside passes through the type of its column (`canonical`), and what
the type refuses is refused here. Pure but for that one question to the database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import asyncpg

from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKey

KEY_BYTES = 1300  # what a visit's key may have


def id_text(value: Any, columns: Sequence[str]) -> str:
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


def _value_text(value: Any) -> str:
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


def _is_part(part: Any) -> bool:
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


async def canonical(connection: Any, kind: str, texts: Sequence[str]) -> list[str]:
    """The one text of each id, in the order given; the kind must be registered."""
    statement = SQL["canonical_keys"]
    values = {"kind": kind, "ids": list(texts)}
    try:
        rows = await connection.fetch(statement.numbered, *statement.arguments(values))
    except asyncpg.DataError as error:
        raise refused(kind, texts, error) from None
    return [row["key"] for row in rows]


def refused(kind: str, texts: Sequence[str], error: Exception) -> InvalidKey:
    """The error for ids that are no values of the key's type."""
    shown = ", ".join(repr(text) for text in texts[:3]) + (", ..." if len(texts) > 3 else "")
    return InvalidKey(f"no id of kind {kind!r}: {shown} ({str(error).splitlines()[0]})")
