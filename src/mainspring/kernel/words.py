"""Words for numbers of things."""

from __future__ import annotations


def counted(number: int, noun: str, one: str = "", many: str = "") -> str:
    """'1 visit', '2 visits'; with the verb's forms, '1 visit waits', '2 visits wait'."""
    named = f"{number} {noun}" if number == 1 else f"{number} {noun}s"
    verb = one if number == 1 else many
    return f"{named} {verb}" if verb else named
