"""Processes: found by type, state and error; one of them, why it stands still, and its graph."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from mainspring.console.look import PAGE, Crumb, Page, Visitor
from mainspring.errors import InvalidSetting
from mainspring.processes.operate.graph import tree
from mainspring.processes.operate.search import ProcessFilter

STATES = ("open", "done", "failed", "cancelled")


async def found(look: Visitor) -> Page:
    """A page of them, newest first."""
    wanted = ProcessFilter(
        type=look.text("type"),
        state=look.text("state"),
        id=look.text("id"),
        error=look.text("error"),
        parked=look.text("parked") is not None,
    )
    processes = await look.operator.processes.search(wanted, before=_before(look), limit=PAGE)
    groups = await look.operator.processes.parked_groups(type=wanted.type)
    names = ("type", "state", "id", "error", "parked")
    given = {name: look.text(name) or "" for name in names}
    values = {
        "processes": processes,
        "groups": groups[:10],
        "given": given,
        "states": STATES,
        "most": PAGE,
    }
    return Page("processes.html", "Processes", values, command="mainspring processes list")


async def one(look: Visitor) -> Page:
    """One: why it does not go on, its tasks and who waits for whom."""
    id = look.needed("id")
    process = await look.operator.processes.find(id)
    graph = await look.operator.processes.graph(process.id)
    why = await look.operator.processes.why(process.id)
    values = {"process": process, "graph": graph, "why": why, "tree": tree(graph)}
    command = f"mainspring processes show {quote(id)}"
    title = f"{process.type} {process.key}"
    return Page("process.html", title, values, (Crumb("Processes", "/processes"),), command)


def _before(look: Visitor) -> tuple[datetime, str] | None:
    at, id = look.text("at"), look.text("before")
    if at is None or id is None:
        return None
    try:
        return datetime.fromisoformat(at), id
    except ValueError:
        raise InvalidSetting(f"at must be a time, got {at!r}") from None
