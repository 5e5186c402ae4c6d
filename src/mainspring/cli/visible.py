"""Texts of users on a terminal: what would steer it, or lead the eye astray, is shown as an escape.

Keys, payloads and errors come from anywhere. A control character in one could clear the screen, write to
the clipboard or turn a line around (bidi), so none reaches a terminal or a log as it is.
"""

from __future__ import annotations

import unicodedata

# Control, format (bidi among them), line and paragraph separators, halves of surrogates.
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def visible(text: str, *, lines: bool = False) -> str:
    """The text without a character that is not seen; `lines`: but for line feeds and tabs."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join([c if c in kept or not _is_hidden(c) else _escaped(c) for c in text])


def _is_hidden(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
