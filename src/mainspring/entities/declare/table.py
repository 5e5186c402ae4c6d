"""The user's table as the catalogue of PostgreSQL knows it, and whether a kind can stand on it.

A `Shape` is read once at start and at migrate, never kept across a restart. Pure but for the one
question that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mainspring.errors import InvalidKind
from mainspring.phrases import nearest

# Types of a version column; a smaller one would soon be used up.
_VERSION_TYPES = ("pg_catalog.int4", "pg_catalog.int8")
XMIN = "xmin"
_PLAIN = re.compile(r'[^A-Z]+|.*".*')
DOCUMENT_TABLE = "mainspring.document"


class Column(msgspec.Struct, frozen=True):
    """A column; `generated` ones cannot be written."""

    name: str
    type: str  # with its schema, ready for a cast
    is_text: bool  # of whatever type: one that the empty text may be a value of
    required: bool
    generated: bool


class Relation(msgspec.Struct, frozen=True):
    """A partition, at whatever depth."""

    oid: int
    schema: str
    name: str
    leaf: bool

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Shape:
    """A table: its columns, its unique column sets, its partitions."""

    oid: int
    schema: str
    name: str
    relkind: str
    is_partition: bool
    row_security: bool  # it may hide rows from this role
    may_trigger: bool
    columns: tuple[Column, ...]
    uniques: tuple[tuple[str, ...], ...]
    partitions: tuple[Relation, ...]
    partition_keys: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The table's name, quoted and with its schema."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def types(self, names: Iterable[str]) -> list[str]:
        return [self.column(name).type for name in names]

    @property
    def generated(self) -> tuple[str, ...]:
        """Columns that the database computes: no stage can write them."""
        return tuple(column.name for column in self.columns if column.generated)


def quoted(name: str) -> str:
    """An identifier, quoted whether it needs it or not."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL constant, whatever standard_conforming_strings says."""
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


class TableRow(NamedTuple):
    """A row of inspect_table.sql: lists are JSON."""

    oid: int
    schema: str
    name: str
    relkind: str
    is_partition: bool
    row_security: bool
    may_trigger: bool
    columns: str | None
    uniques: str
    partitions: str
    partition_keys: str


def shape_of(row: TableRow) -> Shape:
    """The shape of a table that was looked at."""
    return Shape(
        oid=row.oid,
        schema=row.schema,
        name=row.name,
        relkind=row.relkind,
        is_partition=row.is_partition,
        row_security=row.row_security,
        may_trigger=row.may_trigger,
        columns=msgspec.json.decode(row.columns or "[]", type=tuple[Column, ...]),
        uniques=msgspec.json.decode(row.uniques, type=tuple[tuple[str, ...], ...]),
        partitions=msgspec.json.decode(row.partitions, type=tuple[Relation, ...]),
        partition_keys=msgspec.json.decode(row.partition_keys, type=tuple[str, ...]),
    )


def check_shape(
    kind: str,
    table: str,
    shape: Shape | None,
    *,
    keys: Sequence[str],
    version: str,
    ignore: Iterable[str] = (),
) -> Shape:
    """The shape, if a kind with this key and version can stand on it; says what to do otherwise."""
    if shape is None:
        raise InvalidKind(
            f"kind {kind!r}: there is no table {table!r}; create it before the migration, or name "
            f"it with its schema{_in_quotes(table)}"
        )
    if shape.relkind not in ("r", "p"):
        raise InvalidKind(
            f"kind {kind!r}: {table!r} is not a table; triggers that capture changes need one "
            "(name the table under the view, or give a dao)"
        )
    if shape.is_partition:
        raise InvalidKind(
            f"kind {kind!r}: {table!r} is a partition; name the partitioned table itself"
        )
    for name in keys:
        check_column(kind, table, shape, name, "key")
    if not any(_identifies(shape, set(keys), set(unique)) for unique in shape.uniques):
        raise InvalidKind(
            f"kind {kind!r}: no primary key or unique index of {table!r} is exactly "
            f"({', '.join(keys)}); add one: alter table {table} add primary key ({', '.join(keys)})"
        )
    for name in keys:
        if not shape.column(name).required:
            raise InvalidKind(
                f"kind {kind!r}: key column {name!r} of {table!r} may be null; "
                f"alter table {table} alter column {name} set not null"
            )
    if version != XMIN:
        _check_version(kind, table, shape, version)
    for name in ignore:
        check_column(kind, table, shape, name, "ignore")
    return shape


def _in_quotes(table: str) -> str:
    """How a name with capitals is written, which SQL does not keep."""
    schema, _, name = table.partition(".")
    if _PLAIN.fullmatch(table):
        return ""
    return f"; one that was made with capitals needs its quotes: table='{schema}.{quoted(name)}'"


def _identifies(shape: Shape, keys: set[str], unique: set[str]) -> bool:
    """Whether a key is unique: the columns of a unique index.

    One of a partitioned table must have the partitioning columns too; a key without them is taken
    for unique by itself, as an id from a sequence is.
    """
    return keys <= unique and unique - keys <= set(shape.partition_keys)


def check_column(kind: str, table: str, shape: Shape, name: str, setting: str) -> Column:
    """The column of that name; an error that names the nearest, or all there are, otherwise."""
    if name not in shape.names:
        hint = nearest(name, shape.names) or f"; it has {', '.join(shape.names)}"
        raise InvalidKind(f"kind {kind!r}: {table!r} has no column {name!r} ({setting}){hint}")
    return shape.column(name)


def _check_version(kind: str, table: str, shape: Shape, version: str) -> None:
    add = f"alter table {table} add column {version} bigint not null default 1"
    if version not in shape.names:
        raise InvalidKind(
            f"kind {kind!r}: {table!r} has no version column {version!r}; {add} - or declare "
            "version='xmin', which needs no column"
        )
    column = shape.column(version)
    if column.type not in _VERSION_TYPES or column.generated:
        raise InvalidKind(
            f"kind {kind!r}: version column {version!r} of {table!r} must be a plain bigint or "
            f"integer, got {column.type}{' (generated)' if column.generated else ''}; "
            "alter its type, or declare version='xmin'"
        )
