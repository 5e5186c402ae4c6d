"""The doctor of kinds: whether every change of their tables is seen.

It goes by what is registered in the database, so it needs no application. Nothing is changed or locked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import asyncpg

from mainspring.db.database import Connection, Database
from mainspring.entities.capture import triggers as capture
from mainspring.entities.capture.triggers import FoundTrigger
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.table import Shape, TableRow, check_shape, quoted, shape_of
from mainspring.entities.operate.outbox import judge_outbox, list_outbox
from mainspring.entities.register import find_triggers
from mainspring.entities.save.loop_guard import FREE_HOPS
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidKind
from mainspring.kernel import read_now
from mainspring.operate import LEVELS, Finding, missing_rights

_MIGRATE = "run mainspring migrate module:app"
# What stages need besides a worker's rights; docs/operate/rights.md has the grants.
RIGHTS: tuple[tuple[str, str], ...] = tuple(
    (privilege, f"mainspring.{table}")
    for table in (
        "kind",
        "stage",
        "consumer",
        "state",
        "event",
        "event_kept",
        "delivery",
        "document",
    )
    for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE")
)


_OUTBOX = ("consumer", "event", "delivery")
# Rows without a key are counted up to here, and looked for no longer than this.
MOST_EMPTY = 1000
_LOOK_BRIEFLY = "set local statement_timeout = '1s'; set local lock_timeout = '200ms'"


class ListedKind(NamedTuple):
    """A row of list_kinds.sql."""

    name: str
    source: str
    keys: list[str]
    version_column: str
    capture: str
    ignored: list[str]
    notify: bool
    pool: str
    unserved: bool


class RestlessStage(NamedTuple):
    """A row of list_restless.sql."""

    kind: str
    stage: str
    entities: int
    one: str


async def examine(database: Database, connection: Connection) -> list[Finding]:
    """Look at the tables and triggers of all registered kinds; the worst first."""
    found: list[Finding] = []
    lacking = await missing_rights(database, connection, RIGHTS)
    if ("SELECT", "mainspring.kind") in lacking:
        return []  # a role that has nothing to do with stages
    listed_kinds = await connection.rows(SQL["list_kinds"], ListedKind)
    kinds = [settings_of(row) for row in listed_kinds]
    if kinds and lacking:
        listed = ", ".join(f"{privilege} on {name}" for privilege, name in lacking)
        text = f"the role may not run stages: it lacks {listed}"
        found.append(Finding("rights", "warn", text, "docs/operate/rights.md has the grants"))
    for kind in kinds:
        if kind.table is None or kind.is_document:
            continue
        row = await connection.first(SQL["inspect_table"], TableRow, name=kind.table)
        shape = None if row is None else shape_of(row)
        triggers = await find_triggers(connection, kind) if shape else []
        judged = list(judge_kind(kind, shape, triggers))
        if shape is not None and all(finding.level != "bad" for finding in judged):
            judged += judge_empty(kind, await _count_empty(database, connection, kind, shape))
        found += judged
    found += [_unserved(row.name) for row in listed_kinds if row.unserved]
    if ("SELECT", "mainspring.stage") not in lacking:
        restless = await connection.rows(SQL["list_restless"], RestlessStage, free=FREE_HOPS)
        found += [_restless(row) for row in restless]
    if not {("SELECT", f"mainspring.{table}") for table in _OUTBOX} & set(lacking):
        found += judge_outbox(await list_outbox(connection), await read_now(connection))
    return sorted(found, key=lambda finding: -LEVELS.index(finding.level))


async def _count_empty(
    database: Database, connection: Connection, kind: KindSettings, shape: Shape
) -> int:
    """How many rows have the empty text for a key, by the key's index: one, or one a partition. 0 too
    where that cannot be told, for want of rights or of time: others wait for what is found here."""
    if len(kind.keys) > 1 or not shape.column(kind.keys[0]).is_text:
        return 0  # the key of several columns is a JSON array, never empty
    looked = f"select from {shape.sql} where {quoted(kind.keys[0])} = '' limit {MOST_EMPTY}"
    try:
        async with database.transaction(connection):
            await connection.execute(_LOOK_BRIEFLY)
            return int(await connection.fetchval(f"select count(*) from ({looked}) e"))
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.QueryCanceledError,
        asyncpg.LockNotAvailableError,
    ):
        return 0


def judge_empty(kind: KindSettings, count: int) -> Iterator[Finding]:
    """Rows that no visit can be of: their key is the empty text."""
    if count:
        key, table = kind.keys[0], kind.table
        many = f"{count} or more" if count >= MOST_EMPTY else count
        text = (
            f"kind {kind.name!r}: {many} of the rows of {table} have an empty {key}, which no visit "
            "can have: no stage sees them, no crawl finds them"
        )
        remedy = (
            f"give them an id or delete them (where {key} = ''), and keep new ones out: "
            f"alter table {table} add check ({key} <> '')"
        )
        yield Finding("empty_key", "warn", text, remedy)


def _unserved(kind: str) -> Finding:
    text = f"no worker serves kind {kind!r}; its changes wait, and its triggers cost its writers"
    remedy = (
        f"start a worker that has it; if no code has it any more: mainspring entities drop {kind}"
    )
    return Finding("kind", "warn", text, remedy)


def _restless(row: RestlessStage) -> Finding:
    text = (
        f"stage {row.stage!r} of kind {row.kind!r} asks again and again to be visited at once, "
        f"for {row.entities} entities ({row.one!r} is one); their visits are put off"
    )
    remedy = "let it answer a time to come, or none to wait for a change"
    return Finding("restless", "warn", text, remedy)


def settings_of(row: ListedKind) -> KindSettings:
    """A registered kind, as far as its triggers go."""
    return KindSettings(
        name=row.name,
        source=row.source,
        keys=tuple(row.keys),
        version=row.version_column,
        ignore=tuple(row.ignored),
        capture=row.capture,
        notify=row.notify,
        pool=row.pool,
    )


def judge_kind(
    kind: KindSettings, shape: Shape | None, found: list[FoundTrigger]
) -> Iterator[Finding]:
    """What is wrong with one kind."""
    table = kind.table or ""
    try:
        sound = check_shape(
            kind.name, table, shape, keys=kind.keys, version=kind.version, ignore=kind.ignore
        )
    except InvalidKind as error:
        remedy = f"change the table or the declaration, then {_MIGRATE}"
        yield Finding("capture", "bad", str(error), remedy)
        return
    if sound.row_security:
        text = (
            f"kind {kind.name!r}: row security of {table} applies to this role; entities that it "
            "hides are taken for missing"
        )
        remedy = "give the worker's role a policy that shows all rows, or bypassrls"
        yield Finding("row_security", "warn", text, remedy)
    wrong = capture.faults(kind, sound, found)
    for fault, places in wrong.items():
        yield _fault(kind, fault, places)
    if not wrong and kind.capture == "call":
        text = f"kind {kind.name!r} is told of changes by call; no trigger sees those of {table}"
        yield Finding("capture", "ok", text)
    elif not wrong:
        yield Finding("capture", "ok", f"kind {kind.name!r} sees every change of {table}")


def _fault(kind: KindSettings, fault: str, places: list[str]) -> Finding:
    listed = ", ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else "")
    if fault == "outdated":
        text = f"kind {kind.name!r}: triggers are not as declared: {listed}"
        return Finding("capture", "warn", text, _MIGRATE)
    if fault == "left":
        text = f"kind {kind.name!r}: triggers of an earlier declaration are left: {listed}"
        return Finding("capture", "warn", text, _MIGRATE)
    text = f"kind {kind.name!r}: triggers are {fault}, changes are not seen: {listed}"
    remedy = f"{_MIGRATE}, then ask about all entities: mainspring entities crawl {kind.name}"
    return Finding("capture", "bad", text, remedy)
