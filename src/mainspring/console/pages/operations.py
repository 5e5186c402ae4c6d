"""Operations: bulk jobs, their progress, and what they could not do."""

from __future__ import annotations

from mainspring.console.look import PAGE, Crumb, Page, Visitor
from mainspring.errors import InvalidSetting


async def found(look: Visitor) -> Page:
    """Newest first."""
    operations = await look.operator.operations(before=look.number("before"), limit=PAGE)
    values = {"operations": operations, "most": PAGE}
    return Page("operations.html", "Operations", values, command="mainspring operations list")


async def one(look: Visitor) -> Page:
    """One, as it stands."""
    id = look.number("id")
    if id is None:
        raise InvalidSetting("this page needs id in its address")
    operation = await look.operator.operation(id)
    failed = await look.operator.operation_items(id, failed_only=True, limit=PAGE)
    values = {"operation": operation, "failed": failed}
    crumbs = (Crumb("Operations", "/operations"),)
    command = f"mainspring operations show {id}"
    return Page("operation.html", f"Operation {id}", values, crumbs, command)
