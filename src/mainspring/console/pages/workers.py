"""Workers, pools, and who elsewhere is away."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """Drawn from the snapshot alone."""
    sight = await look.sight()
    values = {"status": sight.status}
    return Page("workers.html", "Workers", values, command="mainspring status", live="glance")
