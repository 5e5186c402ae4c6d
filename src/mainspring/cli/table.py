"""Tables as text, as wide as there is room.

On a terminal that is its width; in a pipe COLUMNS if it is set, else whatever is needed: nothing is cut.
A word is never broken: an id, a key or a name can be copied from where it stands. Where there is too
little room texts go on in the next line, then the widest columns stand below their row, each in a line of
its own, and only then the names of columns are broken. (A drawing library would take longer for a page
of queues than the database does to count them.)
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence

GAP = "  "
INDENT = "    "  # of what stands below a row
READABLE = 4  # of a column's name: a letter a line is none
TEXT = 24  # columns that a text of several words has, before it goes below its row
EMPTY = ("", "-")  # cells that say nothing, and are left out below a row
BOLD = 1
# A time is one word.
_WORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|\S+")


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
    """The lines of a table; columns of numbers stand right. Without a header: names and values."""
    if header is None:
        return _facts(rows, width)
    found = [DrawnColumn(name, cells) for name, *cells in zip(header, *rows, strict=True)]
    across, widths = _fitted(found, width)
    below = [n for n in range(len(found)) if n not in across]
    same = [n for n in below if len(rows) > 1 and found[n].is_same]
    aligned = [right[n] for n in across]
    drawn = []
    for row in rows:
        drawn += _row([row[n] for n in across], widths, aligned)
        for n in below:
            if row[n] not in EMPTY and n not in same:
                drawn += _below(header[n], row[n], width)
    for n in same:
        drawn += _below(f"{header[n]} of each", rows[0][n], width) * (not found[n].is_silent)
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    names = _row([header[n] for n in across], widths, aligned, hard=True)
    return [*(coloured(line, BOLD) for line in names), rule, *drawn]


def coloured(text: str, code: int) -> str:
    """A text in a terminal's colour, or bold; as it is where there is none, or where nobody wants that."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


class DrawnColumn:
    """What is known of a column before it has a width."""

    def __init__(self, name: str, cells: Sequence[str]) -> None:
        self.name = columns(name)
        self.widest = max(map(_longest, cells), default=0)
        self.word = max((columns(w) for cell in cells for w in _WORD.findall(cell)), default=0)
        self.is_same = len(set(cells)) == 1
        self.is_silent = all(cell in EMPTY for cell in cells)
        is_text = any(len(_WORD.findall(cell)) > 1 for cell in cells)
        is_one_word = self.is_same and len(cells) > 1 and cells[0].isalpha()  # the pool of each
        # Below its row, before names are broken.
        self.goes_first = self.is_silent or self.widest > TEXT or is_text or is_one_word

    def at_most(self, cells: int, name: int) -> int:
        """Its width if texts and its name may have so many columns, where its words allow that."""
        return max(1, self.word, min(self.widest, cells), min(self.name, name))


def _fitted(found: Sequence[DrawnColumn], width: int | None) -> tuple[list[int], list[int]]:
    """Which columns stand beside each other, and their widths; the first always does."""
    across = list(range(len(found)))
    if width is None:
        return across, [max(one.widest, one.name, 1) for one in found]
    while (widths := _side_by_side([found[n] for n in across], width)) is None:
        silent = [n for n in across[1:] if found[n].is_silent]
        first = [n for n in across[1:] if found[n].goes_first] or across[1:]
        across.remove(silent[0] if silent else max(first, key=lambda n: found[n].widest))
    return across, widths


def _side_by_side(found: Sequence[DrawnColumn], width: int) -> list[int] | None:
    """Their widths; None if some must go. Texts give way, then names where no text is left."""
    left = width - len(GAP) * (len(found) - 1)
    longest = min(width, max(max(one.widest, one.name) for one in found))
    stays = longest if any(one.goes_first for one in found[1:]) else READABLE
    for cells, names in (
        *((most, longest) for most in range(longest, TEXT - 1, -1)),
        *((TEXT, most) for most in range(longest, stays - 1, -1)),
    ):
        widths = [one.at_most(cells, names) for one in found]
        if sum(widths) <= left:
            return widths
    return widths if len(found) == 1 else None


def _facts(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Names, and their values beside them."""
    first = max((columns(name) for name, _ in rows), default=0)
    rest = max((_longest(value) for _, value in rows), default=0)
    if width is not None:
        rest = min(rest, max(1, width - first - len(GAP)))
    return [line for row in rows for line in _row(row, [first, rest], (False, False))]


def _below(name: str, cell: str, width: int | None) -> list[str]:
    """A cell that has no room beside the others."""
    label = f"{INDENT}{name}: "
    lines = _folded(cell, max(TEXT, (width or 0) - columns(label)))
    return [label + lines[0], *(" " * columns(label) + line for line in lines[1:])]


def _row(
    cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], *, hard: bool = False
) -> list[str]:
    """One row, in as many lines as its longest cell needs. `hard`: words may be broken, those of names."""
    folded = [_folded(cell, width, hard) for cell, width in zip(cells, widths, strict=True)]
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


def _folded(text: str, width: int, hard: bool = False) -> list[str]:
    """A cell's lines; one that is too long goes on in the next."""
    found = []
    for line in text.splitlines() or [""]:
        while columns(line) > width:
            end = fitting(line, width) if hard else _end(line, width)
            if end >= len(line):
                break
            found.append(line[:end].rstrip())
            line = line[end:].lstrip()
        found.append(line)
    return found


def _end(line: str, width: int) -> int:
    """Where a line may end: after the last word that fits, at least one."""
    end = 0
    for word in _WORD.finditer(line):
        if end and columns(line[: word.end()]) > width:
            return end
        end = word.end()
    return len(line)


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
