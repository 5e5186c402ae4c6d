"""Pydantic's types among a user's own: what msgspec does not know it hands over here.

Pydantic is used where the user's code uses it, and never imported for a look. A model travels under the
names of its fields, so that it can be read again whatever its aliases are; both names are read. Computed
fields are left out, a default that is computed is written. An error names fields and what is wrong with
them in pydantic's word, and never a value.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, cast, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

_SHOWN = 3  # of the errors of a value
# What is written as asterisks, and could not be read again.
_SECRET = ("SecretStr", "SecretBytes", "Secret")


class _Anything(type):
    """msgspec asks whether what `read` returns is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Handed(metaclass=_Anything):
    """A type that pydantic reads as a whole, such as a union of models."""

    adapter: TypeAdapter[object]


def is_model(kind: object) -> bool:
    """Whether it is a pydantic model, or a type that is handed to pydantic."""
    if not isinstance(kind, type):
        return False
    if kind is Handed or Handed in kind.__mro__:
        return True
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def adapted(kind: Any) -> Any:
    """The same type, each part of it that only pydantic can read being handed over."""
    if "pydantic" not in sys.modules:
        return kind
    origin, parts = get_origin(kind), get_args(kind)
    if is_model(kind) or not parts or origin is typing.Literal:
        return kind
    if origin is Annotated:
        own = any(type(mark).__module__.startswith("pydantic.") for mark in kind.__metadata__)
        return _handed(kind) if own else kind
    if origin in (Union, types.UnionType):
        others = [part for part in parts if part is not type(None)]
        if len(others) > 1 and any(map(_has_model, others)):
            return _handed(kind)
    elif origin is type or not all(map(_is_type, parts)):
        return kind
    changed = tuple(map(adapted, parts))
    if changed == parts:
        return kind
    return Union[changed] if origin in (Union, types.UnionType) else origin[changed]  # noqa: UP007


def check(kind: type) -> None:
    """Refuse a model with a part that is not written as it is; TypeError."""
    for model, name, part in _fields(kind):
        if getattr(part, "__name__", "") in _SECRET:
            raise TypeError(
                f"field {name!r} of {model.__qualname__} is a {part.__name__}, which is written as "
                "asterisks; travel with a reference to the secret"
            )


def write(value: object) -> object:
    """A model as plain values, for msgspec (`enc_hook`); TypeError for all else."""
    if is_model(type(value)):
        return dump(cast("BaseModel", value), by_alias=False)
    raise TypeError(f"objects of type {type(value).__name__} are unsupported")


def dump(model: BaseModel, *, by_alias: bool) -> object:
    """A model as plain values."""
    try:
        # Its warnings quote values; what is wrong is found when the value is read again.
        return model.model_dump(mode="json", round_trip=True, by_alias=by_alias, warnings=False)
    except Exception as error:
        raise TypeError(
            f"{type(model).__name__} cannot be written ({type(error).__name__})"
        ) from None


