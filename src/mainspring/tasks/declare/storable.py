"""Types and values that cannot travel: JSON has no such value, or PostgreSQL cannot hold it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass

import msgspec
import msgspec.inspect

from mainspring.errors import InvalidArguments
from mainspring.foreign import pydantic_types
from mainspring.tasks.declare.promise import Promise


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


def check_travels(kinds: Iterable[object]) -> None:
    """Raise TypeError for a type, however deep inside, that no JSON value can become again.

    msgspec takes any class for one that a hook of the caller's reads; there is none here.
    """
    waiting: list[object] = list(msgspec.inspect.multi_type_info(kinds))
    seen: set[int] = set()
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, tuple):
            waiting += kind
        elif isinstance(kind, msgspec.inspect.CustomType):
            if pydantic_types.is_model(kind.cls):
                pydantic_types.check(kind.cls)
            # A promise is handed over unopened, as its id: Signature reads it.
            elif not _holds_json(kind.cls) and not issubclass(kind.cls, Promise):
                raise TypeError(f"{kind.cls.__module__}.{kind.cls.__qualname__} is not such a type")
        elif (
            isinstance(kind, msgspec.inspect.Type | msgspec.inspect.Field) and id(kind) not in seen
        ):
            seen.add(id(kind))  # a dataclass may contain itself
            waiting += msgspec.structs.asdict(kind).values()


def _holds_json(cls: type) -> bool:
    """Whether a value as JSON has it is an instance: of `object`, or of an abstract class."""
    try:
        return any(issubclass(builtin, cls) for builtin in (dict, list, str, int, float))
    except TypeError:
        return False
