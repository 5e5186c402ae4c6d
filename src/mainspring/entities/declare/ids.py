"""Ids of the user's own types: to the text of a visit's key and back (S25)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from mainspring.entities.declare.keys import split
from mainspring.entities.declare.model import Model
from mainspring.errors import InvalidKey, InvalidKind

T = TypeVar("T")


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

    def text(self, kind: str, id: Any) -> str:
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


def typed_id(kind: IdKind, key: str, fields: Mapping[str, Any] | None = None) -> Any:
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


def _typed(text: str, type_: Any) -> Any:
    try:
        return msgspec.convert(text, type_, strict=False)
    except msgspec.ValidationError:
        return text
