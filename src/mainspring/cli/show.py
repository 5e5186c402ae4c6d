"""What commands print: tables for people, JSON for programs, one line for errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mainspring.cli.visible import visible
from mainspring.kernel.keys import user_key
from mainspring.kernel.words import instant

T = TypeVar("T")
_PIPE_WIDTH = 200  # a table that nobody sees need not fit a screen


def console() -> Console:
    """The console on standard output as it is now."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def as_json(value: Any) -> None:
    """Print a value as JSON."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")


def keys_apart(found: Iterable[T]) -> list[T]:
    """Visits, runs or items with the keys that users gave: the group is a field of its own."""
    return [replace(one, key=user_key(one.key)) for one in found]  # type: ignore[type-var, attr-defined]


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> Table:
    """A plain table; numbers stand right."""
    listed = [list(row) for row in rows]
    made = Table(
        *(), title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    for n, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[n], int | float) for row in listed)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        made.add_row(*(escape(visible(cell(value))) for value in row))
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Print a table, or a sentence if there is nothing in it."""
    listed = list(rows)
    console().print(table(columns, listed) if listed else escape(visible(empty)))


def cell(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)


def bar(done: int, total: int | None, width: int = 20) -> str:
    """How far something is, as a bar; a total that is only estimated is never overrun."""
    if total is None:
        return "-"
    part = min(1.0, done / total) if total else 1.0
    filled = int(part * width)
    return "█" * filled + "░" * (width - filled) + f" {int(part * 100)} %"


def first_line(text: str | None, most: int = 120) -> str:
    """The beginning of an error's text."""
    line = (text or "").splitlines()[0] if text else ""
    return line if len(line) <= most else line[: most - 1] + "…"


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one a line."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(escape(visible(name)), escape(visible(cell(value), lines=True)))
    console().print(made)


def line(text: str) -> Text:
    """A sentence among tables."""
    return Text(visible(text))


def say(text: str) -> None:
    """Print a sentence."""
    console().print(escape(visible(text, lines=True)), soft_wrap=True)


def complain(text: str) -> None:
    """Print an error as one line to standard error."""
    sys.stderr.write(f"mainspring: {visible(' '.join(text.split()))}\n")
