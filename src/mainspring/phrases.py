"""Words for numbers of things, for instants and for names that were mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def counted(number: int, noun: str, one: str = "", many: str = "") -> str:
    """'1 visit', '2 visits'; with the verb's forms, '1 visit waits', '2 visits wait'."""
    named = f"{number} {noun}" if number == 1 else f"{number} {noun}s"
    verb = one if number == 1 else many
    return f"{named} {verb}" if verb else named


def instant(at: datetime) -> str:
    """An instant as people read it: in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', where a name is near enough."""
    from difflib import get_close_matches  # of every start, few look for a name

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
