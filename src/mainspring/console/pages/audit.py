"""Who ordered what."""

from __future__ import annotations

from mainspring.console.look import PAGE, Page, Visitor


async def page(look: Visitor) -> Page:
    """Newest first, page by page."""
    given = {name: look.text(name) for name in ("actor", "action", "target")}
    orders = await look.operator.orders(**given, before=look.number("before"), limit=PAGE)
    shown = {name: value or "" for name, value in given.items()}
    values = {"orders": orders, "given": shown, "most": PAGE}
    return Page("audit.html", "Audit", values, command="mainspring audit")
