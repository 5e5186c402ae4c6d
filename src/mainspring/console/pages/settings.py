"""Settings of process types and actors as they are in force, and who changed them."""

from __future__ import annotations

from mainspring.console.look import PAGE, Page, Visitor


async def page(look: Visitor) -> Page:
    """All of them, then the changes, newest first."""
    processes = look.operator.processes
    values = {
        "types": await processes.settings(),
        "actors": await processes.actors(),
        "changes": await processes.setting_changes(limit=PAGE),
        "counters": await processes.counters(),
    }
    return Page("settings.html", "Settings", values, command="mainspring processes settings")
