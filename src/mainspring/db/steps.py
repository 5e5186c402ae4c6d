"""Steps: what code asks of the database, as a generator without I/O.

One generator serves every driver: it yields statements, is sent their rows, and returns what it made of
them. `rows`, `one`, `first` and `run` are steps with types. `Tx.follow` (db/tx.py) sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from mainspring.db.sql import Statement

R = TypeVar("R")
T = TypeVar("T")

Record: TypeAlias = Sequence[Any]  # as a driver has it: values in the order of the columns
Values: TypeAlias = Mapping[str, object]
Step: TypeAlias = tuple[Statement, Values]


class CopyStep(NamedTuple):
    """Copy rows into a table, in COPY's binary form. Table and columns are ours, never values."""

    table: str
    columns: Sequence[str]
    chunks: Iterator[bytes]


Steps: TypeAlias = Generator[Step | CopyStep, Sequence[Record], T]


def rows(statement: Statement, row: Callable[..., R], /, **values: object) -> Steps[list[R]]:
    """All rows of a statement, each made by `row` from its columns."""
    found = yield statement, values
    return [row(*record) for record in found]


def first(statement: Statement, row: Callable[..., R], /, **values: object) -> Steps[R | None]:
    """The first row of a statement, if it returns any."""
    found = yield statement, values
    return row(*found[0]) if found else None


def one(statement: Statement, row: Callable[..., R], /, **values: object) -> Steps[R]:
    """The row of a statement that always returns one."""
    found = yield statement, values
    return row(*found[0])


def run(statement: Statement, /, **values: object) -> Steps[None]:
    """A statement whose rows, if any, nobody wants."""
    yield statement, values
