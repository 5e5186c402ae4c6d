"""What the catalog says of types, which asyncpg asks on each connection for most arrays.

The query costs a server some milliseconds of its CPU. What is built in is the same in every database of
every server, so a process asks for it once. A type that somebody has made is asked for as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import asyncpg

_FIRST_MADE = 16384  # of the numbers of types; those below are PostgreSQL's own
_known: dict[frozenset[int], Sequence[asyncpg.Record]] = {}
# Where nothing is asked nothing is overwritten: not the statement without a name, which is in use.
_ASKED_NOTHING = SimpleNamespace(name="known")


class TypedConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that asks for a built-in type only if no other one of this process has."""

    async def _introspect_types(
        self, typeoids: Iterable[int], timeout: float | None
    ) -> tuple[Sequence[asyncpg.Record], object]:
        wanted = frozenset(typeoids)
        if (known := _known.get(wanted)) is not None:
            return known, _ASKED_NOTHING
        found, asked = await super()._introspect_types(wanted, timeout)
        if max(wanted) < _FIRST_MADE:
            _known[wanted] = found
        return found, asked
