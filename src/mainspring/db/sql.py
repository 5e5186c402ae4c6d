"""Statements, and what is said with them without I/O.

A statement is a plain SQL file, loaded once by name. It writes its parameters as `%(name)s`, so psycopg
runs it as it is; for asyncpg the names are numbered in the order in which they first appear. No statement
is ever built from values.

Many values go as one text parameter: an array literal, or JSON. Encoded whole, that is ten times cheaper
than a driver's array, which looks at each element on its own.

Steps are what code asks of the database, as a generator. One generator serves every driver: it yields
statements, is sent their rows, and returns what it made of them. `rows`, `one`, `first` and `run` are steps
with types. `Tx.follow` (db/tx.py) sends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple, TypeAlias, TypeVar

import msgspec

R = TypeVar("R")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_PARAMETER = re.compile(r"%\((\w+)\)s")


class Statement:
    """One statement in the two spellings that the drivers want."""

    __slots__ = ("_pick", "name", "names", "numbered", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text: LiteralString = text  # read from our own files
        self.names: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        # Of one name alone an itemgetter would answer the value itself.
        self._pick = itemgetter(*self.names) if len(self.names) > 1 else None
        self.numbered = _PARAMETER.sub(lambda m: f"${self.names.index(m[1]) + 1}", text)

    def arguments(self, values: Mapping[str, object]) -> Sequence[object]:
        """The values in the order of the numbered spelling."""
        if self._pick is not None:
            return self._pick(values)  # type: ignore[no-any-return]
        return [values[name] for name in self.names]

    def __repr__(self) -> str:
        return f"<statement {self.name}>"


class Composed(Statement):
    """A statement over a user's table, composed from quoted names. Its parameters have numbers already, for
    a user's own names may contain anything; `names` are what they are called, in that order."""

    __slots__ = ()

    def __init__(self, name: str, numbered: str, names: Sequence[str]) -> None:
        super().__init__(name, "".join(f"%({name})s" for name in names))
        self.numbered = numbered


def load(package: str) -> dict[str, Statement]:
    """All statements of a package and of its rooms (their folders `sql`), by file name."""
    found: dict[str, Statement] = {}
    for statement in _found(files(package)):
        assert statement.name not in found, f"{package} has two statements {statement.name}"
        found[statement.name] = statement
    return found


def _found(folder: Traversable) -> Iterator[Statement]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _found(entry)
        elif entry.name.endswith(".sql") and folder.name == "sql":
            yield Statement(entry.name.removesuffix(".sql"), entry.read_text("utf-8"))


# -- many values as one parameter


def numbers(values: Sequence[float | None]) -> str:
    """For `::text::integer[]` and the like."""
    return "{" + _encode(values).decode()[1:-1] + "}"


def words(values: Sequence[str]) -> str:
    """For `::text::uuid[]` and the like: ids and other words that need no quotes."""
    return "{" + ",".join(values) + "}"


def quoted(values: Sequence[str | None]) -> str:
    """For `::text::tid[]` and the like: texts without quotes or backslashes of their own."""
    return "{" + ",".join(["null" if v is None else f'"{v}"' for v in values]) + "}"


def texts(values: Sequence[str | None]) -> str:
    """For `json_array_elements_text(..::text::json)`: any texts."""
    return _encode(values).decode()


def as_rows(values: Sequence[object]) -> str:
    """For `json_to_recordset(..::text::json)`."""
    return _encode(values).decode()


def documents(values: Sequence[str]) -> str:
    """For `jsonb_array_elements(..::text::jsonb)`: texts that are sound JSON themselves."""
    return "[" + ",".join(values) + "]"


# -- steps

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


def decoded(text: str | None) -> Any:
    """A JSON column, which travels as text."""
    return None if text is None else msgspec.json.decode(text)
