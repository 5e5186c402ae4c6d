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
from typing import NamedTuple, Protocol

import asyncpg
import msgspec

from mainspring.db.database import Connection
from mainspring.db.sql import Composed, as_rows, numbers, texts, words
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.ids import split
from mainspring.entities.declare.table import DOCUMENT_TABLE, Shape, literal, quoted

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
# How rows are printed as JSON: the same in every session, so that texts can be compared.
PRINTING: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
LOCAL_PRINTING = "; ".join(f"set local {name} = '{value}'" for name, value in PRINTING.items())


class Loaded(msgspec.Struct, gc=False):
    """An entity as it was read. `xmin` lives in memory for one visit; it is never stored or sent."""

    key: str
    version: int | None
    xmin: str | None
    body: str
    entity: object = None  # of a DAO: the user's own object

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
    values: Mapping[str, object]


class FoundEntity(NamedTuple):
    """An entity as a statement returns it."""

    n: int  # of the key that it was asked for by, from 1
    key: str
    version: int | None
    xmin: str
    body: str


class UpdatedEntity(NamedTuple):
    """An entity as its update returns it."""

    n: int  # of the patch, from 1
    version: int | None
    body: str
    as_patched: bool


class Source(Protocol):
    """The entities of a kind on a connection of the engine's."""

    most: int  # saves in one transaction

    async def load(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        """The entities that are there, in a snapshot of their own."""
        ...

    async def moved(self, connection: Connection, loaded: Sequence[Loaded]) -> set[int]:
        """Which of these (by their place) are no longer there as they were loaded."""
        ...

    async def lock(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        """Those that nobody else has locked, locked until the transaction ends, as they are now."""
        ...

    async def barred(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        """Of those that are there and could not be locked: which nobody has locked, and why."""
        ...

    async def update(self, connection: Connection, patches: Sequence[Patch]) -> dict[str, Written]:
        """Write locked entities, all with the same columns; a row that a trigger vetoed, or wrote since
        it was locked, is left out."""
        ...


class Stood(msgspec.Struct):
    """How entities stand that somebody wants to write: `there` are those that could not be locked,
    `barred` those of them that nobody will ever lock, and why."""

    locked: dict[str, Loaded]
    there: dict[str, Loaded]
    barred: dict[str, str]


async def stand(source: Source, connection: Connection, keys: Sequence[str]) -> Stood:
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
        self._names = [f"k{i}" for i in range(len(kind.keys))]
        lock = self._select(None, self._locking())
        lock_now = lock.removesuffix("skip locked") + "nowait"
        self._load = Composed("load_entities", self._select(fields, ""), self._names)
        self._lock = Composed("lock_entities", lock, self._names)
        self._lock_now = Composed("lock_entities_now", lock_now, self._names)
        compared = [*self._names, "versions", "xmins"]
        self._moved = Composed("compare_entities", self._comparing(), compared)
        self._update = lru_cache(256)(self._updating)

    def _items(self, *more: str) -> str:
        """The batch as rows: the key's columns as texts k0.., whatever else, and a number from 1 on."""
        keys = [f"json_array_elements_text(${i + 1}::text::json)" for i in range(len(self._keys))]
        others = [
            f"unnest(${len(keys) + i + 1}::text::{column.split()[1]}[])"
            for i, column in enumerate(more)
        ]
        names = [*self._names, *(column.split()[0] for column in more)]
        return (
            f"rows from ({', '.join((*keys, *others))}) with ordinality as i({', '.join(names)}, n)"
        )

    def _columns(self, keys: Sequence[str]) -> dict[str, str]:
        """The keys as `_items` takes them: a text for each column of the key."""
        if len(self._keys) == 1:
            return {"k0": texts(keys)}
        columns = zip(*(split(k, self._keys) for k in keys), strict=True)
        return {name: texts(column) for name, column in zip(self._names, columns, strict=True)}

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

    def _updating(self, columns: tuple[str, ...]) -> Composed:
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
        text = (
            f"update {self._shape.sql} t set {', '.join(sets)} from json_to_recordset($1::text::json) "
            f"as i({', '.join(given)}) where {self._on(cast=False)} "
            "and (i.x is null or t.xmin = i.x) "
            f"returning i.n, {self._version_of()} as version, row_to_json(t.*)::text as body, "
            f"({same}) as as_patched"
        )
        return Composed("update_entities", text, ["items"])

    def _item(self, n: int, patch: Patch, columns: Sequence[str]) -> dict[str, object]:
        """A patch as `_updating` takes it."""
        parts = zip(self._names, split(patch.loaded.key, self._keys), strict=True)
        item: dict[str, object] = {"n": n, "x": patch.loaded.xmin, **dict(parts)}
        for i, column in enumerate(columns):
            item[f"c{i}"] = patch.values[column]
        return item

    async def load(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        return await self._fetch(connection, self._load, keys)

    async def moved(self, connection: Connection, loaded: Sequence[Loaded]) -> set[int]:
        differing = await connection.rows(
            self._moved,
            int,
            **self._columns([entity.key for entity in loaded]),
            versions=numbers([entity.version for entity in loaded]),
            xmins=words([entity.xmin or "null" for entity in loaded]),
        )
        return {n - 1 for n in differing}

    async def lock(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        return await self._fetch(connection, self._lock, keys)

    async def barred(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
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
        self, connection: Connection, statement: Composed, keys: Sequence[str]
    ) -> dict[str, Loaded]:
        found = await connection.rows(statement, FoundEntity, **self._columns(keys))
        return _by_key(found, keys)

    async def update(self, connection: Connection, patches: Sequence[Patch]) -> dict[str, Written]:
        columns = tuple(sorted(patches[0].values))
        items = [self._item(n, patch, columns) for n, patch in enumerate(patches, 1)]
        found = await connection.rows(self._update(columns), UpdatedEntity, items=as_rows(items))
        return _written(found, patches)


class DocumentSource:
    """Managed documents: fields are the top-level keys of a body."""

    most = 1000

    def __init__(self, kind: DeclaredKind) -> None:
        name = literal(kind.name)
        load = (
            "select i.n::integer, t.key, t.version, t.xmin::text as xmin, t.body::text as body "
            "from json_array_elements_text($1::text::json) with ordinality as i(key, n) "
            f"join {DOCUMENT_TABLE} t on t.kind = {name} and t.key = i.key"
        )
        moved = (
            "select i.n::integer from rows from (json_array_elements_text($1::text::json), "
            "unnest($2::text::bigint[]), unnest($3::text::xid[])) "
            "with ordinality as i(key, version, xmin, n) "
            f"left join {DOCUMENT_TABLE} t on t.kind = {name} and t.key = i.key "
            "and t.version = i.version and t.xmin = i.xmin where t.xmin is null"
        )
        update = (
            f"update {DOCUMENT_TABLE} t set body = t.body || i.patch, version = t.version + 1, "
            "changed_at = mainspring.now() "
            "from json_to_recordset($1::text::json) as i(n integer, key text, patch jsonb) "
            f"where t.kind = {name} and t.key = i.key "
            "returning i.n, t.version, t.body::text as body, t.body @> i.patch as as_patched"
        )
        lock = f"{load} order by t.key for no key update of t skip locked"
        self._load = Composed("load_documents", load, ["keys"])
        self._lock = Composed("lock_documents", lock, ["keys"])
        self._moved = Composed("compare_documents", moved, ["keys", "versions", "xmins"])
        self._update = Composed("update_documents", update, ["items"])

    async def load(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        return _by_key(await connection.rows(self._load, FoundEntity, keys=texts(keys)), keys)

    async def moved(self, connection: Connection, loaded: Sequence[Loaded]) -> set[int]:
        differing = await connection.rows(
            self._moved,
            int,
            keys=texts([e.key for e in loaded]),
            versions=numbers([e.version for e in loaded]),
            xmins=words([e.xmin or "null" for e in loaded]),
        )
        return {n - 1 for n in differing}

    async def lock(self, connection: Connection, keys: Sequence[str]) -> dict[str, Loaded]:
        return _by_key(await connection.rows(self._lock, FoundEntity, keys=texts(keys)), keys)

    async def barred(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        return {}

    async def update(self, connection: Connection, patches: Sequence[Patch]) -> dict[str, Written]:
        items = [
            {"n": n, "key": patch.loaded.key, "patch": patch.values}
            for n, patch in enumerate(patches, 1)
        ]
        found = await connection.rows(self._update, UpdatedEntity, items=as_rows(items))
        return _written(found, patches)


def _by_key(found: Sequence[FoundEntity], keys: Sequence[str]) -> dict[str, Loaded]:
    """By the keys that were asked for: the column may print another text for the same id."""
    return {keys[row.n - 1]: Loaded(row.key, row.version, row.xmin, row.body) for row in found}


def _written(found: Sequence[UpdatedEntity], patches: Sequence[Patch]) -> dict[str, Written]:
    return {
        patches[row.n - 1].loaded.key: Written(row.version, row.body, row.as_patched)
        for row in found
    }
