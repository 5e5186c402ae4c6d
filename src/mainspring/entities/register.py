"""Registering kinds: their tables are looked at, and what the code declares is made known."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from mainspring.db.tx import Tx
from mainspring.entities.capture.triggers import PREFIX, FoundTrigger, TriggerRow, faults, own
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.table import Shape, TableRow
from mainspring.entities.source.choose import checked
from mainspring.entities.statements import SQL

log = logging.getLogger("mainspring")


async def register_kinds(tx: Tx, kinds: Iterable[DeclaredKind]) -> dict[str, Shape]:
    """Look at the tables of kinds and register them; returns the shapes by kind."""
    shapes: dict[str, Shape] = {}
    for kind in sorted(kinds, key=lambda k: k.name):
        shape = None
        if (table := kind.settings.table) is not None:
            shape = checked(kind, await tx.first(SQL["inspect_table"], TableRow, name=table))
            shapes[kind.name] = shape
        await tx.run(SQL["register_kind"], **registration(kind, shape))
        if shape is not None:
            _warn(kind, shape, await find_triggers(tx, kind.settings))
    return shapes


def _warn(kind: DeclaredKind, shape: Shape, there: list[FoundTrigger]) -> None:
    """A worker runs without triggers, but somebody should know that changes are not seen."""
    for fault, places in faults(kind.settings, shape, there).items():
        log.warning(
            "capture.faulty",
            extra={
                "kind": kind.name,
                "fault": fault,
                "triggers": places[:10],
                "remedy": "run mainspring migrate module:app",
            },
        )


async def find_triggers(tx: Tx, kind: KindSettings) -> list[FoundTrigger]:
    """Our triggers of a kind, as they are."""
    prefix = trigger_prefix(kind.name)
    return own(kind.name, await tx.rows(SQL["list_triggers"], TriggerRow, prefix=prefix))


def registration(kind: DeclaredKind, shape: Shape | None) -> dict[str, object]:
    """The values of register_kind.sql."""
    s = kind.settings
    keeps = None if s.keep_events is None else s.keep_events.total_seconds()
    declared = {"serial": s.serial, "jitter": s.jitter, "keep_events": keeps}
    return {
        "name": s.name,
        "pool": s.pool,
        "source": s.source,
        "keys": list(s.keys),
        "key_types": [] if shape is None or kind.is_document else shape.types(s.keys),
        "version": s.version,
        "capture": s.capture,
        "ignored": list(s.ignore),
        "notify": s.notify,
        "declared": msgspec.json.encode(declared).decode(),
        "crawl_seconds": s.crawl_every.total_seconds() if s.crawl_every else None,
    }


def trigger_prefix(kind: str) -> str:
    """The value of list_triggers.sql."""
    return f"{PREFIX}{kind}_"
