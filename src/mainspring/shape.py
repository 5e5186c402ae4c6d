"""Values in error texts: their fields and types, never themselves.

An error goes to logs, history and operators. What it is about may be a password or a card number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_MOST = 20  # fields that are named
# Where msgspec quotes what it was given: "Invalid enum value 'x' - at `$.a`".
_QUOTED = re.compile(r"^(Invalid (?:enum )?value)\b.*?( - at `.*`)?$", re.DOTALL)
# Where pydantic does: "[type=int_parsing, input_value='x', input_type=str]".
_INPUT_VALUE = re.compile(r", input_value=.*(?=, input_type=\w+\])")
# Where PostgreSQL does: 'invalid input syntax for type integer: "x"'.
_INPUT = re.compile(r': ".*', re.DOTALL)


def shape(value: object) -> str:
    """'dict of a: int, b: str', 'list of 3', 'str'."""
    if isinstance(value, Mapping):
        named = [f"{name!s:.60}: {type(each).__name__}" for name, each in value.items()][:_MOST]
        more = ", ..." if len(value) > _MOST else ""
        return f"{type(value).__name__} of {', '.join(named) or 'nothing'}{more}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"{type(value).__name__} of {len(value)}"
    return "None" if value is None else type(value).__name__


def shape_of_json(text: str | bytes) -> str:
    """The same of a value that is JSON as yet."""
    try:
        return shape(msgspec.json.decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return f"{len(text)} characters that are no JSON"


def fault(error: Exception) -> str:
    """What is wrong with a value, without the value."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or contains itself; store it elsewhere and pass its id"
    return _QUOTED.sub(r"\1\2", str(error))


def told(error: BaseException) -> str:
    """The text of an error, without the values that libraries quote: the server's errors (by whatever
    driver or ORM they come) and those of who checks values."""
    source = type(error).__module__.partition(".")[0]
    if source == "pydantic_core":
        return _INPUT_VALUE.sub("", str(error))
    if source == "msgspec" and isinstance(error, Exception):
        return fault(error)
    if (server := _of_server(error, source)) is None:
        text = str(error)
        return text.partition("\n[SQL: ")[0] if source == "sqlalchemy" else text
    state = str(getattr(server, "sqlstate", ""))
    primary = str(server).partition("\nDETAIL:")[0].partition("\nLINE ")[0].rstrip()
    return _INPUT.sub("", primary) if state.startswith("22") else primary


def _of_server(error: BaseException, source: str) -> object | None:
    """The server's error: this one, or that which an ORM has wrapped."""
    inner = getattr(error, "orig", None) if source == "sqlalchemy" else None
    if source == "django":
        inner = error.__cause__
    found = (each for each in (error, inner) if isinstance(getattr(each, "sqlstate", None), str))
    return next(found, None)
