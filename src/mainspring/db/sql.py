"""Statements: plain SQL files, loaded once by name.

A file writes its parameters as `%(name)s`, so psycopg runs it as it is; for asyncpg the names are
numbered in the order in which they first appear. No statement is ever built from values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import LiteralString

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
    return {statement.name: statement for statement in _found(files(package))}


def _found(folder: Traversable) -> Iterator[Statement]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _found(entry)
        elif entry.name.endswith(".sql") and folder.name == "sql":
            yield Statement(entry.name.removesuffix(".sql"), entry.read_text("utf-8"))
