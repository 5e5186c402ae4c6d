"""Where the entities of a kind are: loaded, locked and written, many in one statement.

Statements over a user's own table are composed here, once per kind and set of written columns, from
quoted identifiers and never from values (a whole row is t.*: t alone is a column, if there is one of
that name). A batch travels as one JSON text; casts are on the parameters,
so every statement rides the key's index. Rows come as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import asyncpg
import msgspec

from mainspring.db.literals import numbers, texts, words
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.keys import split
from mainspring.entities.declare.table import DOCUMENT_TABLE, Shape, literal, quoted

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Loaded(msgspec.Struct, gc=False):
    """An entity as it was read. `xmin` lives in memory for one visit; it is never stored or sent."""

    key: str
    version: int | None
    xmin: str | None
    body: str
    entity: Any = None  # of a DAO: the user's own object

    def fields(self) -> dict[str, msgspec.Raw]:
        """Each field as the JSON text that it was read as."""
        return _fields(self.body)

    def same_as(self, other: Loaded) -> bool:
        """Whether nobody wrote the row between the two."""
        return self.version == other.version and self.xmin == other.xmin


class Written(msgspec.Struct, gc=False):
    """An entity after its save; `as_patched`: it has the patch's values, whatever triggers did."""

    version: int | None
    body: str
    as_patched: bool


@dataclass(frozen=True, slots=True)
class Patch:
    """What a save writes to one entity."""

    loaded: Loaded
    values: Mapping[str, Any]


