"""A model with some of its fields: what a stage that declares its reads is given.

The methods and properties of the model are there; a field that was not declared is an error that says
so. Thus nothing a stage computes can depend on what its save does not compare.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from typing import Any, get_type_hints

import msgspec

from mainspring.entities.model import Model
from mainspring.errors import UndeclaredField


def partial_model(kind: str, stage: str, model: Model, fields: Collection[str] | None) -> Model:
    """The model of what a stage sees: the kind's own if it declares no reads."""
    if fields is None or model.type is None:
        return model
    wanted = [name for name in model.fields or () if name in fields]
    return Model(kind, _partial_type(stage, model.type, wanted))


def _partial_type(stage: str, whole: type, fields: list[str]) -> type:
    hints = get_type_hints(whole, include_extras=True)
    namespace: dict[str, Any] = {
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
    if issubclass(whole, msgspec.Struct):
        return msgspec.defstruct(
            whole.__name__, [(f, hints[f]) for f in fields], namespace=namespace
        )
    parts = [(f, hints[f], dataclasses.field()) for f in fields]
    return dataclasses.make_dataclass(
        whole.__name__, parts, namespace=namespace, frozen=_frozen(whole)
    )


def _frozen(whole: type) -> bool:
    return bool(getattr(whole, "__dataclass_params__").frozen)  # noqa: B009 - not in the type stubs
