"""What is wrong with the server, the schema or the tables, with what to do."""

from __future__ import annotations

from mainspring.console.look import Page, Visitor


async def page(look: Visitor) -> Page:
    """Examined when it is asked for."""
    values = {"findings": await look.operator.doctor()}
    return Page("doctor.html", "Doctor", values, command="mainspring doctor")
