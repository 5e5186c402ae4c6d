"""Reactive tasks and params: why a task runs or does not, and what was set by whom."""

from __future__ import annotations

from shlex import quote

from mainspring.console.look import PAGE, Crumb, Page, Visitor
from mainspring.operate.history import HistoryFilter
from mainspring.reactive.operate.why import why as why_reactive


async def tasks(look: Visitor) -> Page:
    """By name, page by page."""
    found = await look.app.reactive.tasks(after=look.text("after") or "", limit=PAGE)
    values = {"tasks": found, "load": await look.app.reactive.load(), "most": PAGE}
    return Page("reactive.html", "Reactive tasks", values, command="mainspring reactive list")


async def one(look: Visitor) -> Page:
    """One: its trigger with values and verdicts, and the next fact that would change it."""
    task = look.needed("task")
    told = await why_reactive(look.app.reactive, task)
    (state,) = await look.app.reactive.tasks(task=task)
    evaluations = await look.app.reactive.evaluations(task, limit=20)
    runs = await look.operator.history(HistoryFilter(queue=task), limit=20)
    values = {"why": told, "task": state, "evaluations": evaluations, "runs": runs}
    crumbs = (Crumb("Reactive tasks", "/reactive"),)
    return Page("reactive_task.html", task, values, crumbs, f"mainspring why {quote(task)}", "poll")


async def params(look: Visitor) -> Page:
    """By name, page by page."""
    found = await look.app.reactive.params(after=look.text("after") or "", limit=PAGE)
    return Page(
        "params.html",
        "Params",
        {"params": found, "most": PAGE},
        command="mainspring params list",
    )


async def param(look: Visitor) -> Page:
    """One: its value, what was set by whom, and who has seen more than it has now."""
    name = look.needed("name")
    (state,) = await look.app.reactive.params(name=name)
    values = {
        "param": state,
        "changes": await look.app.reactive.param_history(name, limit=PAGE),
        "affected": await look.app.reactive.affected(name),
    }
    crumbs = (Crumb("Params", "/params"),)
    return Page("param.html", name, values, crumbs, f"mainspring params history {quote(name)}")
