"""Processes: found by type, state, attributes and error; one of them, why it stands, and its graph."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from shlex import quote

from mainspring.console.drawing import gantt, graph
from mainspring.console.look import PAGE, Crumb, Page, Visitor, read_moment, read_pairs
from mainspring.console.remedies import CauseShown, of_process
from mainspring.errors import InvalidSetting
from mainspring.processes.operate.graph import GraphTask, tree
from mainspring.processes.operate.search import STATES, ProcessFilter
from mainspring.processes.operate.why import ProcessCause

NAMES = ("type", "state", "id", "error", "task", "attrs", "since", "until", "parked")


def process_filter(get: Callable[[str], str | None]) -> ProcessFilter:
    """Which processes, by the fields of a query or a form."""
    return ProcessFilter(
        type=get("type"),
        state=get("state"),
        id=get("id"),
        since=read_moment("since", get("since")),
        until=read_moment("until", get("until")),
        attrs=read_pairs("attrs", get("attrs")) or None,
        task=get("task"),
        error=get("error"),
        parked=get("parked") is not None,
    )


async def found(look: Visitor) -> Page:
    """A page of them, newest first; or those of a filter that was saved under a name."""
    wanted = process_filter(look.text)
    if (template := look.text("template")) is not None:
        wanted = (await look.operator.processes.template(template)).filter
    processes = await look.operator.processes.search(wanted, before=_before(look), limit=PAGE)
    groups = await look.operator.processes.parked_groups(type=wanted.type)
    given = {name: look.text(name) or "" for name in NAMES}
    values = {
        "processes": processes,
        "groups": groups[:10],
        "given": given,
        "states": STATES,
        "templates": await look.operator.processes.templates(),
        "template": template or "",
        "most": PAGE,
    }
    return Page("processes.html", "Processes", values, command="mainspring processes list")


async def one(look: Visitor) -> Page:
    """One: why it does not go on, its tasks and who waits for whom."""
    id = look.needed("id")
    process = await look.operator.processes.find(id)
    drawn = await look.operator.processes.graph(
        process.id, superseded=look.text("superseded") is not None
    )
    why = await look.operator.processes.why(process.id)
    tasks = {task.id: task for task in drawn.tasks}
    values = {
        "process": process,
        "graph": drawn,
        "standing": [_standing(process.id, cause, tasks) for cause in why.causes],
        "tree": tree(drawn),
        "picture": graph.draw(drawn.tasks),
        "gantt": gantt.draw(drawn.tasks, process.ended_at or look.now),
        "shown": drawn.tasks[:ROWS],
    }
    command = f"mainspring processes show {quote(id)}"
    title = f"{process.type} {process.key}"
    live = "poll" if process.ended_at is None else ""
    return Page("process.html", title, values, (Crumb("Processes", "/processes"),), command, live)


ROWS = 200


def _standing(process: str, cause: ProcessCause, tasks: dict[str, GraphTask]) -> CauseShown:
    task = tasks.get(cause.task or "")
    actor, signal = (task.actor, task.signal or "") if task else ("", "")
    button = of_process(cause.name, process, cause.task, actor, signal)
    return CauseShown(cause.name, cause.text, cause.remedy, button)


def _before(look: Visitor) -> tuple[datetime, str] | None:
    at, id = look.text("at"), look.text("before")
    if at is None or id is None:
        return None
    try:
        return datetime.fromisoformat(at), id
    except ValueError:
        raise InvalidSetting(f"at must be a time, got {at!r}") from None
