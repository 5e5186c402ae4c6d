"""Rows as the user's types: a dataclass, a msgspec Struct, a pydantic model, a mapped class, or dicts.

A row travels as JSON. Columns that the model does not have are left out; a field that the row lacks
needs a default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

import msgspec

from mainspring.errors import InvalidKind
from mainspring.foreign import mapped_types, pydantic_types
from mainspring.shape import fault, shape


class Model:
    """How entities of a kind are decoded and encoded. `type` None: dicts."""

    __slots__ = ("_decoder", "_is_pydantic", "_mapped", "fields", "required", "type", "types")

    def __init__(self, kind: str, type_: Any = None, only: Collection[str] | None = None) -> None:
        """`only`: the columns of a mapped class that are looked at."""
        self.type = type_
        self._is_pydantic = pydantic_types.is_model(type_)
        self._mapped: mapped_types.MappedRow | None = None
        self.fields: tuple[str, ...] | None = None  # None: whatever the row has
        self.required: tuple[str, ...] = ()  # those without a default
        self.types: dict[str, type[object]] = {}  # of the fields, by their names in a row
        if type_ is None or type_ is dict:
            self.type = None
            self._decoder: Any = msgspec.json.Decoder(dict[str, object])
            return
        read_as = type_
        if mapped_types.is_mapped(type_):  # before dataclasses: it may be one too
            self._mapped = mapped_types.mapped_row(type_, only)
            read_as, self.types = self._mapped.struct, self._mapped.types
            self.fields = self.required = tuple(self._mapped.attributes)
        elif isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            known = msgspec.structs.fields(type_)
            self.fields = tuple(field.encode_name for field in known)
            self.required = tuple(field.encode_name for field in known if field.required)
            self.types = {field.encode_name: field.type for field in known}
        elif dataclasses.is_dataclass(type_):
            fields = dataclasses.fields(type_)
            self.fields = tuple(field.name for field in fields)
            self.required = tuple(field.name for field in fields if _is_required(field))
            self.types = get_type_hints(type_, include_extras=True)
        elif self._is_pydantic:
            try:
                found = pydantic_types.columns(type_)
            except TypeError as error:
                raise InvalidKind(f"kind {kind!r}: {error}") from None
            self.fields = tuple(found)
            self.required = tuple(name for name, column in found.items() if column.required)
            self.types = {name: column.type for name, column in found.items()}
        else:
            raise InvalidKind(
                f"kind {kind!r}: model must be a dataclass, a msgspec Struct, a pydantic model, a "
                f"mapped class of SQLAlchemy's or None (dicts), got {type_!r}"
            )
        try:
            self._decoder = msgspec.json.Decoder(
                read_as, strict=False, dec_hook=pydantic_types.read
            )
        except TypeError as error:
            raise InvalidKind(
                f"kind {kind!r}: model {type_!r} cannot be decoded: {error}"
            ) from None

    def decode_json(self, text: str | bytes) -> Any:
        """The entity of a row in JSON; msgspec.ValidationError if it does not fit the model."""
        found = self._decoder.decode(text)
        return found if self._mapped is None else self._mapped.make(found)

    def decode(self, row: Mapping[str, object]) -> Any:
        """The entity of a row of plain JSON values."""
        if self.type is None:
            return dict(row)
        read_as = self.type if self._mapped is None else self._mapped.struct
        found = msgspec.convert(dict(row), read_as, strict=False, dec_hook=pydantic_types.read)
        return found if self._mapped is None else self._mapped.make(found)

    def check(self, values: Mapping[str, object]) -> None:
        """Refuse plain JSON values that would not be decoded again; ValueError names the field."""
        for name, value in values.items():
            if name in self.types:
                try:
                    msgspec.convert(
                        value, self.types[name], strict=False, dec_hook=pydantic_types.read
                    )
                except msgspec.ValidationError as error:
                    raise ValueError(f"{name!r} as {shape(value)}: {fault(error)}") from None

    def encode(self, entity: object) -> dict[str, object]:
        """All fields of an entity as plain JSON values."""
        if self._is_pydantic and pydantic_types.is_model(type(entity)):
            return pydantic_types.columns_of(entity)
        if self._mapped is not None and isinstance(entity, self.type):
            entity = mapped_types.columns_of(entity, self._mapped.attributes)
        value = msgspec.to_builtins(entity, str_keys=True, enc_hook=pydantic_types.write)
        if not isinstance(value, dict):
            raise InvalidKind(f"an entity must be an object with fields, got {shape(entity)}")
        return value


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.init and field.default is missing and field.default_factory is missing


def is_equal(before: Any, after: Any) -> bool:
    """Whether two plain JSON values are the same: 1 and 1.0 are, NaN is itself, 1 and true are not."""
    if before != before and after != after:
        return True
    if before != after or isinstance(before, bool) is not isinstance(after, bool):
        return False
    if isinstance(before, dict):
        return all(is_equal(value, after[name]) for name, value in before.items())
    if isinstance(before, list):
        return all(map(is_equal, before, after))
    return True
