"""Tables as text, as wide as there is room.

On a terminal that is its width; in a pipe COLUMNS if it is set, else whatever is needed: nothing is cut.
Where there is too little room the widest columns give way, and their cells go on in the next line. (A
drawing library would take longer for a page of queues than the database does to count them.)
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence

GAP = "  "
READABLE = 4  # of a column's name: a letter a line is none
BOLD = 1


def room() -> int | None:
    """The width to keep to; None if there is no limit."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else None


def draw(
    header: Sequence[str] | None,
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[bool],
    width: int | None,
) -> list[str]:
    """The lines of a table; columns of numbers stand right."""
    body = [max(map(_longest, column), default=0) for column in zip(*rows, strict=True)]
    widths = _fitted(body, [_longest(name) for name in header or ()] or body, width)
    drawn = [line for row in rows for line in _row(row, widths, right)]
    if header is None:
        return drawn
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    return [*(coloured(line, BOLD) for line in _row(header, widths, right)), rule, *drawn]


def coloured(text: str, code: int) -> str:
    """A text in a terminal's colour, or bold; as it is where there is none, or where nobody wants that."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def _fitted(body: Sequence[int], names: Sequence[int], width: int | None) -> list[int]:
    """The widths of the columns. A long name gives way first: it is folded once, a cell in every row."""
    if width is None:
        return [max(pair) for pair in zip(body, names, strict=True)]
    left = width - len(GAP) * (len(body) - 1)
    most = max([*body, *names], default=0)
    while most > 1 and sum(_widths(body, names, most)) > left:
        most -= 1
    readable = _widths(body, names, READABLE)
    if sum(readable) <= left:
        return _widths(body, names, most)
    most = max(readable)
    while most > 1 and sum(min(one, most) for one in readable) > left:
        most -= 1
    return [max(1, min(one, most)) for one in readable]


def _widths(body: Sequence[int], names: Sequence[int], most: int) -> list[int]:
    """No name is wider than that, unless its column's cells are."""
    return [max(cell, min(name, most)) for cell, name in zip(body, names, strict=True)]


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """One row, in as many lines as its longest cell needs."""
    folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    found = []
    for n in range(max(map(len, folded))):
        parts = [lines[n] if n < len(lines) else "" for lines in folded]
        padded = [
            " " * (width - columns(part)) + part
            if is_right
            else part + " " * (width - columns(part))
            for part, width, is_right in zip(parts, widths, right, strict=True)
        ]
        found.append(GAP.join(padded).rstrip())
    return found


def _folded(text: str, width: int) -> list[str]:
    """A cell's lines; one that is too long goes on in the next."""
    found = []
    for line in text.splitlines() or [""]:
        while columns(line) > width:
            end = fitting(line, width)
            found.append(line[:end])
            line = line[end:]
        found.append(line)
    return found


def fitting(text: str, width: int) -> int:
    """How many characters fit into a width; one does always."""
    if text.isascii():
        return max(1, width)
    used = 0
    for n, character in enumerate(text):
        used += _width(character)
        if used > width:
            return max(1, n)
    return len(text)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _longest(text: str) -> int:
    return max(map(columns, text.splitlines()), default=0)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
