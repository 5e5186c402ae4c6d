"""A data access object of the user's own, where one table is not enough (S24).

The engine calls it on a connection of its own (asyncpg), inside the transaction of the visit and in a
savepoint; it must not commit, and the entities must live in the engine's database. `load` has a connection
of its kind's own; while `update` runs the worker writes few other results, so it waits for nothing but the
database. Changes are captured by call: whoever writes an entity outside a stage calls `kind.changed` in
the same transaction.

`update` is a compare-and-set: it writes an entity only if its version is the one given, and answers the new
one. With an empty patch it writes nothing, but still locks the entity until the end of the transaction
(`select ... for no key update`) and compares its version: that is how a state is saved beside an entity
that stays as it is.

Saves of many entities are one transaction, and `update` gets them in one call, in the order of their ids;
each is compared for itself, and one that has moved, is locked or fails is sent again alone. Write a `Dao`
where one statement can do it for many. Where each entity takes statements of its own (or a service's own
repository that knows one at a time), write a `DaoOfOne`, and `one_by_one` makes a `Dao` of it: each entity
has a transaction of its own then, as short as it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import asyncpg

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Change(Generic[E]):
    """One entity to be written: the fields of `patch`, if its version is still `version`."""

    id: str
    version: int
    entity: E  # whole, with the patch applied
    patch: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Dao(Protocol):
    """Loads and updates many entities at once.

    An attribute `most` says how many changes one call of `update` gets (100 unless it is there).
    """

    async def load(
        self, connection: asyncpg.Connection, ids: Sequence[str]
    ) -> Mapping[str, tuple[object, int]]:
        """Entity and version of each id that is there; an id that is not is left out."""
        ...

    async def update(
        self, connection: asyncpg.Connection, changes: Sequence[Change[Any]]
    ) -> Mapping[str, int]:
        """The new version of each id that was written; one whose version had moved is left out."""
        ...


@runtime_checkable
class ListingDao(Protocol):
    """A `Dao` that can name all its entities: what a crawl needs."""

    async def ids(
        self, connection: asyncpg.Connection, after: str | None, limit: int
    ) -> Sequence[object]:
        """The ids after one, in their order."""
        ...


class DaoOfOne(Protocol):
    """Loads and updates one entity at a time; `one_by_one` makes a `Dao` of it."""

    async def load(self, connection: asyncpg.Connection, id: str) -> tuple[object, int] | None:
        """Entity and version, or None if there is none."""
        ...

    async def update(self, connection: asyncpg.Connection, change: Change[Any]) -> int | None:
        """The new version, or None if the version had moved."""
        ...


class one_by_one:
    """A `Dao` that asks for one entity after the other, and saves each in a transaction of its own.

    orders = app.entities("order", dao=one_by_one(OrderDao()))
    """

    most = 1

    def __init__(self, dao: DaoOfOne) -> None:
        self._dao = dao

    async def load(
        self, connection: asyncpg.Connection, ids: Sequence[str]
    ) -> Mapping[str, tuple[object, int]]:
        found = {id: await self._dao.load(connection, id) for id in ids}
        return {id: pair for id, pair in found.items() if pair is not None}

    async def update(
        self, connection: asyncpg.Connection, changes: Sequence[Change[Any]]
    ) -> Mapping[str, int]:
        written = {c.id: await self._dao.update(connection, c) for c in changes}
        return {id: version for id, version in written.items() if version is not None}
