"""Past runs, by queue, key, time, outcome, error and payload field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from shlex import quote

from mainspring.console.look import PAGE, Page, Visitor, read_moment, read_pairs
from mainspring.errors import InvalidSetting
from mainspring.operate.history import OUTCOMES, HistoryFilter, HistoryPosition

NAMES = ("queue", "key", "outcome", "error", "error_type", "field", "since", "until")


def past_filter(get: Callable[[str], str | None]) -> HistoryFilter:
    """Which runs, by the fields of a query or a form."""
    outcome = get("outcome")
    return HistoryFilter(
        queue=get("queue"),
        key=get("key"),
        group=get("group"),
        since=read_moment("since", get("since")),
        until=read_moment("until", get("until")),
        outcomes=[outcome] if outcome else None,
        error=get("error"),
        error_type=get("error_type"),
        fields=read_pairs("field", get("field")),
    )


async def found(look: Visitor) -> Page:
    """A page of them, newest first. There is no total: nobody counts ten million runs to show fifty."""
    wanted = past_filter(look.text)
    runs = await look.operator.history(wanted, limit=PAGE, before=_before(look))
    given = {name: look.text(name) or "" for name in NAMES}
    command = "mainspring history"
    if wanted.queue:
        command += f" --queue {quote(wanted.queue)}"
    values = {"runs": runs, "given": given, "outcomes": OUTCOMES, "most": PAGE}
    return Page("history.html", "History", values, command=command)


def _before(look: Visitor) -> HistoryPosition | None:
    at, run = look.text("at"), look.number("run")
    if at is None or run is None:
        return None
    try:
        return HistoryPosition(datetime.fromisoformat(at), run)
    except ValueError:
        raise InvalidSetting(f"at must be a time, got {at!r}") from None
