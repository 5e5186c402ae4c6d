"""A kind on its table: whether it can stand there, where its entities are, which fields can be written."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.table import Shape, TableRow, check_shape, shape_of
from mainspring.entities.source.dao import DaoSource
from mainspring.entities.source.rows import DocumentSource, Source, TableSource
from mainspring.errors import InvalidKind


def checked(kind: DeclaredKind, row: TableRow | None) -> Shape:
    """The shape of a kind's table, from the row of inspect_table.sql; None: there is no such table."""
    s = kind.settings
    assert s.table is not None
    shape = None if row is None else shape_of(row)
    if kind.is_document:
        assert shape is not None
        return shape
    shape = check_shape(kind.name, s.table, shape, keys=s.keys, version=s.version, ignore=s.ignore)
    for name in kind.model.required:
        if name not in shape.names:
            raise InvalidKind(
                f"kind {kind.name!r}: model {kind.model.type.__name__} needs a field {name!r}, but "
                f"{s.table!r} has no such column; give the field a default, or add the column"
            )
    return shape


def source_of(kind: DeclaredKind, shape: Shape | None, fields: Sequence[str] | None) -> Source:
    """Where the entities of a kind are. `fields`: what any stage may want to see; None: all."""
    if kind.dao is not None:
        return DaoSource(kind, kind.dao)
    if kind.is_document:
        return DocumentSource(kind)
    assert shape is not None, f"the table of kind {kind.name!r} was not looked at"
    return TableSource(kind, shape, fields)


def writable(kind: DeclaredKind, shape: Shape | None) -> frozenset[str] | None:
    """The fields that can be written at all; None: any."""
    if shape is None or kind.is_document:
        return None
    return frozenset(shape.names) - {*kind.keys, kind.version, *shape.generated}


def fields_of(kind: DeclaredKind, shape: Shape | None) -> frozenset[str] | None:
    """The fields of an entity; None: whatever it has."""
    if shape is not None and not kind.is_document:
        return frozenset(shape.names)
    return None if kind.model.fields is None else frozenset(kind.model.fields)
