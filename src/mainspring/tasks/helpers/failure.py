"""An exception of a helper, as its worker raises it: of the same class where that is known here too.

So a retry policy finds what it names. The text and the traceback are those that the helper made; no code of
the exception's class is run to make it again.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from mainspring.errors import RetryAfter
from mainspring.failure_text import Described, describe
from mainspring.tasks.helpers.messages import Raised
from mainspring.tasks.helpers.places import MAIN, MAIN_ELSEWHERE


def raised_by(error: BaseException) -> Raised:
    """What a helper tells of it."""
    name, text = describe(error)
    kinds = [f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__]
    kinds = [kind.replace(MAIN_ELSEWHERE, MAIN, 1) for kind in kinds]
    if isinstance(error, RetryAfter):
        after = error.seconds(datetime.now(UTC))
        return Raised(kinds, name, text, after=after, counts=error.counts, pauses=error.pauses)
    return Raised(kinds, name.replace(MAIN_ELSEWHERE, MAIN, 1), text)


def raised_again(raised: Raised) -> Exception:
    """The exception that the worker raises for it."""
    if raised.after is not None:
        _, _, reason = raised.text.partition("\n")[0].partition(": ")
        return RetryAfter(raised.after, reason, counts=raised.counts, pauses=raised.pauses)
    for place in raised.kinds:
        if (kind := _known(place)) is not None and (made := _made(kind, raised)) is not None:
            return made
    return _Elsewhere(raised.name, raised.text)


class _Elsewhere(Described, Exception):
    """An exception whose class is not known here."""

    def __init__(self, name: str, text: str) -> None:
        self.described = (name, text)


def _known(place: str) -> type[Exception] | None:
    """The class of an exception, if this process has it. Nothing is imported."""
    module, _, name = place.partition(":")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _made(kind: type[Exception], raised: Raised) -> Exception | None:
    """One of this class, made without its own __init__, which may want anything."""
    try:
        cls = type(kind.__name__, (_Elsewhere, kind), {"__module__": kind.__module__})
        made: object = cls.__new__(cls)  # type: ignore[call-overload]
        assert isinstance(made, _Elsewhere)
        _Elsewhere.__init__(made, raised.name, raised.text)
    except Exception:
        return None
    return made
