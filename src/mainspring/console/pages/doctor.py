"""What is wrong with the server, the schema or the tables, with what to do."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """As he found it lately; `now`: he looks while you wait."""
    shared = look.snapshot
    if look.text("now") is not None:
        await shared.examine(now=True)
    values = {"findings": shared.findings, "examined_at": shared.examined_at}
    return Page("doctor.html", "Doctor", values, command="mainspring doctor", live="glance")
