"""Values that fit their types, though JSON or PostgreSQL cannot hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.foreign import pydantic_types


def check_storable(what: str, payload: bytes, value: object) -> None:
    """Refuse what was written as JSON and says something else there, or cannot be stored."""
    try:
        _check_storable(what, payload, value)
    except RecursionError:
        raise InvalidArguments(
            f"{what} values inside values, too many deep to look through"
        ) from None


def _check_storable(what: str, payload: bytes, value: object) -> None:
    if b"null" in payload and _has_nan(value):
        raise InvalidArguments(
            f"{what} NaN or an infinity, which JSON cannot say; pass None, or a text"
        )
    if b"\\u0000" in payload and _has_nul(value):
        raise InvalidArguments(
            f"{what} the character NUL, which PostgreSQL cannot store; remove it, or encode the bytes"
        )


def _has_nan(value: object) -> bool:
    if value is None or isinstance(value, str | int):
        return False
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    if isinstance(value, Sequence | set | frozenset) and not isinstance(
        value, str | bytes | bytearray
    ):
        return any(map(_has_nan, value))
    if isinstance(value, msgspec.Struct):
        return any(_has_nan(getattr(value, name)) for name in value.__struct_fields__)
    if pydantic_types.is_model(type(value)):
        return any(map(_has_nan, vars(value).values()))
    if is_dataclass(value):
        return any(_has_nan(getattr(value, field.name)) for field in fields(value))
    return False


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, Mapping):
        return any(_has_nul(k) or _has_nul(v) for k, v in value.items())
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return any(map(_has_nul, value))
    if isinstance(value, str | int | float | bytes | bytearray | msgspec.Raw | None):
        return False  # what is JSON already was checked where it was written
    if isinstance(value, msgspec.Struct):
        return any(_has_nul(getattr(value, name)) for name in value.__struct_fields__)
    return _has_nul(msgspec.to_builtins(value, enc_hook=pydantic_types.write))
