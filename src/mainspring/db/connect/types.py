"""What the catalog says of types, which asyncpg asks on each connection for most arrays.

The query costs a server some milliseconds of its CPU. What has a number that was assigned by hand is the
same in every database of every server, so a process asks for it once. Other types are asked for as ever:
those that somebody has made, and those that each release of PostgreSQL, or its initdb, numbers anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import asyncpg

_FIRST_COUNTED = 10_000  # of the numbers of types; those below stay what they are in all releases
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
        if max(wanted) < _FIRST_COUNTED:
            _known[wanted] = found
        return found, asked
