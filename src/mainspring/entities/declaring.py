"""Declaring kinds: what `app.entities` and `app.documents` are given, checked and entered once."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from mainspring.declaring import check_own
from mainspring.entities.declare.dao import Dao
from mainspring.entities.declare.declared_kind import KindHost
from mainspring.entities.declare.ids import Codec
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.documents import AnyDocuments, Documents
from mainspring.entities.kind import AnyKind, Kind
from mainspring.errors import DuplicateKind, InvalidKind

_NAME = r'(?:[^\W\d][\w$]*|"(?:[^"]|"")+")'
_SCHEMA = re.compile(rf"{_NAME}\.")
_TABLE = re.compile(rf"(?:{_NAME}\.)?{_NAME}")


def declare_entities(
    host: KindHost,
    kinds: dict[str, AnyKind],
    tasks: Container[str],
    name: str,
    *,
    table: str | None,
    dao: Dao | None,
    key: str | Iterable[str],
    ignore: Iterable[str],
    capture: str | None,
    model: type[object] | None,
    codec: Codec[Any] | None,
    **settings: Any,
) -> AnyKind:
    """A kind on a table of the user's, or on a DAO."""
    if (table is None) == (dao is None):
        raise InvalidKind(
            f"kind {name!r} needs a table or a dao, "
            f"{'got neither' if table is None else 'not both'}: such as table='public.{name}'"
        )
    if dao is not None and not isinstance(dao, Dao):
        raise InvalidKind(
            f"kind {name!r}: a dao needs load(connection, ids) and update(connection, changes), "
            f"got {dao!r}"
        )
    if dao is not None and capture not in (None, "call"):
        raise InvalidKind(
            f"kind {name!r}: a dao has no table for triggers; leave capture out and call changed"
        )
    if isinstance(ignore, str):
        raise InvalidKind(f"kind {name!r}: ignore must be a list of columns, got {ignore!r}")
    declared = KindSettings(
        name=name,
        source="dao" if table is None else _table_name(name, table),
        keys=(key,) if isinstance(key, str) else tuple(key),
        ignore=tuple(ignore),
        capture=capture or ("call" if table is None else "statement"),
        **settings,
    )
    return _enter(kinds, tasks, Kind(host, declared, model=model, dao=dao, codec=codec))


def declare_documents(
    host: KindHost,
    kinds: dict[str, AnyKind],
    tasks: Container[str],
    name: str,
    *,
    model: type[object] | None,
    codec: Codec[Any] | None,
    **settings: Any,
) -> AnyDocuments:
    """A kind of managed JSON documents."""
    declared = KindSettings(name=name, source="document", keys=("key",), **settings)
    documents: AnyDocuments = Documents(host, declared, model=model, codec=codec)
    _enter(kinds, tasks, documents)
    return documents


def _table_name(kind: str, table: str) -> str:
    if not isinstance(table, str) or not table or table in ("document", "dao"):
        raise InvalidKind(f"kind {kind!r}: name the table with its schema, got {table!r}")
    if not _TABLE.fullmatch(table):
        raise InvalidKind(
            f"kind {kind!r}: {table!r} is no name of a table as SQL writes it; put what is no plain "
            "word in double quotes, such as table='public.\"my table\"'"
        )
    return table if _SCHEMA.match(table) else f"public.{table}"


def _enter(kinds: dict[str, AnyKind], tasks: Container[str], kind: AnyKind) -> AnyKind:
    check_own(kind.name, InvalidKind)
    if kind.name in kinds:
        raise DuplicateKind(f"kind {kind.name!r} is declared twice; give one of them another name")
    if kind.name in tasks:
        raise DuplicateKind(
            f"{kind.name!r} is a task already, and a kind's name is a queue too; "
            "give one of them another name"
        )
    kinds[kind.name] = kind
    return kind
