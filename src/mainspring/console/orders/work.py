"""Orders on queues, tasks, parked visits, past runs, operations and schedules."""

from __future__ import annotations

from datetime import timedelta

from mainspring.console.look import Crumb, Page, Visitor
from mainspring.console.orders.form import (
    MOST_MINUTES,
    PREVIEW,
    Form,
    Order,
    Ordered,
    Plan,
    needed,
    whole,
)
from mainspring.console.pages.history import past_filter
from mainspring.errors import InvalidSetting
from mainspring.jobs.operation import Operation
from mainspring.operate.calls import CallFilter
from mainspring.operate.parked import ParkedFilter

PARKED = (Crumb("Parked", "/parked"),)
TASKS = (Crumb("Tasks", "/tasks"),)
HISTORY = (Crumb("History", "/history"),)


def begun(operation: Operation) -> Ordered:
    """An operation has begun: its own page shows how far it is."""
    return Ordered(f"/operations/one?id={operation.id}", "begun")


def shown(form: Form, *names: str) -> list[tuple[str, str]]:
    """The conditions of a form, as its plan lists them."""
    return [(name.replace("_", " "), form[name]) for name in names if form.get(name)]


async def _pause(look: Visitor, form: Form) -> str:
    until, minutes = None, form.get("minutes", "")
    if minutes:
        if not (minutes.isascii() and minutes.isdigit()) or not 0 < int(minutes) <= MOST_MINUTES:
            raise InvalidSetting(f"minutes must be 1 to {MOST_MINUTES}, got {minutes!r}")
        until = await look.operator.now() + timedelta(minutes=int(minutes))
    reason = form.get("reason") or None
    await look.operator.pause(needed(form, "queue"), reason=reason, until=until)
    return "paused"


async def _resume(look: Visitor, form: Form) -> str:
    await look.operator.resume(needed(form, "queue"))
    return "resumed"


async def _close_breaker(look: Visitor, form: Form) -> str:
    await look.operator.close_breaker(needed(form, "queue"), group=form.get("group"))
    return "resumed"


async def _limit(look: Visitor, form: Form) -> str:
    limits: dict[str, float | None] = {}
    for name in ("concurrency", "rate", "group_concurrency", "group_rate", "waiting_max"):
        if f"set_{name}" in form:
            text = form.get(name, "")
            try:
                limits[name] = None if not text else float(text) if "rate" in name else int(text)
            except ValueError:
                raise InvalidSetting(f"{name} must be a number, got {text!r}") from None
    await look.operator.limit(needed(form, "queue"), source=look.viewer.name, **limits)
    return "limited"


async def _cancel(look: Visitor, form: Form) -> str:
    queue, key = needed(form, "queue"), needed(form, "key")
    reason = form.get("reason") or f"cancelled by {look.viewer.name}"
    return await look.operator.tasks.cancel(queue, key, group=form.get("group"), reason=reason)


async def _run_now(look: Visitor, form: Form) -> str:
    queue, key = needed(form, "queue"), needed(form, "key")
    await look.operator.tasks.run_now(queue, key, group=form.get("group"))
    return "due"


def _calls(form: Form) -> CallFilter:
    return CallFilter(
        queue=form.get("queue"),
        key=form.get("key"),
        group=form.get("group"),
        state=form.get("state"),
    )


async def _cancel_all(look: Visitor, form: Form) -> Page:
    reason = form.get("reason") or f"cancelled by {look.viewer.name}"
    is_tried = PREVIEW in form
    done = await look.operator.tasks.cancel_all(
        _calls(form), source=look.viewer.name, reason=reason, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "queue", "key", "group", "state")
    return Plan(
        *("operations.cancel_tasks", "Cancel", "calls", done.total or 0, form, facts),
        name=form.get("queue", "all"),
        is_danger=True,
        crumbs=TASKS,
    ).page()


async def _run_all_now(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.tasks.run_all_now(
        _calls(form), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "queue", "key", "group")
    return Plan(
        *("operations.run_tasks_now", "Run now", "calls", done.total or 0, form, facts),
        name=form.get("queue", "all"),
        crumbs=TASKS,
    ).page()


async def _restart(look: Visitor, form: Form) -> str:
    queue, key = needed(form, "queue"), needed(form, "key")
    await look.operator.restart(queue, key, group=form.get("group"))
    return "restarted"


async def _delete(look: Visitor, form: Form) -> str:
    queue, key = needed(form, "queue"), needed(form, "key")
    await look.operator.delete(queue, key, group=form.get("group"))
    return "deleted"


def _parked(form: Form) -> ParkedFilter:
    return ParkedFilter(
        queue=form.get("queue"),
        key=form.get("key"),
        group=form.get("group"),
        error=form.get("error"),
        error_type=form.get("error_type"),
        fingerprint=form.get("fingerprint"),
    )


async def _restart_parked(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.restart_parked(
        _parked(form), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "queue", "key", "group", "error", "error_type", "fingerprint")
    return Plan(
        *("operations.restart_parked", "Restart", "parked visits", done.total or 0, form, facts),
        name=form.get("queue", "all"),
        crumbs=PARKED,
    ).page()


async def _delete_parked(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.delete_parked(
        _parked(form), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "queue", "key", "group", "error", "error_type", "fingerprint")
    return Plan(
        *("operations.delete_parked", "Delete", "parked visits", done.total or 0, form, facts),
        name=form.get("queue", "all"),
        is_danger=True,
        crumbs=PARKED,
    ).page()


async def _put_back(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.put_back(
        past_filter(form.get), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    names = ("queue", "key", "outcome", "error", "error_type", "field", "since", "until")
    return Plan(
        *("operations.put_back", "Put back", "runs", done.total or 0, form, shown(form, *names)),
        name=form.get("queue", "all"),
        crumbs=HISTORY,
    ).page()


async def _pause_operation(look: Visitor, form: Form) -> str:
    await look.operator.pause_operation(whole(form, "id"))
    return "paused"


async def _resume_operation(look: Visitor, form: Form) -> str:
    await look.operator.resume_operation(whole(form, "id"))
    return "resumed"


async def _cancel_operation(look: Visitor, form: Form) -> str:
    await look.operator.cancel_operation(whole(form, "id"))
    return "cancelled"


async def _pause_recurring(look: Visitor, form: Form) -> str:
    await look.operator.pause_recurring(needed(form, "name"), reason=form.get("reason"))
    return "paused"


async def _resume_recurring(look: Visitor, form: Form) -> str:
    await look.operator.resume_recurring(needed(form, "name"))
    return "resumed"


WORK: dict[str, Order] = {
    "queues.pause": _pause,
    "queues.resume": _resume,
    "queues.limit": _limit,
    "breakers.close": _close_breaker,
    "tasks.cancel": _cancel,
    "tasks.run_now": _run_now,
    "parked.restart": _restart,
    "parked.delete": _delete,
    "operations.pause": _pause_operation,
    "operations.resume": _resume_operation,
    "operations.cancel": _cancel_operation,
    "recurring.pause": _pause_recurring,
    "recurring.resume": _resume_recurring,
}
# Those that are shown as a plan before they are given.
PLANNED_WORK: dict[str, Order] = {
    "operations.cancel_tasks": _cancel_all,
    "operations.run_tasks_now": _run_all_now,
    "operations.restart_parked": _restart_parked,
    "operations.delete_parked": _delete_parked,
    "operations.put_back": _put_back,
}
