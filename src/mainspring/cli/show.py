"""What commands print: tables for people, JSON for programs, one line for errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainspring.cli.table import draw, room
from mainspring.cli.visible import visible
from mainspring.operate.keys import user_key
from mainspring.phrases import instant

if TYPE_CHECKING:
    from rich.live import Live

T = TypeVar("T")


def live(*, transient: bool = False) -> Live:
    """What is drawn anew in its place, on a terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(width=room(), highlight=False, markup=False, emoji=False)
    return Live(console=console, transient=transient, auto_refresh=False)


def write(text: str) -> None:
    """Print lines; a character that standard output cannot take becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()  # a pipe that nobody reads is met here, not at the end


def as_json(value: object) -> None:
    """Print a value as JSON."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")


def as_json_line(value: object) -> None:
    """Print a value as one line of JSON, at once: others will follow."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def keys_apart(found: Iterable[T]) -> list[T]:
    """Visits, runs or items with the keys that users gave: the group is a field of its own."""
    return [replace(one, key=user_key(one.key)) for one in found]  # type: ignore[type-var, attr-defined]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> str:
    """A plain table, and an empty line; numbers stand right. Nothing if there are no rows."""
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    right = [all(isinstance(row[n], int | float) for row in listed) for n in range(len(columns))]
    cells = [[visible(cell(value)) for value in row] for row in listed]
    lines = draw(columns, cells, right=right, width=room())
    return "\n".join([*([title] if title else []), *lines, ""])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or a sentence if there is nothing in it."""
    write(table(columns, rows) or visible(empty))


def cell(value: object) -> str:
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


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line."""
    rows = [(visible(name), visible(cell(value), lines=True)) for name, value in pairs]
    write("\n".join(draw(None, rows, right=(False, False), width=room())))


def line(text: str) -> str:
    """A sentence among tables."""
    return visible(text)


def say(text: str) -> None:
    """Print a sentence."""
    write(visible(text, lines=True))


def complain(text: str) -> None:
    """Print an error as one line to standard error."""
    sys.stderr.write(f"mainspring: {visible(' '.join(text.split()))}\n")
