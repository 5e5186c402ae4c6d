"""Past runs, by queue, key, time, outcome, error and payload field."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

import msgspec

from mainspring.console.look import PAGE, Page, Visitor
from mainspring.errors import InvalidSetting
from mainspring.operate.history import OUTCOMES, HistoryFilter, HistoryPosition


async def found(look: Visitor) -> Page:
    """A page of them, newest first. There is no total: nobody counts ten million runs to show fifty."""
    outcome = look.text("outcome")
    field = look.text("field")
    wanted = HistoryFilter(
        queue=look.text("queue"),
        key=look.text("key"),
        group=look.text("group"),
        since=look.moment("since"),
        until=look.moment("until"),
        outcomes=[outcome] if outcome else None,
        error=look.text("error"),
        error_type=look.text("error_type"),
        fields=_field(field) if field else {},
    )
    runs = await look.operator.history(wanted, limit=PAGE, before=_before(look))
    names = ("queue", "key", "outcome", "error", "error_type", "field", "since", "until")
    given = {name: look.text(name) or "" for name in names}
    command = "mainspring history"
    if wanted.queue:
        command += f" --queue {quote(wanted.queue)}"
    values = {"runs": runs, "given": given, "outcomes": OUTCOMES, "most": PAGE}
    return Page("history.html", "History", values, command=command)


def _field(text: str) -> dict[str, object]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidSetting(f"field must be name=value, got {text!r}")
    try:
        return {name: msgspec.json.decode(value)}
    except msgspec.DecodeError:
        return {name: value}


def _before(look: Visitor) -> HistoryPosition | None:
    at, run = look.text("at"), look.number("run")
    if at is None or run is None:
        return None
    try:
        return HistoryPosition(datetime.fromisoformat(at), run)
    except ValueError:
        raise InvalidSetting(f"at must be a time, got {at!r}") from None
