"""What the buttons do. Each order has the name that it has in the audit, and is given in the viewer's name.

form     fields, plans, where an order leads
work     queues, tasks, parked ones, history, operations, schedules
undo     what takes an order back
layers   entities, processes, reactive tasks, params, sources

What touches much, or what is hard to foresee, is planned first: that counts and writes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from mainspring.console.look import Page, Visitor
from mainspring.console.orders.form import (
    PREVIEW,
    Form,
    Order,
    Ordered,
    check_typed,
    read_form,
)
from mainspring.console.orders.layers import LAYERS, PLANNED_LAYERS
from mainspring.console.orders.undo import undo_of
from mainspring.console.orders.work import PLANNED_WORK, WORK
from mainspring.errors import NotFound
from mainspring.operate.audit import Origin

SAID = {
    "paused": "Paused. What runs goes on.",
    "resumed": "Resumed.",
    "limited": "The limits are set.",
    "cancelled": "Cancelled. History keeps it.",
    "cancelling": "Its run is told to end.",
    "restarted": "Restarted. It runs as soon as a worker has a slot.",
    "deleted": "Deleted. History keeps it as cancelled.",
    "due": "It is due now.",
    "begun": "The operation has begun.",
    "run": "A run was asked for.",
    "sent": "The signal is sent.",
    "resolved": "What depends on it goes on.",
    "rewound": "The param is moved back.",
    "seen": "What the task has seen is changed.",
    "set": "It is set.",
}
PLANNED: dict[str, Order] = {**PLANNED_WORK, **PLANNED_LAYERS}
ORDERS: dict[str, Order] = {**WORK, **LAYERS, **PLANNED}


async def plan(look: Visitor) -> Page:
    """Show what an order would touch. It writes nothing, so it has an address to go back to."""
    action = look.request.path_params["action"]
    if action not in PLANNED:
        raise NotFound(f"there is no plan of an order {action!r}")
    look.viewer.check(action)
    form = {**look.request.query_params, PREVIEW: "1"}
    page = await PLANNED[action](look, form)
    assert isinstance(page, Page), "a plan writes nothing"
    return replace(page, values={**page.values, "back": way_back(look, form)})


async def take(look: Visitor) -> Page:
    """Carry out an order."""
    action = look.request.path_params["action"]
    if action not in ORDERS:
        raise NotFound(f"there is no order {action!r}")
    look.viewer.check(action)
    form = {**look.request.query_params, **await read_form(look.request)}
    form.pop(PREVIEW, None)
    check_typed(form)
    client = look.request.client
    origin = Origin(
        look.viewer.name, "console", client.host if client else None, form.get("reason") or None
    )
    undo = await undo_of(look, action, form)
    with look.operator.ordered_by(origin):
        answer = await ORDERS[action](look, form)
    if isinstance(answer, Page):
        return answer
    raise Ordered(way_back(look, form), answer, undo.encoded() if undo else "")


def way_back(look: Visitor, form: Form) -> str:
    """The page that the form was on, below where the console is; never another place."""
    root = look.request.scope.get("root_path", "")
    back = form.get("back", "").removeprefix(root)
    # Browsers leave tabs and ends of lines out of an address.
    is_ours = back.isprintable() and back.startswith("/") and not back.startswith(("//", "/\\"))
    return back.partition("#")[0] if is_ours else "/"
