"""Mapped classes of SQLAlchemy's as the models of rows: declarative, with or without dataclasses.

An object stands as one that was loaded by a session that has been closed: its columns are there. Relations,
and columns that were not asked for, are SQLAlchemy's DetachedInstanceError. It may be changed and returned,
and merged into a session of the user's own. SQLAlchemy is not imported for a look.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapper


class MappedRow(NamedTuple):
    """How rows become mapped objects: what is read of JSON, and made of that."""

    struct: type[msgspec.Struct]
    attributes: dict[str, str]  # by the names of their columns
    types: dict[str, Any]
    make: Callable[[msgspec.Struct], object]


def is_mapped(kind: object) -> bool:
    """Whether it is a mapped class."""
    if "sqlalchemy.orm" not in sys.modules or not isinstance(kind, type):
        return False
    from sqlalchemy import inspect
    from sqlalchemy.orm import Mapper

    return isinstance(inspect(kind, raiseerr=False), Mapper)


def mapped_row(kind: type, only: Collection[str] | None) -> MappedRow:
    """Its columns, or those of them that are asked for and the key; TypeError if it cannot be one."""
    from sqlalchemy import Column, inspect
    from sqlalchemy.orm import make_transient_to_detached
    from sqlalchemy.orm.attributes import set_committed_value

    mapper: Mapper[object] = inspect(kind)
    wanted = None if only is None else {*only, *(column.name for column in mapper.primary_key)}
    columns = {
        str(prop.columns[0].name): prop
        for prop in mapper.column_attrs
        if isinstance(prop.columns[0], Column)  # else it is an expression
    }
    attributes = {
        name: prop.key for name, prop in columns.items() if wanted is None or name in wanted
    }
    types = {name: _type_of(columns[name].columns[0].type) for name in attributes}
    fields = [
        (f"column_{number}", type_ if type_ is Any else type_ | None, _named(name))
        for number, (name, type_) in enumerate(types.items())
    ]
    new = mapper.class_manager.new_instance

    def make(row: msgspec.Struct) -> object:
        made: object = new()
        for key, value in zip(attributes.values(), msgspec.structs.astuple(row), strict=True):
            set_committed_value(made, key, value)
        make_transient_to_detached(made)
        return made

    return MappedRow(msgspec.defstruct("Row", fields), attributes, types, make)


def columns_of(entity: object, attributes: dict[str, str]) -> dict[str, object]:
    """The columns of an object that are there."""
    there = vars(entity)
    return {name: there[key] for name, key in attributes.items() if key in there}


def _named(column: str) -> Any:
    """A row need not have all: what a stage sees is a part."""
    return msgspec.field(default=None, name=column)


def _type_of(column: Any) -> Any:
    try:
        found = column.python_type
    except NotImplementedError:
        return Any
    return Any if found is object else found
