"""Times, spans, counts, states and addresses as people read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode

# Each state has a shape, a word and a colour: the class of the style sheet that has all three.
SHAPES = {
    "done": "done",
    "again": "done",
    "running": "run",
    "waiting": "wait",
    "ready": "wait",
    "open": "run",
    "scheduled": "sched",
    "retry": "retry",
    "late": "retry",
    "parked": "parked",
    "failed": "parked",
    "bad": "parked",
    "warning": "retry",
    "ok": "done",
    "paused": "paused",
    "unserved": "no",
    "false": "no",
    "cancelled": "off",
    "expired": "off",
    "superseded": "off",
    "idle": "wait",
    "dry run": "wait",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def shape(state: str) -> str:
    """The class of a state."""
    return SHAPES.get(state, "wait")


def span(length: float | timedelta | None) -> str:
    """A length of time in two units at most: `1 h 10 m`."""
    if length is None:
        return "-"
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{sign}{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{sign}{seconds:.1f} s".replace(".0 s", " s")
    left, parts = round(seconds), list[str]()
    for unit, size in _UNITS:
        if left >= size or parts:
            if number := left // size:
                parts.append(f"{number} {unit}")
            left %= size
            if len(parts) == 2 or (parts and unit == "s"):
                break
    return sign + " ".join(parts)


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago, or in how long."""
    if at is None:
        return "-"
    length = (now - at).total_seconds()
    if abs(length) < 1:
        return "now"
    return f"{span(length)} ago" if length > 0 else f"in {span(-length)}"


def utc(at: datetime | None, now: datetime | None = None) -> str:
    """A moment in UTC; of another day with its date."""
    if at is None:
        return "-"
    at = at.astimezone(UTC)
    if now is not None and at.date() == now.astimezone(UTC).date():
        return f"{at:%H:%M:%S}Z"
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def number(value: object) -> str:
    """A figure with its thousands apart."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def first_line(text: str | None, most: int = 200) -> str:
    """The first line of a text, cut."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"


def order_path(action: str, fields: Mapping[str, object], back: str = "") -> str:
    """Where the form of an order is sent to: what it is about is part of the address."""
    return link(f"/orders/{action}", **{"back": back, **fields})


def plan_path(action: str, fields: Mapping[str, object], back: str = "") -> str:
    """Where it is shown what an order would touch."""
    return link(f"/plans/{action}", **{"back": back, **fields})


def link(path: str, **query: object) -> str:
    """A path with a query; what is None is left out."""
    given = {name: str(value) for name, value in query.items() if value is not None and value != ""}
    return quote(path) + (f"?{urlencode(given)}" if given else "")
