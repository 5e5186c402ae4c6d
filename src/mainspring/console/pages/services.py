"""Who elsewhere takes part: services that are away, and who gets the events of entities."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """Services that some worker finds away, then each consumer with what waits for it."""
    sight = await look.sight()
    paused = {q.name for q in sight.status.queues if q.paused_at is not None}
    values = {
        "away": sight.status.away,
        "outbox": await look.operator.entities.outbox(),
        "paused": paused,
    }
    return Page("services.html", "Services and events", values, command="mainspring status")
