"""Queues: what lies in them, their limits, and the tasks that come next."""

from __future__ import annotations

from mainspring.console.look import Crumb, Page, Visitor
from mainspring.console.remedies import standing
from mainspring.declaring import OWN
from mainspring.errors import NotFound
from mainspring.operate.queues import SET_BY_OPERATORS

NEXT = 20


async def all_queues(look: Visitor) -> Page:
    """Every queue; those of the engine itself only on demand. Drawn from the snapshot alone."""
    sight = await look.sight()
    own = look.text("own") is not None
    name = look.text("name")
    found = [
        q
        for q in sight.status.queues
        if (own or not q.name.startswith(OWN)) and (name is None or name in q.name)
    ]
    found.sort(key=lambda q: (not q.unserved, -q.lag_seconds, -q.parked, -q.waiting, q.name))
    values = {"queues": found, "own": own, "name": name or ""}
    return Page("queues.html", "Queues", values, command="mainspring queues list", live="glance")


async def one(look: Visitor) -> Page:
    """A queue: why its first visit waits, its limits, what comes next, what ended last."""
    name = look.needed("name")
    found = await look.operator.queues(name=name)
    if not found:
        await look.operator.check_queue(name)
        raise NotFound(f"no queue is named {name!r}")
    sight = await look.sight()
    coming = await look.operator.visits(queue=name, limit=NEXT)
    first = next((visit for visit in coming if visit.state == "waiting"), None)
    why = None
    if first is not None:
        why = await look.operator.why(name, first.key, group=first.group)
    values = {
        "queue": found[0],
        "coming": coming,
        "breakers": await look.operator.breakers(queue=name),
        "standing": [] if why is None else standing(why),
        "runs": [t for t in sight.status.throughput if t.queue == name],
        "limits": {limit: getattr(found[0], limit) for limit in SET_BY_OPERATORS},
    }
    crumbs = (Crumb("Queues", "/queues"),)
    return Page("queue.html", name, values, crumbs, command=f"mainspring tasks list --queue {name}")
