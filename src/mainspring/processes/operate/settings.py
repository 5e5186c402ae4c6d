"""Settings of process types: declared by the code, changed at run time, audited (P14).

What the code declares is stored when a worker starts. An operator's change stands until the code
declares something else, exactly as limits of queues do; each change is kept with who made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting, NotFound
from mainspring.kernel import decoded, nearest
from mainspring.processes.statements import SQL

# By kind of subject: the settings, and the least and greatest seconds where they are times.
KNOWN: Mapping[str, tuple[str, ...]] = {"process": ("process_timeout", "idle_timeout")}
LEAST, MOST = 1.0, 1e10


class SettingChange(msgspec.Struct, frozen=True):
    """A change of settings, and whose."""

    subject: str
    source: str
    before: dict[str, Any]
    after: dict[str, Any]
    changed_at: datetime


def check(kind: str, changes: Mapping[str, Any]) -> None:
    """Refuse settings that do not exist or are out of range."""
    known = KNOWN[kind]
    if not changes:
        raise InvalidSetting(f"name a setting to change: {', '.join(known)}")
    for name, value in changes.items():
        if name not in known:
            raise InvalidSetting(
                f"a setting of a {kind} is one of {', '.join(known)}, got {name!r}"
                f"{nearest(name, known)}"
            )
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not LEAST <= value < MOST
        ):
            raise InvalidSetting(f"{name} must be 1 or more seconds, got {value!r}")


async def register(
    database: Database, connection: Any, types: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    """Store what the code declares of process types; a new declaration overrules operators."""
    if types:
        await _ask(
            database,
            connection,
            "register_types",
            names=[name for name, _ in types],
            declared=[msgspec.json.encode(settings).decode() for _, settings in types],
        )


async def change(
    database: Database, connection: Any, name: str, changes: Mapping[str, Any], *, source: str
) -> dict[str, Any]:
    """Change settings of a process type from now on; answers all of them."""
    check("process", changes)
    values = {"name": name, "changes": msgspec.json.encode(changes).decode(), "source": source}
    rows = await _ask(database, connection, "change_type", **values)
    if not rows:
        known = [row[0] for row in await _ask(database, connection, "list_types")]
        raise NotFound(f"no process type is named {name!r}{nearest(name, known)}")
    found: dict[str, Any] = decoded(rows[0][0])
    return found


async def list_types(database: Database, connection: Any) -> dict[str, dict[str, Any]]:
    """The process types and their settings as they are in force."""
    rows = await _ask(database, connection, "list_types")
    return {row[0]: decoded(row[1]) for row in rows}


async def list_changes(
    database: Database, connection: Any, subject: str | None = None, *, limit: int = 50
) -> list[SettingChange]:
    """The changes that were made, of one subject or of all, newest first."""
    rows = await _ask(database, connection, "list_setting_changes", subject=subject, limit=limit)
    return [SettingChange(r[0], r[1], decoded(r[2]), decoded(r[3]), r[4]) for r in rows]


async def _ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))
