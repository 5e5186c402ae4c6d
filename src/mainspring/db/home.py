"""Whether a caller's connection leads to the application's own database.

What was written elsewhere would never be found again. A connection is asked once, and so is an address, for
connections come and go: a statement for each enqueue would be a round trip for each.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeAlias
from weakref import WeakSet

from mainspring.db.sql import Statement, Steps, load, one
from mainspring.errors import InvalidSetting

Address: TypeAlias = tuple[object, ...]  # as the driver has it: host, port, name of the database


class WhichDatabase(NamedTuple):
    """A row of which_database.sql."""

    number: int
    started: str
    name: str
    has_schema: bool

    def is_same(self, other: WhichDatabase) -> bool:
        return (self.number, self.started) == (other.number, other.started)


class Home:
    """The application's own database, and who is known to lead to it."""

    def __init__(self) -> None:
        self.place: WhichDatabase | None = None
        self._connections: WeakSet[object] = WeakSet()
        self._addresses: set[Address] = set()

    def knows(self, connection: object, address: Address | None) -> bool:
        """Whether it, or one of the same address, was asked before."""
        if connection in self._connections:
            return True
        if address is None or address not in self._addresses:
            return False
        self._connections.add(connection)
        return True

    def learn(self, place: WhichDatabase) -> None:
        """The application's own database is this one."""
        self.place = place

    def judge(
        self, place: WhichDatabase, connection: object, address: Address | None, shown: str
    ) -> None:
        """Remember a connection that leads here; refuse another."""
        home = self.place
        assert home is not None
        if not place.is_same(home):
            there = "another installation" if place.has_schema else "no schema 'mainspring'"
            raise InvalidSetting(
                f"on= leads to database {place.name!r}, which has {there}; this application uses "
                f"{shown}: nothing was written. Give a connection to that database, or another "
                "Mainspring(url)"
            )
        self._connections.add(connection)
        if address is not None:
            self._addresses.add(address)


def which_database() -> Steps[WhichDatabase]:
    """Ask a connection where it leads."""
    return one(_statement(), WhichDatabase)


@cache
def _statement() -> Statement:
    return load("mainspring.db.caller")["which_database"]