class Source(Protocol):
    """The entities of a kind on a connection of the engine's."""

    most: int  # saves in one transaction

    async def load(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        """The entities that are there, in a snapshot of their own."""
        ...

    async def moved(self, connection: Any, loaded: Sequence[Loaded]) -> set[int]:
        """Which of these (by their place) are no longer there as they were loaded."""
        ...

    async def lock(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        """Those that nobody else has locked, locked until the transaction ends, as they are now."""
        ...

    async def barred(self, connection: Any, keys: Sequence[str]) -> dict[str, str]:
        """Of those that are there and could not be locked: which nobody has locked, and why."""
        ...

    async def update(self, connection: Any, patches: Sequence[Patch]) -> dict[str, Written]:
        """Write locked entities, all with the same columns; a row that a trigger vetoed, or wrote since
        it was locked, is left out."""
        ...


class Stood(msgspec.Struct):
    """How entities stand that somebody wants to write: `there` are those that could not be locked,
    `barred` those of them that nobody will ever lock, and why."""

    locked: dict[str, Loaded]
    there: dict[str, Loaded]
    barred: dict[str, str]


async def stand(source: Source, connection: Any, keys: Sequence[str]) -> Stood:
    """Lock entities; what is neither locked nor there does not exist."""
    locked = await source.lock(connection, keys)
    lost = [key for key in keys if key not in locked]
    there = await source.load(connection, lost) if lost else {}
    barred = await source.barred(connection, list(there)) if there else {}
    return Stood(locked, there, barred)


class TableSource:
    """A user's own table."""

    most = 1000

    def __init__(self, kind: DeclaredKind, shape: Shape, fields: Sequence[str] | None) -> None:
        self._keys = kind.keys
        self._shape = shape
        self._version = quoted(kind.version) if kind.has_version else None
        self._load = self._select(fields, "")
        self._moved = self._comparing()
        self._lock = self._select(None, self._locking())
        self._lock_now = self._lock.removesuffix("skip locked") + "nowait"
        self._update = lru_cache(256)(self._updating)

    def _items(self, *more: str) -> str:
        """The batch as rows: the key's columns as texts k0.., whatever else, and a number from 1 on."""
        keys = [f"json_array_elements_text(${i + 1}::text::json)" for i in range(len(self._keys))]
        others = [
            f"unnest(${len(keys) + i + 1}::text::{column.split()[1]}[])"
            for i, column in enumerate(more)
        ]
        names = [*(f"k{i}" for i in range(len(keys))), *(column.split()[0] for column in more)]
        return (
            f"rows from ({', '.join((*keys, *others))}) with ordinality as i({', '.join(names)}, n)"
        )

    def _columns(self, keys: Sequence[str]) -> list[str]:
        """The keys as `_items` takes them: a text for each column of the key."""
        if len(self._keys) == 1:
            return [texts(keys)]
        return [texts(column) for column in zip(*(split(k, self._keys) for k in keys), strict=True)]

    def _on(self, cast: bool = True) -> str:
        types = self._shape.types(self._keys) if cast else []
        casts = [f"::{type_}" for type_ in types] or [""] * len(self._keys)
        return " and ".join(
            f"t.{quoted(k)} = i.k{i}{c}"
            for i, (k, c) in enumerate(zip(self._keys, casts, strict=True))
        )

    def _version_of(self) -> str:
        return "null::bigint" if self._version is None else f"t.{self._version}::bigint"

    def _key_text(self) -> str:
        parts = [f"t.{quoted(k)}::text" for k in self._keys]
        return parts[0] if len(parts) == 1 else f"jsonb_build_array({', '.join(parts)})::text"

    def _select(self, fields: Sequence[str] | None, tail: str) -> str:
        if fields is None:
            body = "row_to_json(t.*)"
        else:
            listed = ", ".join(f"t.{quoted(f)}" for f in fields)
            body = f"(select row_to_json(x.*) from (select {listed}) x)"
        return (
            f"select i.n::integer, {self._key_text()} as key, {self._version_of()} as version, "
            f"t.xmin::text as xmin, {body}::text as body "
            f"from {self._items()} join {self._shape.sql} t on {self._on()}{tail}"
        )

    def _comparing(self) -> str:
        """Answers only what differs: nearly always nothing."""
        on = f"{self._on()} and t.xmin = i.xmin"
        if self._version is not None:
            on += f" and {self._version_of()} is not distinct from i.version"
        return (
            f"select i.n::integer from {self._items('version bigint', 'xmin xid')} "
            f"left join {self._shape.sql} t on {on} where t.xmin is null"
        )

    def _locking(self) -> str:
        ordered = ", ".join(f"t.{quoted(k)}" for k in self._keys)
        return f" order by {ordered} for no key update of t skip locked"

    def _updating(self, columns: tuple[str, ...]) -> str:
        """Only the patch's columns: others' triggers, generated columns and TOAST stay untouched.

        Nobody else can have written a locked row, but a trigger that an update before this one fired can.
        """
        sets = [f"{quoted(c)} = i.c{i}" for i, c in enumerate(columns)]
        if self._version is not None:
            sets.append(f"{self._version} = t.{self._version} + 1")
        given = [
            "n integer",
            "x xid",
            *(f"k{i} {t}" for i, t in enumerate(self._shape.types(self._keys))),
        ]
        given += [f"c{i} {self._shape.column(c).type}" for i, c in enumerate(columns)]
        same = " and ".join(
            f"to_jsonb(t.{quoted(c)}) is not distinct from to_jsonb(i.c{i})"
            for i, c in enumerate(columns)
        )
        return (
            f"update {self._shape.sql} t set {', '.join(sets)} from json_to_recordset($1::json) "
            f"as i({', '.join(given)}) where {self._on(cast=False)} "
            "and (i.x is null or t.xmin = i.x) "
            f"returning i.n, {self._version_of()} as version, row_to_json(t.*)::text as body, "
            f"({same}) as as_patched"
        )

    def _rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        if len(self._keys) == 1:
            return [{"n": n, "k0": key} for n, key in enumerate(keys)]
        parts = [split(key, self._keys) for key in keys]
        return [{"n": n, **{f"k{i}": p for i, p in enumerate(ps)}} for n, ps in enumerate(parts)]

    async def load(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        return await self._fetch(connection, self._load, keys)

    async def moved(self, connection: Any, loaded: Sequence[Loaded]) -> set[int]:
        values = [
            *self._columns([entity.key for entity in loaded]),
            numbers([entity.version for entity in loaded]),
            words([entity.xmin or "null" for entity in loaded]),
        ]
        return {n - 1 for (n,) in await connection.fetch(self._moved, *values)}

    async def lock(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        return await self._fetch(connection, self._lock, keys)

    async def barred(self, connection: Any, keys: Sequence[str]) -> dict[str, str]:
        """Rows that row security shows to this role and does not let it change."""
        found = {}
        for key in keys if self._shape.row_security else ():
            try:
                async with connection.transaction():
                    there = await self._fetch(connection, self._lock_now, [key])
            except asyncpg.LockNotAvailableError:
                continue
            if not there:
                found[key] = (
                    f"row security of {self._shape.sql} shows the row to this role and does not let "
                    "it update it; give the worker's role a policy for update, or bypassrls"
                )
        return found

    async def _fetch(
        self, connection: Any, statement: str, keys: Sequence[str]
    ) -> dict[str, Loaded]:
        rows = await connection.fetch(statement, *self._columns(keys))
        return {
            keys[n - 1]: Loaded(key, version, xmin, body) for n, key, version, xmin, body in rows
        }

    async def update(self, connection: Any, patches: Sequence[Patch]) -> dict[str, Written]:
        keys = [patch.loaded.key for patch in patches]
        columns = tuple(sorted(patches[0].values))
        rows = self._rows(keys)
        for row, patch in zip(rows, patches, strict=True):
            row["x"] = patch.loaded.xmin
            row.update({f"c{i}": patch.values[column] for i, column in enumerate(columns)})
        found = await connection.fetch(self._update(columns), _encode(rows).decode())
        return {keys[n]: Written(version, body, same) for n, version, body, same in found}


class DocumentSource:
    """Managed documents: fields are the top-level keys of a body."""

    most = 1000

    def __init__(self, kind: DeclaredKind) -> None:
        name = literal(kind.name)
        self._load = (
            "select t.key, t.version, t.xmin::text, t.body::text "
            f"from json_array_elements_text($1::json) as i(key) join {DOCUMENT_TABLE} t "
            f"on t.kind = {name} and t.key = i.key"
        )
        self._moved = (
            "select i.n::integer from rows from (json_array_elements_text($1::text::json), "
            "unnest($2::text::bigint[]), unnest($3::text::xid[])) "
            "with ordinality as i(key, version, xmin, n) "
            f"left join {DOCUMENT_TABLE} t on t.kind = {name} and t.key = i.key "
            "and t.version = i.version and t.xmin = i.xmin where t.xmin is null"
        )
        self._lock = self._load + " order by t.key for no key update of t skip locked"
        self._update = (
            f"update {DOCUMENT_TABLE} t set body = t.body || i.patch, version = t.version + 1, "
            "changed_at = mainspring.now() "
            "from json_to_recordset($1::json) as i(key text, patch jsonb) "
            f"where t.kind = {name} and t.key = i.key "
            "returning t.key, t.version, t.body::text, t.body @> i.patch"
        )

    async def load(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        rows = await connection.fetch(self._load, _encode(keys).decode())
        return {row[0]: Loaded(*row) for row in rows}

    async def moved(self, connection: Any, loaded: Sequence[Loaded]) -> set[int]:
        values = (
            texts([e.key for e in loaded]),
            numbers([e.version for e in loaded]),
            words([e.xmin or "null" for e in loaded]),
        )
        return {n - 1 for (n,) in await connection.fetch(self._moved, *values)}

    async def lock(self, connection: Any, keys: Sequence[str]) -> dict[str, Loaded]:
        rows = await connection.fetch(self._lock, _encode(keys).decode())
        return {row[0]: Loaded(*row) for row in rows}

    async def barred(self, connection: Any, keys: Sequence[str]) -> dict[str, str]:
        return {}

    async def update(self, connection: Any, patches: Sequence[Patch]) -> dict[str, Written]:
        items = [{"key": p.loaded.key, "patch": p.values} for p in patches]
        rows = await connection.fetch(self._update, _encode(items).decode())
        return {key: Written(version, body, same) for key, version, body, same in rows}
