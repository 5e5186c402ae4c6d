"""Sources: how far the records of brokers were taken in."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """Every partition."""
    values = {"partitions": await look.operator.sources.partitions()}
    return Page("sources.html", "Sources", values, command="mainspring sources list")
