"""A model with some of its fields: what a stage that declares its reads is given.

The methods and properties of the model are there; a field that was not declared is an error that says
so. Thus nothing a stage computes can depend on what its save does not compare.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

import msgspec

from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.stage import Stage
from mainspring.errors import UndeclaredField
from mainspring.foreign import mapped_types, pydantic_types

# What dataclasses.replace and msgspec.structs.replace say of a field that is not there.
_NO_FIELD = re.compile(r"(?:unexpected keyword argument|has no field) '(\w+)'")


def seen_fields(kind: DeclaredKind, stage: Stage) -> frozenset[str] | None:
    """What a stage is given: its key, what it reads and what it writes; None: everything."""
    s = stage.settings
    if s.reads is None:
        return None
    return frozenset((*kind.keys, *s.reads, *(s.writes or ())))


def model_of(kind: DeclaredKind, stage: Stage) -> Model:
    """The model of what a stage sees."""
    return partial_model(kind.name, stage.name, kind.model, seen_fields(kind, stage))


def misfit(whole: Model, stage: Stage, error: TypeError) -> UndeclaredField | None:
    """What a stage did wrong that puts a field into a part of an entity that has no such field."""
    name = match[1] if (match := _NO_FIELD.search(str(error))) else ""
    if stage.settings.reads is None or name not in (whole.fields or ()):
        return None
    return UndeclaredField(
        f"stage {stage.name!r} puts {name!r} into the entity that it was given, which has only what "
        f"the stage declares: add it to writes=, or return Update({name}=...)"
    )


def partial_model(kind: str, stage: str, model: Model, fields: Collection[str] | None) -> Model:
    """The model of what a stage sees: the kind's own if it declares no reads."""
    if fields is None:
        return model
    if model.type is None:
        return _SomeOfDict(kind, stage, fields)
    if mapped_types.is_mapped(model.type):
        return Model(kind, model.type, fields)
    wanted = [name for name in model.fields or () if name in fields]
    return Model(kind, _partial_type(stage, model.type, wanted))


class _Part(dict[str, object]):
    """Some fields of a row; another is an error that says so."""

    stage: str

    def __missing__(self, name: str) -> Any:
        raise UndeclaredField(
            f"stage {self.stage!r} looks at {name!r}, which it does not declare, or the row "
            "does not have: add it to reads="
        )


class _SomeOfDict(Model):
    """The model of a stage that is given some fields of plain dicts."""

    __slots__ = ("_part", "_wanted")

    def __init__(self, kind: str, stage: str, fields: Collection[str]) -> None:
        super().__init__(kind)
        self._wanted = frozenset(fields)
        self._part = type("Part", (_Part,), {"stage": stage})

    def decode_json(self, text: str | bytes) -> Any:
        return self.decode(super().decode_json(text))

    def decode(self, row: Mapping[str, object]) -> Any:
        return self._part({name: row[name] for name in row if name in self._wanted})


def _partial_type(stage: str, whole: Any, fields: list[str]) -> type:
    hints = get_type_hints(whole, include_extras=True)
    namespace: dict[str, object] = {
        name: value
        for name, value in vars(whole).items()
        if inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod)
        if not name.startswith("__")
    }

    def missing(self: Any, name: str) -> Any:
        if name in hints:
            raise UndeclaredField(
                f"stage {stage!r} looks at {name!r}, which it does not declare: add it to reads="
            )
        raise AttributeError(f"{whole.__name__!r} has no attribute {name!r}")

    namespace["__getattr__"] = missing
    if pydantic_types.is_model(whole):
        return pydantic_types.part(whole, fields, namespace)
    if issubclass(whole, msgspec.Struct):
        named = {field.encode_name: field for field in msgspec.structs.fields(whole)}
        some = [(named[f].name, hints[named[f].name], _like(named[f])) for f in fields]
        return msgspec.defstruct(whole.__name__, some, namespace=namespace, kw_only=True)
    declared = {field.name: field for field in dataclasses.fields(whole)}
    parts = [(f, hints[f], _as(declared[f])) for f in fields]
    return dataclasses.make_dataclass(
        whole.__name__, parts, namespace=namespace, frozen=_frozen(whole), kw_only=True
    )


def _like(field: msgspec.structs.FieldInfo) -> Any:
    """A field of a Struct with the default and the name in JSON of another."""
    if field.default is not msgspec.NODEFAULT:
        return msgspec.field(default=field.default, name=field.encode_name)
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory, name=field.encode_name)
    return msgspec.field(name=field.encode_name)


def _as(field: dataclasses.Field[Any]) -> Any:
    """A field of a dataclass with the default of another."""
    if field.default is not dataclasses.MISSING:
        return dataclasses.field(default=field.default)
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field()


def _frozen(whole: type) -> bool:
    return bool(getattr(whole, "__dataclass_params__").frozen)  # noqa: B009 - not in the type stubs
