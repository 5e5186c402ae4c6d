"""Parked visits: grouped by queue and kind of error, then one by one."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from mainspring.console.look import PAGE, Crumb, Page, Visitor
from mainspring.console.snapshot import MOST_GROUPS
from mainspring.errors import InvalidSetting
from mainspring.operate.parked import ParkedFilter, ParkedPosition


async def groups(look: Visitor) -> Page:
    """All groups, the largest first. Drawn from the snapshot alone."""
    sight = await look.sight()
    values = {"groups": sight.parked, "total": sight.parked_count, "most": MOST_GROUPS}
    return Page("parked.html", "Parked", values, command="mainspring parked groups", live="glance")


async def members(look: Visitor) -> Page:
    """Those of a group or a filter, newest first, page by page."""
    wanted = ParkedFilter(
        queue=look.text("queue"),
        error_type=look.text("error_type"),
        error=look.text("error"),
        key=look.text("key"),
        group=look.text("group"),
        fingerprint=look.text("fingerprint"),
    )
    if wanted.error and not wanted.queue:
        raise InvalidSetting("the text of errors is looked for within a queue: name one")
    found = await look.operator.parked(wanted, limit=PAGE, before=_before(look))
    # What fits a text is counted by reading it all: the plan of an order does that, not a look.
    total = None if wanted.error else await look.operator.count_parked(wanted)
    values = {"visits": found, "wanted": wanted, "total": total, "most": PAGE}
    command = "mainspring parked list"
    if wanted.queue:
        command += f" --queue {quote(wanted.queue)}"
    title = " ".join(filter(None, (wanted.queue, wanted.error_type))) or "All parked"
    return Page("parked_group.html", title, values, (Crumb("Parked", "/parked"),), command=command)


def _before(look: Visitor) -> ParkedPosition | None:
    at, queue, key = look.text("at"), look.text("bq"), look.text("bk")
    if at is None:
        return None
    try:
        return ParkedPosition(datetime.fromisoformat(at), queue or "", key or "")
    except ValueError:
        raise InvalidSetting(f"at must be a time, got {at!r}") from None
