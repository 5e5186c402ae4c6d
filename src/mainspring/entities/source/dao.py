"""Entities of a user's own data access object, as the engine loads, locks and writes them.

Each call in a savepoint, many entities a transaction: what one of them is refused for is found by halving.
What the user's code answers is looked at before it is
believed: an id that is none of those asked for would be taken for an entity that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainspring.db.database import Connection
from mainspring.entities.declare.dao import Change, Dao
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.model import Model
from mainspring.entities.source.rows import Loaded, Patch, Written
from mainspring.errors import InvalidKind
from mainspring.shape import shape

_encode = msgspec.json.Encoder().encode
# Fewer than of a table: each save may be statements of the user's own, and locks are held for all of them.
SAVES_AT_ONCE = 100


class DaoSource:
    """A user's own data access object: each call in a savepoint."""

    def __init__(self, kind: DeclaredKind, dao: Dao) -> None:
        self.most = _most(kind.name, dao)
        self._dao = dao
        self._model: Model = kind.model

    async def load(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        async with connection.transaction():
            found = await self._dao.load(connection, list(keys))
        _check_ids("load", found, keys)
        return {key: self._loaded(key, found[key]) for key in keys if key in found}

    async def moved(self, connection: Connection, loaded: Sequence[Loaded]) -> set[int]:
        now = await self.load(connection, [entity.key for entity in loaded])
        return {n for n, e in enumerate(loaded) if e.key not in now or not e.same_as(now[e.key])}

    async def lock(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        """An update with no field locks and compares; what it does not answer has moved. In the order
        of the keys: nobody skips what is locked here, and two that lock the same wait only once."""
        now = await self.load(connection, sorted(keys))
        held = await self._hold(connection, now)
        return {key: loaded for key, loaded in now.items() if held.get(key) == loaded.version}

    async def _hold(self, connection: Connection, now: Mapping[str, Loaded]) -> Mapping[str, int]:
        changes = [Change(key, loaded.version or 0, loaded.entity) for key, loaded in now.items()]
        return await self._write(connection, changes)

    async def _write(
        self, connection: Connection, changes: Sequence[Change[Any]]
    ) -> Mapping[str, int]:
        async with connection.transaction():
            versions = await self._dao.update(connection, changes)
        _check_ids("update", versions, [change.id for change in changes])
        return versions

    async def barred(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        """Entities that stand still, and whose version an update with no field does not answer."""
        before = await self.load(connection, keys)
        held = await self._hold(connection, before)
        now = await self.load(connection, keys)
        return {
            key: f"update of the dao was given an empty patch of version {loaded.version} and answered "
            f"{held.get(key)!r}: it must lock the entity, compare, and answer that version"
            for key, loaded in before.items()
            if held.get(key) != loaded.version and key in now and loaded.same_as(now[key])
        }

    async def update(self, connection: Connection, patches: Sequence[Patch]) -> dict[str, Written]:
        changes, bodies = [], {}
        for patch in patches:
            row = msgspec.json.decode(patch.loaded.body) | dict(patch.values)
            key, version = patch.loaded.key, patch.loaded.version or 0
            entity = self._model.decode(row)
            values = {
                f: getattr(entity, f, row[f]) if self._model.type else row[f] for f in patch.values
            }
            changes.append(Change(key, version, entity, values))
            bodies[key] = _encode(row).decode()
        versions = await self._write(connection, changes)
        return {key: Written(version, bodies[key], True) for key, version in versions.items()}

    def _loaded(self, key: str, answer: object) -> Loaded:
        if (
            not isinstance(answer, tuple | list)
            or len(answer) != 2
            or not isinstance(answer[1], int)
        ):
            raise TypeError(
                f"load of the dao must answer (entity, version) for {key!r}, a version being an int, "
                f"got {shape(answer)}"
            )
        entity, version = answer
        return Loaded(key, version, None, _encode(self._model.encode(entity)).decode(), entity)


def _most(kind: str, dao: Dao) -> int:
    most = getattr(dao, "most", SAVES_AT_ONCE)
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1000:
        raise InvalidKind(f"most of the dao of kind {kind!r} must be 1 to 1000, got {most!r}")
    return most


def _check_ids(method: str, answer: object, keys: Sequence[str]) -> None:
    """An id that is not one of those asked for would be taken for an entity that is not there."""
    if not isinstance(answer, Mapping):
        raise TypeError(f"{method} of the dao must answer a mapping by id, got {shape(answer)}")
    for id in answer.keys() - set(keys):
        raise TypeError(
            f"{method} of the dao answered for the id {id!r}, which it was not asked for; ids are the "
            f"texts that it is given: {keys[0]!r}"
        )