def read(kind: type, value: object) -> object:
    """What msgspec has read of JSON as a pydantic type (`dec_hook`); ValueError if it does not fit."""
    if kind is object:  # whatever JSON has; msgspec asks of it too
        return value
    if not is_model(kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    from pydantic import ValidationError

    adapter = kind.adapter if issubclass(kind, Handed) else _adapter(cast("Any", kind))
    try:
        # As JSON once more: to pydantic the text of a date is a date there, strict or not.
        return adapter.validate_json(msgspec.json.encode(value), by_alias=True, by_name=True)
    except ValidationError as error:
        raise ValueError(_told(kind, error)) from None


class ModelColumn(NamedTuple):
    """A field of a model whose entities are rows."""

    field: str
    type: Any
    required: bool


def columns(model: type[BaseModel]) -> dict[str, ModelColumn]:
    """The fields of a model by the names that they have in a row: their aliases."""
    found = {}
    for name, field in model.model_fields.items():
        reads, writes = field.validation_alias or name, field.serialization_alias or name
        if reads != writes:
            raise TypeError(
                f"field {name!r} of {model.__qualname__} is read as {reads!r} and written as {writes!r}: "
                "give it one alias, which is its column"
            )
        kind = adapted(field.annotation)
        if field.metadata:  # of annotated_types, too, which msgspec does not look at
            kind = _handed(Annotated[(field.annotation, *field.metadata)])
        found[writes] = ModelColumn(name, kind, field.is_required())
    check(model)
    return found


def columns_of(entity: object) -> dict[str, Any]:
    """An entity as a row has it."""
    model = cast("BaseModel", entity)
    if unknown := sorted(vars(model).keys() - type(model).model_fields.keys()):
        # model_copy(update=...) takes any name; it would not be written.
        raise TypeError(f"{type(model).__name__} got an unexpected keyword argument {unknown[0]!r}")
    return cast("dict[str, Any]", dump(model, by_alias=True))


def part(whole: type[BaseModel], names: Iterable[str], namespace: dict[str, object]) -> type:
    """A model with some of the fields of another, by their names in a row, and its methods."""
    from pydantic import BaseModel

    found = columns(whole)
    fields = {found[name].field: whole.model_fields[found[name].field] for name in names}
    annotations = {name: field.annotation for name, field in fields.items()}
    methods = {name: value for name, value in namespace.items() if not name.startswith("model_")}
    body = {**methods, **fields, "__annotations__": annotations, "__module__": whole.__module__}
    metaclass: Callable[..., type] = type(whole)
    return metaclass(whole.__name__, (BaseModel,), {**body, "model_config": whole.model_config})


def _told(kind: type, error: ValidationError) -> str:
    """Where it does not fit and why; the text that pydantic has may quote what was given."""
    found = error.errors(include_url=False, include_context=False)
    names = _names(kind)
    told = [
        f"{_place(each['loc'], names)}: {each['type']} (got {type(each['input']).__name__})"
        for each in found[:_SHOWN]
    ]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    name = "value" if issubclass(kind, Handed) else kind.__name__
    return f"{name} does not fit: {', '.join(told)}{more}"


def _place(parts: tuple[int | str, ...], names: set[str]) -> str:
    """Where in a value: keys of a user's dict are values too."""
    shown = (str(each) if isinstance(each, int) or each in names else "..." for each in parts)
    return ".".join(shown) or "the value"


def _names(kind: type) -> set[str]:
    """The names of all fields in it, aliases included."""
    fields = {(model, name) for model, name, _ in _fields(kind)}
    named = {name for _, name in fields}
    for model, name in fields:
        alias = cast("type[BaseModel]", model).model_fields[name].validation_alias
        if isinstance(alias, str):
            named.add(alias)
    return named


@lru_cache(maxsize=1024)
def _adapter(kind: Any) -> TypeAdapter[object]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[object] = TypeAdapter(kind)
    return adapter


def _handed(kind: Any) -> type:
    from pydantic import TypeAdapter

    return type("Handed", (Handed,), {"adapter": TypeAdapter(kind), "whole": kind})


def _is_type(part: object) -> bool:
    return part is Ellipsis or not isinstance(part, list)


def _has_model(kind: object) -> bool:
    return is_model(kind) or any(map(_has_model, get_args(kind)))


def _fields(kind: object) -> Iterator[tuple[type, str, type]]:
    """The fields of a model and of those in it, each with a class that it may be."""
    waiting, seen = [getattr(kind, "whole", kind)], set[type]()
    while waiting:
        each = waiting.pop()
        waiting += get_args(each)
        if not isinstance(each, type) or not is_model(each) or each in seen:
            continue
        seen.add(each)
        for name, field in cast("type[BaseModel]", each).model_fields.items():
            for part in _classes(field.annotation):
                yield each, name, part
                waiting.append(part)


def _classes(kind: object) -> Iterator[type]:
    if isinstance(kind, type):
        yield kind
    for part in get_args(kind):
        yield from _classes(part)
