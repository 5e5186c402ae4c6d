"""Schedules: what comes again, when next."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """All of them."""
    values = {"schedules": await look.operator.recurring()}
    return Page("recurring.html", "Schedules", values, command="mainspring recurring list")
