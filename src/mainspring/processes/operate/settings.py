"""Settings of process types: declared by the code, changed at run time, audited (P14).

What the code declares is stored when a worker starts. An operator's change stands until the code
declares something else, exactly as limits of queues do; each change is kept with who made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.phrases import nearest
from mainspring.processes.statements import SQL

# By kind of subject: the settings, and the least and greatest seconds where they are times.
KNOWN: Mapping[str, tuple[str, ...]] = {"process": ("process_timeout", "idle_timeout")}
LEAST, MOST = 1.0, 1e10


class SettingChange(msgspec.Struct, frozen=True):
    """A change of settings, and whose."""

    subject: str
    source: str
    before: dict[str, object]
    after: dict[str, object]
    changed_at: datetime


class ChangeRow(NamedTuple):
    """A row of list_setting_changes.sql."""

    subject: str
    source: str
    before: str  # JSON
    after: str  # JSON
    changed_at: datetime


class TypeSettings(NamedTuple):
    """A row of list_types.sql."""

    name: str
    settings: str  # JSON


def check(kind: str, changes: Mapping[str, object]) -> None:
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


async def register(tx: Tx, types: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    """Store what the code declares of process types; a new declaration overrules operators."""
    if types:
        await tx.run(
            SQL["register_types"],
            names=[name for name, _ in types],
            declared=[msgspec.json.encode(settings).decode() for _, settings in types],
        )


async def change(
    tx: Tx, name: str, changes: Mapping[str, object], *, source: str
) -> dict[str, object]:
    """Change settings of a process type from now on; returns all of them."""
    check("process", changes)
    text = msgspec.json.encode(changes).decode()
    after = await tx.first(SQL["change_type"], str, name=name, changes=text, source=source)
    if after is None:
        raise NotFound(f"no process type is named {name!r}{nearest(name, await list_types(tx))}")
    return _decoded(after)


async def list_types(tx: Tx) -> dict[str, dict[str, object]]:
    """The process types and their settings as they are in force."""
    found = await tx.rows(SQL["list_types"], TypeSettings)
    return {type.name: _decoded(type.settings) for type in found}


async def list_changes(
    tx: Tx, subject: str | None = None, *, limit: int = 50
) -> list[SettingChange]:
    """The changes that were made, of one subject or of all, newest first."""
    return [
        SettingChange(
            row.subject, row.source, _decoded(row.before), _decoded(row.after), row.changed_at
        )
        for row in await tx.rows(
            SQL["list_setting_changes"], ChangeRow, subject=subject, limit=limit
        )
    ]


def _decoded(text: str) -> dict[str, object]:
    return msgspec.json.decode(text, type=dict[str, object])
