"""The `options` of an address, read as the server would read them, so that ours can be added.

Both drivers send one set of settings at the start of a session. Were the address's own left beside it,
one of the two would be lost without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from psycopg import conninfo

from mainspring.errors import InvalidUrl

_WORD = re.compile(r"(?:\\.|\S)+", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


@lru_cache(maxsize=64)
def options_of(url: str) -> Mapping[str, str]:
    """The settings that an address asks for."""
    text = str(conninfo.conninfo_to_dict(url).get("options") or "")
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in _WORD.findall(text)]
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            setting = words.pop(0)
        elif word.startswith(("--", "-c")):
            setting = word[2:]
        else:
            raise InvalidUrl(f"cannot read the options of the database address at {word!r}; {_HOW}")
        if (read := _SETTING.fullmatch(setting)) is None:
            raise InvalidUrl(
                f"cannot read the options of the database address at {setting!r}; {_HOW}"
            )
        found[read[1].lower().replace("-", "_")] = read[2]
    return found


_HOW = "write settings only, as in options=-crole%3Dmainspring_owner%20-csearch_path%3Dshop"


def check_options(url: str, ours: Mapping[str, str]) -> None:
    """Refuse what Mainspring must set itself: one of the two would not be kept."""
    if taken := sorted(options_of(url).keys() & ours.keys()):
        raise InvalidUrl(
            f"the options of the database address set {', '.join(taken)}, which Mainspring sets for its "
            "own connections; leave it out, or set it for the role of your other programs"
        )


def packed(settings: Mapping[str, str]) -> str:
    """Settings as one text of options, as libpq wants them."""
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in settings.items())


def _escaped(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)
