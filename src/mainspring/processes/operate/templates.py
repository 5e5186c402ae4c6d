"""Filters of processes that are kept under a name, each with its action and how that is done."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs import Operation
from mainspring.phrases import nearest
from mainspring.processes.operate import bulk
from mainspring.processes.operate.bulk import (
    BulkOrder,
    CancelProcesses,
    CheckProcesses,
    RestartProcesses,
)
from mainspring.processes.operate.search import ProcessFilter, check_search
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.options import check_text

TEMPLATE_BYTES = 200
ACTIONS = ("search", "restart", "cancel", "check")


class TemplateTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the action of a template is done."""

    task: str | None = None  # a restart: from this actor's tasks on
    fresh_signals: bool = False
    compensate: bool = True  # a cancel


class Template(msgspec.Struct, frozen=True):
    """A filter with its action, kept under a name."""

    name: str
    action: str
    filter: ProcessFilter
    created_by: str
    created_at: datetime
    terms: TemplateTerms = TemplateTerms()


class TemplateRow(NamedTuple):
    """A row of list_templates.sql."""

    name: str
    kind: str
    filter: str  # JSON
    created_by: str
    created_at: datetime
    terms: str | None  # JSON


async def save_template(
    tx: Tx,
    name: str,
    wanted: ProcessFilter,
    *,
    action: str = "search",
    terms: TemplateTerms | None = None,
    source: str = "",
) -> None:
    """Keep a filter with its action, and how that is done, under a name."""
    check_text("a template's name", name, TEMPLATE_BYTES)
    if action not in ACTIONS:
        raise InvalidSetting(
            f"the action of a template is one of {', '.join(ACTIONS)}, got {action!r}"
            f"{nearest(str(action), ACTIONS)}"
        )
    await check_search(tx, wanted)
    await tx.run(
        SQL["save_template"],
        name=name,
        kind=action,
        filter=wanted.encode(),
        created_by=source,
        terms=None if terms is None else msgspec.json.encode(terms).decode(),
    )


async def list_templates(tx: Tx, *, name: str | None = None) -> list[Template]:
    """The filters that were kept."""
    rows = await tx.rows(SQL["list_templates"], TemplateRow, name=name)
    return [
        Template(
            row.name,
            row.kind,
            ProcessFilter.decode(row.filter),
            row.created_by,
            row.created_at,
            msgspec.json.decode(row.terms or "{}", type=TemplateTerms),
        )
        for row in rows
    ]


async def find_template(tx: Tx, name: str) -> Template:
    """The filter of a name; an error that names the nearest otherwise."""
    if found := await list_templates(tx, name=name):
        return found[0]
    known = [t.name for t in await list_templates(tx)]
    raise NotFound(f"no template is named {name!r}{nearest(name, known)}")


async def run_template(
    connection: Connection,
    name: str,
    *,
    source: str,
    rate: float | None,
    priority: int,
    dry_run: bool,
) -> Operation:
    """Begin the operation that a template is kept for. Its filter and its terms are read in the same
    transaction: one that is kept anew meanwhile is the old one or the new, not a mixture."""
    kept = await find_template(connection, name)
    wanted, terms = kept.filter, kept.terms
    what: BulkOrder
    match kept.action:
        case "restart":
            what = RestartProcesses(wanted, terms.fresh_signals, rate, priority, terms.task)
        case "cancel":
            what = CancelProcesses(wanted, rate, priority, terms.compensate)
        case "check":
            what = CheckProcesses(wanted, rate, priority)
        case _:
            raise InvalidSetting(
                f"template {name!r} is kept for {kept.action}, which is no order: "
                f"mainspring processes search --template {name!r}"
            )
    kind = f"{kept.action}_processes"
    return await bulk.order(connection, kind, what, source=source, dry_run=dry_run)
