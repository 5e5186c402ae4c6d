"""Installing kinds: registered, with their triggers made what they must be. What `migrate` does.

It needs the rights of the tables' owner; a worker that starts only looks and registers (`register.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from mainspring.db.database import Database
from mainspring.db.tx import SyncTx
from mainspring.entities.capture import triggers
from mainspring.entities.capture.triggers import TriggerRow
from mainspring.entities.declare import catalogue, consumer
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.stage_declaration import check_stages
from mainspring.entities.declare.table import Shape, TableRow
from mainspring.entities.register import registration, trigger_prefix
from mainspring.entities.source.choose import checked
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKind, InvalidStage, MigrationFailed, MissingRights

# How long the installation waits for a table, and the table's writers behind it.
_LOCK_WAIT = "3s"


def install_kinds(
    database: Database, connection: psycopg.Connection[Any], kinds: Iterable[DeclaredKind]
) -> int:
    """Register kinds and their stages, make their triggers; how many triggers were changed.

    One transaction a kind: a table's lock is kept as short as can be. A second call changes nothing.
    """
    count = 0
    for kind in sorted(kinds, key=lambda k: k.name):
        with database.transaction_sync(connection):
            try:
                count += _install(connection, kind)
            except psycopg.errors.InsufficientPrivilege as error:
                raise MissingRights(
                    f"kind {kind.name!r}: {error.diag.message_primary}; kinds are registered by the "
                    "owner of schema mainspring: migrate as this role (mainspring rights owner)"
                ) from error
    return count


def _install(connection: psycopg.Connection[Any], kind: DeclaredKind) -> int:
    tx = SyncTx(connection)
    shape = inspect_kind(tx, kind)
    check_stages(kind, shape)  # before anything is changed, not when a worker starts
    tx.run(SQL["register_kind"], **registration(kind, shape))
    stages = catalogue.declared(kind.stages.values())
    tx.run(SQL["take_over_stage"], kind=kind.name, stages=stages)
    tx.run(SQL["register_stages"], kind=kind.name, stages=stages)
    tx.run(SQL["register_consumers"], consumers=consumer.registration(kind.consumers))
    _register_capture(tx, kind, shape)
    if shape is None or kind.is_document:
        return 0
    rows = tx.rows(SQL["list_triggers"], TriggerRow, prefix=trigger_prefix(kind.name))
    statements = triggers.changes(kind.settings, shape, triggers.own(kind.name, rows))
    if statements and not shape.may_trigger:
        raise MissingRights(
            f"kind {kind.name!r}: the role may not create triggers on {shape.sql}; migrate as its "
            f"owner, grant trigger on {shape.sql}, or apply what mainspring migrate --sql prints"
        )
    try:
        connection.execute(f"set local lock_timeout = '{_LOCK_WAIT}'".encode())
        if triggers.triggers(kind.settings, shape) and kind.has_version:
            connection.execute(triggers.bump_sql(kind.settings, shape).encode())
        if triggers.is_generated(kind.settings, shape):
            connection.execute(triggers.generate_sql(kind.settings, shape).encode())
        for statement in statements:
            connection.execute(statement.encode())
    except psycopg.errors.LockNotAvailable as error:
        raise MigrationFailed(
            f"kind {kind.name!r}: {shape.sql} was in use for {_LOCK_WAIT}, its triggers are as they "
            "were; run the migration again, in a quieter moment"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise MissingRights(
            f"kind {kind.name!r}: {error.diag.message_primary}; migrate as the owner of {shape.sql}, "
            "or apply what mainspring migrate --sql prints"
        ) from error
    return len(statements)


def _register_capture(tx: SyncTx, kind: DeclaredKind, shape: Shape | None) -> None:
    """Triggers see only what the owner of the schema has registered; it is asked for news alone."""
    captures = shape is not None and triggers.triggers(kind.settings, shape)
    wanted = shape.oid if shape is not None and captures else None
    captured = tx.rows(SQL["read_capture"], int, kind=kind.name)
    if captured == ([] if wanted is None else [wanted]):
        return
    tx.run(SQL["register_capture"], kind=kind.name, relid=wanted)


def kinds_script(connection: psycopg.Connection[Any], kinds: Iterable[DeclaredKind]) -> str:
    """The SQL that installs the triggers of kinds, for other tools to apply."""
    parts = []
    for kind in sorted(kinds, key=lambda k: k.name):
        shape = inspect_kind(SyncTx(connection), kind)
        if shape is not None and not kind.is_document:
            parts.append(triggers.install_sql(kind.settings, shape))
    return "\n".join(parts)


def examine_kinds(
    connection: psycopg.Connection[Any], kinds: Iterable[DeclaredKind]
) -> dict[str, str]:
    """Why kinds cannot stand on their tables, by kind; nothing is changed."""
    wrong: dict[str, str] = {}
    for kind in sorted(kinds, key=lambda k: k.name):
        try:
            shape = None if kind.is_document else inspect_kind(SyncTx(connection), kind)
            check_stages(kind, shape)
        except (InvalidKind, InvalidStage) as error:
            wrong[kind.name] = str(error)
    return wrong


def inspect_kind(tx: SyncTx, kind: DeclaredKind) -> Shape | None:
    """The table of a kind, if the kind can stand on it; None for a DAO."""
    if (table := kind.settings.table) is None:
        return None
    return checked(kind, tx.first(SQL["inspect_table"], TableRow, name=table))
