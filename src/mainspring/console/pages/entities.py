"""Kinds of entities; one entity with its stages, states, events, and who changed what."""

from __future__ import annotations

from shlex import quote

from mainspring.console.look import Crumb, Page, Visitor
from mainspring.console.words import link
from mainspring.errors import NotFound


async def kinds(look: Visitor) -> Page:
    """All kinds."""
    values = {"kinds": await look.operator.entities.kinds()}
    return Page("kinds.html", "Entities", values, command="mainspring entities list")


async def kind(look: Visitor) -> Page:
    """A kind: what lies in its queues, who hears its events."""
    name = look.needed("name")
    found = await look.operator.entities.kind(name)
    outbox = [load for load in await look.operator.entities.outbox() if load.kind == name]
    failures = await look.operator.entities.ask_failures(name)
    crawl = None if found.crawl is None else await look.operator.operation(found.crawl)
    values = {"kind": found, "outbox": outbox, "failures": failures, "crawl": crawl}
    return Page(
        "kind.html",
        name,
        values,
        (Crumb("Entities", "/entities"),),
        command=f"mainspring entities show {name}",
    )


async def one(look: Visitor) -> Page:
    """One entity: in which queues and why it waits there, then all that is known."""
    kind, id = look.needed("kind"), look.needed("id")
    found = await look.operator.entities.why(kind, id)
    if not found.is_known:
        raise NotFound(f"nothing is known of {kind} {id}: no entity, visit, state or history")
    crumbs = (Crumb("Entities", "/entities"), Crumb(kind, link("/entities/kind", name=kind)))
    command = f"mainspring why {quote(kind)} {quote(id)}"
    return Page("entity.html", f"{kind} {id}", {"found": found}, crumbs, command)
