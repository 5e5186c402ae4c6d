"""What the buttons do. Each order has the name that it has in the audit, and is given in the viewer's name.

A mass order is previewed first: the same form with `preview`, which counts and writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

from mainspring.console.guard import LONGEST_FORM
from mainspring.console.look import Moved, Page, Visitor
from mainspring.errors import InvalidSetting, NotFound
from mainspring.operate.audit import Origin
from mainspring.operate.parked import ParkedFilter

SAID = {
    "paused": "Paused. What runs goes on.",
    "resumed": "Resumed.",
    "limited": "The limits are set.",
    "cancelled": "Cancelled. History keeps it.",
    "restarted": "Restarted. It runs as soon as a worker has a slot.",
    "deleted": "Deleted. History keeps it as cancelled.",
    "begun": "The operation has begun.",
    "run": "A run was asked for.",
}

# A pause from the console ends after so long at most: a week.
MOST_MINUTES = 10_080


class Ordered(Moved):
    """An order was carried out; where to look now."""

    def __init__(self, path: str, said: str) -> None:
        super().__init__(path + ("&" if "?" in path else "?") + urlencode({"said": said}))


Form = Mapping[str, str]
Order = Callable[[Visitor, Form], Awaitable[Page | str]]


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that is no longer than forms are."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise InvalidSetting(f"the form has more than {LONGEST_FORM} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=False, max_num_fields=100))
    except ValueError:
        raise InvalidSetting("the form cannot be read") from None


async def take(look: Visitor) -> Page:
    """Carry out an order, or show what it would touch."""
    action = look.request.path_params["action"]
    if action not in ORDERS:
        raise NotFound(f"there is no order {action!r}")
    look.viewer.check(action)
    form = await read_form(look.request)
    client = look.request.client
    origin = Origin(
        look.viewer.name, "console", client.host if client else None, form.get("reason") or None
    )
    with look.operator.ordered_by(origin):
        answer = await ORDERS[action](look, form)
    if isinstance(answer, Page):
        return answer
    raise Ordered(_way_back(look, form), answer)


def _way_back(look: Visitor, form: Form) -> str:
    """The page that the form was on, below where the console is; never another place."""
    root = look.request.scope.get("root_path", "")
    back = form.get("back", "").removeprefix(root)
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    return back.partition("#")[0] if is_ours else "/"


def _needed(form: Form, name: str) -> str:
    if not (value := form.get(name)):
        raise InvalidSetting(f"the form lacks {name}")
    return value


async def _pause(look: Visitor, form: Form) -> str:
    until, minutes = None, form.get("minutes", "")
    if minutes:
        if not (minutes.isascii() and minutes.isdigit()) or not 0 < int(minutes) <= MOST_MINUTES:
            raise InvalidSetting(f"minutes must be 1 to {MOST_MINUTES}, got {minutes!r}")
        until = await look.operator.now() + timedelta(minutes=int(minutes))
    reason = form.get("reason") or None
    await look.operator.pause(_needed(form, "queue"), reason=reason, until=until)
    return "paused"


async def _resume(look: Visitor, form: Form) -> str:
    await look.operator.resume(_needed(form, "queue"))
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
    await look.operator.limit(_needed(form, "queue"), source=look.viewer.name, **limits)
    return "limited"


async def _cancel(look: Visitor, form: Form) -> str:
    queue, key = _needed(form, "queue"), _needed(form, "key")
    reason = f"cancelled by {look.viewer.name}"
    await look.operator.cancel(queue, key, group=form.get("group"), reason=reason)
    return "cancelled"


async def _restart(look: Visitor, form: Form) -> str:
    queue, key = _needed(form, "queue"), _needed(form, "key")
    await look.operator.restart(queue, key, group=form.get("group"))
    return "restarted"


async def _delete(look: Visitor, form: Form) -> str:
    queue, key = _needed(form, "queue"), _needed(form, "key")
    await look.operator.delete(queue, key, group=form.get("group"))
    return "deleted"


def _parked_filter(form: Form) -> ParkedFilter:
    return ParkedFilter(
        queue=form.get("queue"),
        key=form.get("key"),
        group=form.get("group"),
        error=form.get("error"),
        error_type=form.get("error_type"),
    )


async def _restart_parked(look: Visitor, form: Form) -> Page | str:
    """Many at once: counted first, then an operation."""
    wanted = _parked_filter(form)
    if "preview" in form:
        found = await look.operator.restart_parked(wanted, source=look.viewer.name, dry_run=True)
        return _plan("operations.restart_parked", "Restart", found.total or 0, form)
    begun = await look.operator.restart_parked(wanted, source=look.viewer.name)
    raise Ordered(f"/operations/one?id={begun.id}", "begun")


async def _delete_parked(look: Visitor, form: Form) -> Page | str:
    wanted = _parked_filter(form)
    if "preview" in form:
        found = await look.operator.delete_parked(wanted, source=look.viewer.name, dry_run=True)
        return _plan("operations.delete_parked", "Delete", found.total or 0, form)
    begun = await look.operator.delete_parked(wanted, source=look.viewer.name)
    raise Ordered(f"/operations/one?id={begun.id}", "begun")


def _plan(action: str, verb: str, count: int, form: Form) -> Page:
    """What an order would touch. Nothing is written."""
    fields = {name: value for name, value in form.items() if name not in ("preview", "reason")}
    values = {"action": action, "verb": verb, "count": count, "fields": fields}
    return Page("plan.html", f"{verb} {count:,} parked", values)


def _operation(verb: str) -> Order:
    async def order(look: Visitor, form: Form) -> str:
        text = _needed(form, "id")
        if not text.isdigit():
            raise InvalidSetting(f"id must be a number, got {text!r}")
        operator = look.operator
        act = {
            "pause": operator.pause_operation,
            "resume": operator.resume_operation,
            "cancel": operator.cancel_operation,
        }[verb]
        await act(int(text))
        return {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[verb]

    return order


async def _pause_recurring(look: Visitor, form: Form) -> str:
    await look.operator.pause_recurring(_needed(form, "name"))
    return "paused"


async def _resume_recurring(look: Visitor, form: Form) -> str:
    await look.operator.resume_recurring(_needed(form, "name"))
    return "resumed"


async def _cancel_process(look: Visitor, form: Form) -> str:
    await look.operator.processes.cancel(_needed(form, "id"))
    return "cancelled"


async def _restart_process(look: Visitor, form: Form) -> str:
    await look.operator.processes.restart(_needed(form, "id"), form.get("task"))
    return "restarted"


async def _run_reactive(look: Visitor, form: Form) -> str:
    await look.app.reactive.run(_needed(form, "task"), by=look.viewer.name)
    return "run"


async def _pause_reactive(look: Visitor, form: Form) -> str:
    await look.app.reactive.pause(_needed(form, "task"))
    return "paused"


async def _resume_reactive(look: Visitor, form: Form) -> str:
    await look.app.reactive.resume(_needed(form, "task"))
    return "resumed"


async def _ask_entity(look: Visitor, form: Form) -> str:
    await look.operator.entities.offer(_needed(form, "kind"), _needed(form, "id"))
    return "run"


async def _pause_source(look: Visitor, form: Form) -> str:
    await look.operator.sources.pause(_needed(form, "source"))
    return "paused"


async def _resume_source(look: Visitor, form: Form) -> str:
    await look.operator.sources.resume(_needed(form, "source"), form.get("partition"))
    return "resumed"


ORDERS: dict[str, Order] = {
    "queues.pause": _pause,
    "queues.resume": _resume,
    "queues.limit": _limit,
    "tasks.cancel": _cancel,
    "parked.restart": _restart,
    "parked.delete": _delete,
    "operations.restart_parked": _restart_parked,
    "operations.delete_parked": _delete_parked,
    "operations.pause": _operation("pause"),
    "operations.resume": _operation("resume"),
    "operations.cancel": _operation("cancel"),
    "recurring.pause": _pause_recurring,
    "recurring.resume": _resume_recurring,
    "processes.cancel": _cancel_process,
    "processes.restart": _restart_process,
    "reactive.run": _run_reactive,
    "reactive.pause": _pause_reactive,
    "reactive.resume": _resume_reactive,
    "entities.offer": _ask_entity,
    "sources.pause": _pause_source,
    "sources.resume": _resume_source,
}
