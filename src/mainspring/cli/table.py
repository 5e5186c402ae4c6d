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
    lines = [*([header] if header else []), *rows]
    natural = [max(map(_longest, column), default=0) for column in zip(*lines, strict=True)]
    widths = _fitted(natural, width)
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


def _fitted(natural: Sequence[int], width: int | None) -> list[int]:
    """The widths of the columns: the widest are cut to one width, as great as the room allows."""
    gaps = len(GAP) * (len(natural) - 1)
    if width is None or sum(natural) + gaps <= width:
        return list(natural)
    most = max(natural)
    while most > 1 and sum(min(one, most) for one in natural) + gaps > width:
        most -= 1
    return [min(one, most) for one in natural]


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
