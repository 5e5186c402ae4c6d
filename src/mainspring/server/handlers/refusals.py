"""What the database refuses, as errors of ours: by its code, never by its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from mainspring.errors import InvalidArguments, MissingRights, NotFound, QueueFull

_TOO_DEEP = "54001"  # values inside values


@contextmanager
def refusals() -> Iterator[None]:
    """Around statements: what the caller can mend is told as such, the rest stays as it is."""
    try:
        yield
    except asyncpg.PostgresError as error:
        state = str(error.sqlstate or "")
        line = str(error).splitlines()[0] if str(error) else state
        hint = getattr(error, "hint", None)
        told = f"{line}; {hint}" if hint else line
        if (
            state == "42704"
        ):  # undefined_object; its hint names what is there, maybe beyond his scopes
            raise NotFound(line) from error
        if state == "42501":  # insufficient_privilege
            raise MissingRights(
                f"the server's role may not do this: {line}; `mainspring rights` prints the grants"
            ) from error
        if state == "54000":  # program_limit_exceeded
            raise QueueFull(told) from error
        if state.startswith(("22", "23")) or state == _TOO_DEEP:
            raise InvalidArguments(told) from error
        raise
