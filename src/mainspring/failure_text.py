"""The text of a failure, as it is stored and shown: the exception's type, its message, notes and place,
and the same of what caused it.

Whatever an exception contains, PostgreSQL can store its text, and it has a bound. Messages and notes are
as their author wrote them; those that quote what they were given (the server's, and of libraries that check
values) lose what they quote.
"""

from __future__ import annotations

import hashlib
import os
import re
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import thread
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from mainspring.shape import told

ERROR_BYTES = 16_000
GROUP_SHOWN = 3  # of the exceptions of a group
CHAIN_SHOWN = 5  # exceptions that led to one another
CAUSE_BYTES = 2_000  # of the message of one that led to it
NOTES_SHOWN = 10
FRAMES_SHOWN = 8  # of a traceback, the last ones
FRAMES_KEPT = 200  # texts of such frames
# Where calls come through before they are in the user's code: here, and a thread of the pool.
ENGINE = (f"{Path(__file__).parent}{os.sep}", thread.__file__)

# How the lines begin, besides the first, that say what happened and not where.
_HEADS = ("note: ", "caused by ", "while handling ")

_SCRUB = "__mainspring_scrub__"
Scrub: TypeAlias = Callable[[str], str]

_frames: dict[tuple[object, ...], str] = {}


class Described:
    """An exception that stands for one of another process, which has described it."""

    described: tuple[str, str]


def scrub_with(error: BaseException, scrub: Scrub) -> None:
    """Whatever is told of this exception goes through that before it is stored or logged."""
    error.__dict__[_SCRUB] = scrub  # beside what a class of the user's makes of attributes


def scrub_of(error: BaseException) -> Scrub | None:
    """What takes out of the texts of an exception, and of those that led to it, what is not to be shown."""
    for each in (error, *(led for led, _ in _chain(error))):
        if (scrub := each.__dict__.get(_SCRUB)) is not None:
            return scrub  # type: ignore[no-any-return]
    return None


def describe(error: BaseException) -> tuple[str, str]:
    """The exception's type and a text of it that PostgreSQL can store, whatever it contains."""
    name, text = _described(error, whole=(scrub := scrub_of(error)) is not None)
    # The cut comes last: a part of what is hidden would not be known.
    return clean_text(name, 500), clean_text(text if scrub is None else scrub(text), ERROR_BYTES)


def _described(error: BaseException, *, whole: bool) -> tuple[str, str]:
    """Its type and its text; a `whole` one is not cut."""
    if isinstance(error, Described):
        return error.described
    name, message, shown = _name_of(error), _message_of(error), [error]
    most, most_of_cause = (None, None) if whole else (ERROR_BYTES, CAUSE_BYTES)
    if isinstance(error, BaseExceptionGroup):  # says of itself only how many there are
        leaves = list(_leaves(error))[:GROUP_SHOWN]
        message += "".join(f"; {_name_of(leaf)}: {_message_of(leaf)}" for leaf in leaves)
        shown += leaves
    rest = _notes_of(error, most_of_cause)
    for each in shown:
        with suppress(BaseException):
            rest += _frames_of(each)
    for led, word in _chain(error):
        told_of = f"{word} {_name_of(led)}: {_message_of(led)[:most_of_cause]}"
        rest += f"{told_of}\n{_notes_of(led, most_of_cause)}"
        with suppress(BaseException):
            rest += _frames_of(led)
    return name, f"{name}: {message[:most]}\n{rest}".rstrip()


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exceptions that led to this one, the nearest first, and how each did."""
    seen = {id(error)}
    for _ in range(CHAIN_SHOWN):
        if error.__cause__ is not None:
            error, word = error.__cause__, "caused by"
        elif error.__context__ is not None and not error.__suppress_context__:
            error, word = error.__context__, "while handling"
        else:
            return
        if id(error) in seen:
            return
        seen.add(id(error))
        yield error, word


def _notes_of(error: BaseException, most: int | None) -> str:
    """What was added to it on its way, a line or more each."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list | tuple):
        return ""
    texts = [note for note in notes if isinstance(note, str)][:NOTES_SHOWN]
    return "".join(f"note: {text[:most]}\n" for text in texts)


def heads(text: str) -> str:
    """The text of a failure in one line: without the frames, which are indented."""
    lines = text.splitlines()
    return "; ".join([lines[0], *(line for line in lines[1:] if line.startswith(_HEADS))])


def _name_of(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message_of(error: BaseException) -> str:
    try:
        return told(error)
    except BaseException as broken:  # an exception whose __str__ raises is still an exception
        return f"(its text cannot be had: {type(broken).__name__})"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _frames_of(error: BaseException) -> str:
    """The last frames of an exception's traceback as text. To make it takes longer than a small task, and
    failures come from few places: those of the last ones are kept."""
    trace = each = below(error.__traceback__)
    places = []
    while each is not None:
        code = each.tb_frame.f_code  # equal to others of the same text in another file
        places.append((code.co_filename, code, each.tb_lasti, each.tb_lineno))
        each = each.tb_next
    key = tuple(places[-FRAMES_SHOWN:])
    text = _frames.get(key)
    if text is None:
        if len(_frames) >= FRAMES_KEPT:
            _frames.clear()
        text = _frames[key] = "".join(traceback.format_tb(trace, limit=-FRAMES_SHOWN))
    return text


def below(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the user's own code on; all of it where there is none."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(ENGINE):
        found = found.tb_next
    return trace if found is None else found


def clean_text(text: str, most: int) -> str:
    """Text without NUL and lone surrogates, of at most so many bytes; what is cut is said."""
    raw = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    return raw[: most - 40].decode("utf-8", "ignore") + f"... ({len(raw)} bytes in all)"


# -- failures that are alike

_VARYING = re.compile(
    r"""'[^']*'|"[^"]*"            # quoted values
    |\b[0-9a-f]{8}-[0-9a-f-]{27}\b # uuids
    |\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{16,}\b
    |\d+(?:[.,:]\d+)*              # numbers, times, versions
    """,
    re.VERBOSE,
)
_FRAME = re.compile(r'File "([^"]*)", line \d+, in (\S+)')


def normalise(message: str) -> str:
    """A message's first line without what differs from case to case."""
    first = message.strip().split("\n", 1)[0]
    return _VARYING.sub("*", first)[:200]


def fingerprint_of(name: str, kind: str, message: str, trace: str | None = None) -> str:
    """Equal for failures that are alike: of whom, type, message without its values, last frame.

    A text of a failure has its frames below its message.
    """
    frames = _FRAME.findall(message if trace is None else trace)
    place = f"{frames[-1][0].rsplit('/', 1)[-1]}:{frames[-1][1]}" if frames else ""
    parts = "\x1f".join((name, kind, normalise(message), place))
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:16]
