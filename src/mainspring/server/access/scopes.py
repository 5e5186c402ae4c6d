"""Scopes: what a caller may do, and to which names.

`enqueue:mail.*` is a verb and a pattern, in which `*` stands for anything; a verb alone is for all names.
`admin` may do everything. States are named `kind/stage`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainspring.errors import InvalidSetting
from mainspring.phrases import nearest

ADMIN = "admin"
VERBS = (
    *("enqueue", "task.read", "task.cancel", "pull"),
    *("state.read", "state.write"),
    *("param.read", "param.advance", "param.rewind"),
    *("process.start", "process.read", "process.signal", "process.cancel"),
    *("console.read", "console.act"),
    "metrics",
)
# What follows a comma or a space is another scope: names have commas, but not those.
_LIST = re.compile(rf"[,\s]\s*({'|'.join(map(re.escape, (*VERBS, ADMIN)))})(?=[:,\s]|\Z)")


class Scopes:
    """The scopes of one caller."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        self._patterns: dict[str, list[re.Pattern[str]]] = {}
        for text in self.texts:
            verb, _, names = text.partition(":")
            parts = map(re.escape, (names or "*").split("*"))
            self._patterns.setdefault(verb, []).append(re.compile(".*".join(parts), re.DOTALL))

    def allow(self, verb: str, name: str) -> bool:
        """Whether this may be done to what has this name."""
        if ADMIN in self._patterns:
            return True
        return any(pattern.fullmatch(name) for pattern in self._patterns.get(verb, ()))


def check_scopes(texts: Iterable[str]) -> list[str]:
    """Scopes as they are kept; one that nobody knows is refused."""
    found = list(dict.fromkeys(texts))
    if not found:
        raise InvalidSetting("a token without a scope can do nothing: give --scope")
    for text in found:
        verb, colon, names = text.partition(":")
        if verb not in (*VERBS, ADMIN):
            near = nearest(verb, [*VERBS, ADMIN])
            raise InvalidSetting(
                f"no scope is named {verb!r}{near}; they are {', '.join(VERBS)}, {ADMIN}"
            )
        if colon and (not names or verb == ADMIN):
            raise InvalidSetting(f"write a scope as verb or verb:names, got {text!r}")
        if _LIST.search(names):  # no name would fit, and nobody would be told
            raise InvalidSetting(
                f"a scope is one verb and one pattern, got {text!r}: give --scope once for each"
            )
    return found
