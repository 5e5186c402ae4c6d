"""Values of users in what a process keeps: encrypted, and opened again. Pure.

A value may be made of several that are encrypted, as that of a race is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import SEALED, Sealing, opened, opened_error

_PIECE = re.compile(r'\{\s*"\$":\s*\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}\s*\}')
_UNKNOWN_KEY = "mainspring.errors.UnknownCipherKey"


def opened_value(sealing: Sealing | None, text: str, what: str) -> str:
    """A value as JSON, with all that is sealed in it opened."""
    if SEALED not in text:
        return text
    # No text of a user's can look like it: there each quote has a backslash before it.
    return _PIECE.sub(lambda found: opened(sealing, found[0], what), text)


def opened_failure(sealing: Sealing | None, failure: Failure) -> Failure:
    """A failure; as it is stored where its key is not here."""
    stored = f"{failure.type}: {failure.message}\n{failure.trace}"
    text = opened_error(sealing, stored)
    if text is None or text == stored:
        return failure
    message, _, trace = text.removeprefix(f"{failure.type}: ").partition("\n")
    return msgspec.structs.replace(failure, message=message, trace=trace)


def sealed_failure(sealing: Sealing, failure: Failure) -> Failure:
    """A failure as it is stored: its type stays in the clear. One that is sealed stays as it is."""
    if failure.type == _UNKNOWN_KEY or sealing.is_error(failure.message, failure.trace):
        return failure
    text = sealing.error(f"{failure.type}: {failure.message}\n{failure.trace}")
    message, _, trace = text.removeprefix(f"{failure.type}: ").partition("\n")
    return msgspec.structs.replace(failure, message=message, trace=trace)


def sealed_args(sealing: Sealing, args: str) -> str:
    """The arguments of a start or a step, as they are stored."""
    return sealing.payload(args.encode(), ()).decode()


def check_searchable(attrs: Mapping[str, object], searchable: Collection[str], whose: str) -> None:
    """Attributes are in the clear: where values are encrypted, each is one that was said to be."""
    for name, value in attrs.items():
        if value is not None and name not in searchable:  # None takes one away
            raise InvalidArguments(
                f"attribute {name!r} of {whose} would be stored in the clear, and this application has a "
                f"cipher: say that it may, @app.process(searchable=[{name!r}]), or leave it out"
            )
